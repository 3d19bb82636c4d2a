"""`fedwad reproduce`: the paper's figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwad._matrix.api import Progress as Step
from fedwad.cli.console import (
    exit_on_error,
    print_json,
    print_text,
    progress_bar,
    screen,
    stderr,
)
from fedwad.cli.option_groups import Json
from fedwad.experiments import NAMES, Outcome, Progress, experiment
from fedwad.experiments import reproduce as run_experiment

__all__ = ["reproduce"]

_VERDICTS = {True: "held", False: "did not hold", None: "cannot be judged from this run"}


@exit_on_error
def reproduce(
    name: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller and fewer settings, for a first impression.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", help="Folder of results, with a folder for each experiment.")
    ] = Path("results"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget what an earlier run has measured.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's figures and tables, beside our methods and the exact distances.

    Measurements are kept at once, so the same command (without --fresh) continues an interrupted
    run. Datasets come from the folder that FEDWAD_DATA names, or are downloaded.
    """
    names = NAMES if name == "all" else (name,)
    for each in names:
        experiment(each)  # refuse an unknown name before anything runs
    outcomes = []
    for each in names:
        try:
            outcome = _run(each, out, quick, fresh)
        except KeyboardInterrupt:
            command = "the same command without --fresh" if fresh else "the same command"
            stderr.print(
                f"Interrupted; what was measured is kept, and {command} continues from there.",
                soft_wrap=True,
            )
            raise typer.Exit(130) from None
        outcomes.append(outcome)
        if not as_json:
            _print(outcome)
    if as_json:
        print_json({"experiments": [outcome.to_dict() for outcome in outcomes]})


def _run(name: str, out: Path, quick: bool, fresh: bool) -> Outcome:
    with progress_bar(name) as bar:

        def show(step: Progress) -> None:
            left = "" if step.remaining is None else f", about {_in_words(step.remaining)} left"
            bar.progress(Step(f"{name}{left}", step.done, step.total))

        return run_experiment(name, out, quick, fresh, show)


def _print(outcome: Outcome) -> None:
    screen.print(f"[bold]{outcome.name}[/]: {outcome.title} ({_in_words(outcome.seconds)} of work)")
    for claim in outcome.claims:
        print_text(f"  “{claim.text}” {_VERDICTS[claim.holds]}: {claim.found}.")
    for sentence in outcome.left_out:
        print_text(f"  {sentence}")
    print_text(f"  written to {outcome.folder}: {', '.join(outcome.files)}")


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
