"""What all commands share: where output goes, how errors and progress are shown."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import math
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ParamSpec, TypeVar

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

from fedwad._words import few_samples, format_bytes, to_printable
from fedwad.compare import Progress as Step
from fedwad.errors import DataWarning, FedwadError
from fedwad.federation import Traffic
from fedwad.tables import redact
from fedwad.transport import announce_compiling
from fedwad.transport import warm_up as compile_all

_QUOTED = r"'[^']*'|\"[^\"]*\""  # as `shlex.quote` quotes; commas and brackets may be inside

_UNTESTED = ("not-tested", "too-few-rows")  # codes of errors that say that one cannot tell

#: Standard output, for results; with --json it has nothing but the one object.
screen = Console(highlight=False)
#: Standard error, for errors, progress, and what a command says about reading its files.
stderr = Console(stderr=True, highlight=False)

P = ParamSpec("P")
T = TypeVar("T")


def exit_on_error(command: Callable[P, T]) -> Callable[P, T]:
    """Print an error that a user can cause as one sentence and exit with 2; exit 130 on Ctrl-C.

    The exit code is 4 if the error says that the data cannot be tested.
    """

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
            raise typer.Exit(4 if error.code in _UNTESTED else 2) from None
        except KeyboardInterrupt:
            stderr.print("Interrupted; no result was written.")
            raise typer.Exit(130) from None

    # Each paragraph on one line, so that help fits any terminal.
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    wrapper.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
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
    >>> use_option_names("Compare periods as sites (by).")
    'Compare periods as sites (--by).'
    """

    def to_options(match: re.Match[str]) -> str:
        words = re.split(rf", (?=(?:{_QUOTED}|[^'\"])*$)", match[2])
        return f"({' '.join(f'--{match[1]} {word}' for word in words)})"

    plain = r"\((by|keep|max_rows|query|sheet|unit|where)\)"
    sentence = re.sub(plain, lambda found: f"(--{found[1].replace('_', '-')})", sentence)
    sentence = sentence.replace("header=False", "--no-header").replace("header=True", "--header")
    return re.sub(rf"\((drop|missing): ((?:{_QUOTED}|.)*?)\)(?=[,.;]|$)", to_options, sentence)


def exit_by(found: bool | None, enough: int = 1) -> None:
    """End the command with 3 if a difference was found, and with 4 if too few rows cannot tell.

    A drift, and a site that fits nowhere, are differences. `enough` rows would do; if it is 0,
    nothing was tested for another reason.
    """
    if found or (found is None and enough):
        raise typer.Exit(3 if found else 4)


def print_sentence(sentence: str) -> None:
    """Print the answer, with which the output of a command begins."""
    screen.print(Text(to_printable(sentence), style="bold"), soft_wrap=True)


def print_failed(failed: Mapping[str, str]) -> None:
    """Say which sites the result lacks, with the reason that each gave."""
    for name, reason in failed.items():
        line = Text.assemble((f"Without {to_printable(name)}:", "bold"), f" {to_printable(reason)}")
        screen.print(line, soft_wrap=True)


def print_text(text: str) -> None:
    """Print text as it is; the terminal breaks its lines."""
    screen.print(text, soft_wrap=True, markup=False)


def describe_traffic(traffic: Traffic) -> str:
    """Return what was sent, in words."""
    sent = f"{format_bytes(traffic.up)} by the sites in {traffic.messages} messages"
    return f"{sent}, {format_bytes(traffic.down)} to them"


def command_line() -> str:
    """Return the command as it was typed, for reports, without users and passwords."""
    return shlex.join(["fedwad", *map(redact, sys.argv[1:])])


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on standard output; null stands for numbers that are not finite."""
    typer.echo(json.dumps(_finite(content), allow_nan=False))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


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


class _ShowLog(logging.Handler):
    """What the library logs about reading a table, as the line of a bar."""

    def __init__(self, bar: Bar) -> None:
        super().__init__()
        self._bar = bar

    def emit(self, record: logging.LogRecord) -> None:
        self._bar.line(record.getMessage())


@contextmanager
def progress_bar(title: str) -> Iterator[Bar]:
    """Show a bar on standard error whose length becomes known on the way.

    It also shows how many rows of a large table are read.
    """
    logger = logging.getLogger("fedwad.tables")
    level = logger.level
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
        bar = Bar(progress, progress.add_task(title, total=None))
        handler = _ShowLog(bar)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield bar
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


def make_table(*titles: str, left: Collection[str] = (), no_wrap: bool = False) -> Table:
    """Return a table without lines; its columns are flush right, those in `left` flush left."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in titles:
        table.add_column(title, justify="left" if title in left else "right", no_wrap=no_wrap)
    return table


def print_facts(rows: Iterable[tuple[str, str | None]]) -> None:
    """Print the numbers behind an answer, each with its name, without those that are None."""
    table = Table.grid(padding=(0, 2))
    for term, text in rows:
        if text is not None:
            table.add_row(term, text)
    screen.print(table)


def warn_small_cells(min_cell_size: int | None) -> None:
    """Print a warning if a number that was sent stands for few samples."""
    warning = few_samples(min_cell_size)
    if warning:
        print_text(f"Warning: {warning}")


def warm_up(*, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Compile everything now, so that the first distance on this machine does not wait.

    For installers and container images: numba keeps the compiled code beside the package, or in
    NUMBA_CACHE_DIR.

    Example: `fedwad warm-up`

    Parameters
    ----------
    as_json : print one JSON object on standard output
    """
    started = time.perf_counter()
    names = compile_all()
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"functions": list(names), "seconds": seconds})
    else:
        print_text(f"{len(names)} functions are compiled ({seconds:.1f} s).")
