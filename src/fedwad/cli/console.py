"""What all commands share: where output goes, how errors look, how progress is shown."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

from fedwad import Round
from fedwad._matrix.api import Progress as Step
from fedwad.errors import FedwadError

__all__ = [
    "Bar",
    "bytes_in_words",
    "errors",
    "guarded",
    "note_few",
    "print_json",
    "progress_bar",
    "round_progress",
    "screen",
]

_FEW = 10

#: Results for people; with --json everything but the one object goes to `errors` instead.
screen = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

P = ParamSpec("P")
T = TypeVar("T")


def guarded(command: Callable[P, T]) -> Callable[P, T]:
    """Print an error that a user can cause as one sentence and exit with 2; on Ctrl-C exit with
    130."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except FedwadError as error:
            errors.print(f"[bold red]Error:[/] {_escaped(error)}", soft_wrap=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            errors.print("Interrupted; no result was written.")
            raise typer.Exit(130) from None

    return wrapper


def _escaped(error: object) -> str:
    return str(error).replace("[", r"\[")


def print_json(content: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(content))


@contextmanager
def round_progress(title: str, rounds: int | None) -> Iterator[Callable[[Round], None]]:
    """A bar on standard error that shows the server's running estimate; a spinner when there are no
    rounds."""
    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    if rounds is not None:
        columns += [
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rounds, running estimate {task.fields[running]}"),
        ]
    quiet = not errors.is_terminal
    with Progress(
        *columns, TimeElapsedColumn(), console=errors, transient=True, disable=quiet
    ) as progress:
        task = progress.add_task(title, total=rounds, running="...")

        def show(record: Round) -> None:
            progress.update(task, completed=record.number, running=f"{record.running:.4g}")

        yield show


class Bar:
    """A bar that follows the steps of an algorithm, or repeats the last line of an engine."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def progress(self, step: Step) -> None:
        self._progress.update(
            self._task, description=step.stage.capitalize(), completed=step.done, total=step.total
        )

    def line(self, text: str) -> None:
        self._progress.update(self._task, description=_escaped(text))


@contextmanager
def progress_bar(title: str) -> Iterator[Bar]:
    """A bar on standard error whose length becomes known on the way."""
    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    quiet = not errors.is_terminal
    with Progress(
        *columns, TimeElapsedColumn(), console=errors, transient=True, disable=quiet
    ) as progress:
        yield Bar(progress, progress.add_task(title, total=None))


def note_few(min_cell_size: int | None, method: str) -> None:
    """Say so when few samples hide behind a number that was sent."""
    if min_cell_size is None or min_cell_size >= _FEW:
        return
    what = (
        "single samples were sent as they are"
        if min_cell_size == 1
        else "few samples hide behind a number"
    )
    if method == "summary":  # cells that small are of parties with fewer samples than that
        advice = f"A party with fewer than {_FEW} samples has one cell; a node's policy refuses that (smallest_group)."
    else:
        advice = (
            "Between real parties take fewer points (--support), or --method summary, which keeps"
            f" {_FEW} samples in a cell where there are that many."
        )
    screen.print(f"Mind: {what}. {advice}", soft_wrap=True)


def bytes_in_words(count: int) -> str:
    """1234567 -> '1.2 MB'."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
