"""What all commands share: where output goes, how errors look, how progress is shown."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fedwad import Round
from fedwad.errors import FedwadError

__all__ = ["bytes_in_words", "errors", "guarded", "print_json", "round_progress", "screen"]

#: Results for people; with --json everything but the one object goes to `errors` instead.
screen = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

P = ParamSpec("P")
T = TypeVar("T")


def guarded(command: Callable[P, T]) -> Callable[P, T]:
    """Print an error that a user can cause as one sentence and exit with 2; on Ctrl-C exit with 130."""

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


def _escaped(error: Exception) -> str:
    return str(error).replace("[", r"\[")


def print_json(content: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(content))


@contextmanager
def round_progress(title: str, rounds: int | None) -> Iterator[Callable[[Round], None]]:
    """A bar on standard error that shows the server's running estimate; a spinner when there are no rounds."""
    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    if rounds is not None:
        columns += [BarColumn(), MofNCompleteColumn(), TextColumn("rounds, running estimate {task.fields[running]}")]
    quiet = not errors.is_terminal
    with Progress(*columns, TimeElapsedColumn(), console=errors, transient=True, disable=quiet) as progress:
        task = progress.add_task(title, total=rounds, running="...")

        def show(record: Round) -> None:
            progress.update(task, completed=record.number, running=f"{record.running:.4g}")

        yield show


def bytes_in_words(count: int) -> str:
    """1234567 -> '1.2 MB'."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
