"""The command `fedwad`.

It is outside the package, so that Ctrl-C while the package loads ends it without a traceback, too.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from fedwad.cli.app import app
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; no result was written.\n")
        sys.exit(130)
    app()


if __name__ == "__main__":
    main()
