"""The command `fedwad`.

It is outside the package, so that Ctrl-C ends it without a traceback also while the package loads.
"""

import os
import sys
from contextlib import suppress

__all__ = ["main", "run"]

_ERROR, _INTERRUPTED = 2, 130  # exit codes


def run() -> None:
    """Run the command line, and end this process at once after an error or Ctrl-C.

    Python would first wait for threads that still read files of other sites, and those of PyTorch
    and pyarrow may abort the process. If Ctrl-C came during an `exec`, which the definition of a
    dataclass calls, Python would end by the signal and not with the exit code.
    """
    try:
        main()
    except SystemExit as end:
        if end.code not in (_ERROR, _INTERRUPTED):
            raise
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(end.code)


def main() -> None:
    """Run the command line."""
    try:
        from fedwad.cli.app import app

        app()
    except KeyboardInterrupt:
        _exit_interrupted()
    except SystemExit as end:
        # If Ctrl-C comes before a command has begun, Typer exits without a message.
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            _exit_interrupted()
        raise


def _exit_interrupted() -> None:
    sys.stderr.write("Interrupted; no result was written.\n")
    sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
