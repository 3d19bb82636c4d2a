"""What all commands share: where output goes, how errors and progress are shown."""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from fedwad._matrix.api import Progress as Step
from fedwad._words import format_bytes, to_printable
from fedwad.errors import DataWarning, FedwadError
from fedwad.federation import Traffic
from fedwad.ot import announce_compiling

__all__ = [
    "EXIT_DIFFERENT",
    "Bar",
    "command_line",
    "describe_traffic",
    "exit_on_error",
    "make_table",
    "print_failed",
    "print_json",
    "print_path",
    "print_text",
    "progress_bar",
    "screen",
    "stderr",
    "use_option_names",
    "warn_small_cells",
]

_FEW_SAMPLES = 10
_QUOTED = r"'[^']*'|\"[^\"]*\""  # as `shlex.quote` quotes; commas and brackets may be inside

#: The exit code of a command that found what it looked for: a difference, a drift, a stranger.
EXIT_DIFFERENT = 3

#: Standard output, for results; with --json it has nothing but the one object.
screen = Console(highlight=False)
#: Standard error, for errors, progress, and what a command says about reading its files.
stderr = Console(stderr=True, highlight=False)

P = ParamSpec("P")
T = TypeVar("T")


def exit_on_error(command: Callable[P, T]) -> Callable[P, T]:
    """Print an error that a user can cause as one sentence and exit with 2; exit 130 on Ctrl-C."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        announce_compiling(_say_compiling)
        try:
            with warnings.catch_warnings():  # commands print what they warn about themselves
                warnings.simplefilter("ignore", DataWarning)
                return command(*args, **kwargs)
        except FedwadError as error:
            sentence = use_option_names(str(error))
            stderr.print(Text.assemble(("Error:", "bold red"), f" {sentence}"), soft_wrap=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            stderr.print("Interrupted; no result was written.")
            raise typer.Exit(130) from None

    wrapper.__doc__ = _join_lines(command.__doc__)
    return wrapper


def _say_compiling() -> None:
    """Say on a terminal why the first run on a machine takes longer."""
    if stderr.is_terminal:
        stderr.print("Compiling for this machine: some seconds, once. (fedwad warm-up)")


def use_option_names(sentence: str) -> str:
    """Return a sentence of the library with options of the command line instead of keywords.

    >>> use_option_names("Column 'ca' has no values; drop it (drop: ca, 'last name').")
    "Column 'ca' has no values; drop it (--drop ca --drop 'last name')."
    >>> use_option_names("All values are 0; say so (missing: chol=0).")
    'All values are 0; say so (--missing chol=0).'
    """

    def to_options(match: re.Match[str]) -> str:
        words = re.split(rf", (?=(?:{_QUOTED}|[^'\"])*$)", match[2])
        return f"({' '.join(f'--{match[1]} {word}' for word in words)})"

    return re.sub(rf"\((drop|missing): ((?:{_QUOTED}|.)*?)\)(?=[,.;]|$)", to_options, sentence)


def _join_lines(text: str | None) -> str:
    """Return a docstring with each paragraph on one line, so that help fits any terminal."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def print_failed(name: str, reason: str) -> None:
    """Say that the result lacks this site, and the reason that the site gave."""
    line = Text.assemble((f"Without {to_printable(name)}:", "bold"), f" {to_printable(reason)}")
    screen.print(line, soft_wrap=True)


def print_text(text: str) -> None:
    """Print text as it is; the terminal breaks its lines."""
    screen.print(text, soft_wrap=True, markup=False)


def print_path(title: str, path: Path | None) -> None:
    """Say where a file was written, if one was."""
    if path is not None:
        print_text(f"{title}: {path}")


def describe_traffic(traffic: Traffic) -> str:
    """Return what was sent, in words."""
    sent = f"{format_bytes(traffic.up)} by the sites in {traffic.messages} messages"
    return f"{sent}, {format_bytes(traffic.down)} to them"


def command_line() -> str:
    """Return the command as it was typed, for reports."""
    return shlex.join(["fedwad", *sys.argv[1:]])


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    typer.echo(json.dumps(content))


class Bar:
    """A bar that shows the steps of an algorithm, or the last line of progress of an engine."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def progress(self, step: Step) -> None:
        self._progress.update(
            self._task, description=step.stage.capitalize(), completed=step.done, total=step.total
        )

    def line(self, text: str) -> None:
        self._progress.update(self._task, description=to_printable(text))


@contextmanager
def progress_bar(title: str) -> Iterator[Bar]:
    """Show a bar on standard error whose length becomes known on the way."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),  # lines come from an engine
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=stderr,
        transient=True,
        disable=not stderr.is_terminal,
    ) as progress:
        yield Bar(progress, progress.add_task(title, total=None))


def make_table(*titles: str, left: Collection[str] = (), no_wrap: bool = False) -> Table:
    """Return a table without lines; its columns are flush right, those in `left` flush left."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in titles:
        table.add_column(title, justify="left" if title in left else "right", no_wrap=no_wrap)
    return table


def warn_small_cells(min_cell_size: int | None, method: str) -> None:
    """Print a warning if a number that was sent stands for few samples.

    `method` is that of a distance or matrix, or else "coreset" or "embed".
    """
    if min_cell_size is None or min_cell_size >= _FEW_SAMPLES:
        return
    what = (
        "single samples were sent as they are"
        if min_cell_size == 1
        else f"some numbers that were sent stand for only {min_cell_size} samples"
    )
    if method == "summary":
        advice = (
            f"A site with fewer than {_FEW_SAMPLES} samples has one cell; a policy can refuse that."
        )
    elif method == "coreset":
        advice = "At a real site the policy can refuse cells of few samples."
    elif method == "embed":
        advice = "With real sites take a smaller --support; a policy can refuse small cells."
    else:
        advice = (
            "With real sites take a smaller --support, or --method summary, which keeps at least"
            f" {_FEW_SAMPLES} samples in a cell where a site has as many."
        )
    print_text(f"Warning: {what}. {advice}")
