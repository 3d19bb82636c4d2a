"""`fedwad reproduce`: the paper's figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bars

from fedwad.cli.console import errors, guarded, print_json, screen
from fedwad.cli.groups import Json
from fedwad.experiments import NAMES, Outcome, Progress, experiment
from fedwad.experiments import reproduce as reproduced

__all__ = ["reproduce"]

_VERDICTS = {True: "held", False: "did not hold", None: "cannot be judged from this run"}


@guarded
def reproduce(
    name: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller and fewer settings, for a first impression.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", help="Folder of results, a folder in it each.")
    ] = Path("results"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget what an earlier run has measured.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's figures and tables, beside our methods and the exact distances.

    Measurements are kept at once, so the same command continues an interrupted run. Datasets come
    from the folder that FEDWAD_DATA names, or are downloaded.
    """
    names = NAMES if name == "all" else (name,)
    for wanted in names:
        experiment(wanted)  # refuse an unknown name before anything runs
    outcomes = []
    for wanted in names:
        try:
            outcome = _run(wanted, out, quick, fresh)
        except KeyboardInterrupt:
            errors.print(
                "Interrupted; what was measured is kept, and the same command continues from there."
            )
            raise typer.Exit(130) from None
        outcomes.append(outcome)
        if not as_json:
            _print(outcome)
    if as_json:
        print_json({"experiments": [outcome.to_dict() for outcome in outcomes]})


def _run(name: str, out: Path, quick: bool, fresh: bool) -> Outcome:
    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [TimeElapsedColumn(), TextColumn("{task.fields[rest]}")]
    with Bars(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bars:
        task = bars.add_task(name, total=None, rest="")

        def show(step: Progress) -> None:
            rest = "" if step.remaining is None else f"about {_in_words(step.remaining)} left"
            bars.update(task, completed=step.done, total=step.total, rest=rest)

        return reproduced(name, out, quick, fresh, show)


def _print(outcome: Outcome) -> None:
    screen.print(f"[bold]{outcome.name}[/]: {outcome.title} ({_in_words(outcome.seconds)} of work)")
    for claim in outcome.claims:
        text = f"  “{claim.text}” {_VERDICTS[claim.holds]}: {claim.found}."
        screen.print(text, soft_wrap=True, markup=False)
    for sentence in outcome.left_out:
        screen.print(f"  {sentence}", soft_wrap=True, markup=False)
    screen.print(
        f"  written to {outcome.folder}: {', '.join(outcome.files)}", soft_wrap=True, markup=False
    )


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
