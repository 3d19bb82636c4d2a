"""The command line."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. Ctrl-C while it loads ends it without a traceback, too."""
    try:
        from fedwad.cli.app import app
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; no result was written.\n")
        sys.exit(130)
    app()
