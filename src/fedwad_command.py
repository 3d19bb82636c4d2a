"""The command `fedwad`.

It is outside the package, so that Ctrl-C while the package loads ends it without a traceback, too.
"""

import os
import sys
from contextlib import suppress

__all__ = ["main", "run"]

_INTERRUPTED = 130  # exit code


def run() -> None:
    """Run the command line, and end this process at once after Ctrl-C.

    Python would first wait for threads, and those of PyTorch would abort the process. If Ctrl-C
    came during an `exec`, as of a dataclass, Python would end by the signal and not by the code.
    """
    try:
        main()
    except SystemExit as ended:
        if ended.code != _INTERRUPTED:
            raise
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(_INTERRUPTED)


def main() -> None:
    """Run the command line."""
    try:
        from fedwad.cli.app import app

        app()
    except KeyboardInterrupt:
        _end_interrupted()
    except SystemExit as ended:
        # If Ctrl-C comes before a command has begun, Typer exits because of it in silence.
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
            _end_interrupted()
        raise


def _end_interrupted() -> None:
    sys.stderr.write("Interrupted; no result was written.\n")
    sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
