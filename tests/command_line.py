"""The command line in this process: the same arguments, exit codes and outputs, without a start."""

import io
import logging
import os
import sys
import traceback
from contextlib import chdir, redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch
from warnings import catch_warnings, simplefilter

with catch_warnings():
    simplefilter("ignore", DeprecationWarning)  # of typer's own use of click
    from fedwad.cli import console
    from fedwad.cli.app import app


def run(*words, cwd=None, columns=100):
    """What `python -m fedwad WORDS` does and prints; tests of start and Ctrl-C use real processes."""
    arguments = [*map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(cwd or "."),
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", ["fedwad", *arguments]),
        patch.dict(os.environ, {"COLUMNS": str(columns), "NO_COLOR": "1"}),
    ):
        _widen(columns)
        logger = logging.getLogger("fedwad")  # which --verbose changes
        kept = logger.handlers, logger.level
        code = _code(arguments)
        logger.handlers, logger.level = kept
    return CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def _code(arguments):
    try:
        app(arguments, prog_name="fedwad")
    except SystemExit as end:
        return end.code or 0
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _widen(columns):
    """Consoles read the width of the terminal when they are made, once."""
    for made in (console.screen, console.stderr):
        made.width, made.no_color = columns, True
