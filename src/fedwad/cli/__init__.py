"""The command line."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. Loading it takes a moment, in which Ctrl-C is no crash either."""
    try:
        from fedwad.cli.app import app
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; no result was written.\n")
        sys.exit(130)
    app()
