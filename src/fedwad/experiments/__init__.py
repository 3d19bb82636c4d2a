"""The paper's figures and tables, one module each; `reproduce` runs one by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from fedwad.errors import InputError
from fedwad.experiments._experiment import Claim, Experiment
from fedwad.experiments._reproduce import Outcome, Progress, run

__all__ = ["NAMES", "Claim", "Experiment", "Outcome", "Progress", "experiment", "reproduce"]

NAMES = ("toy", "scaling", "coresets", "classifier", "otdd", "matrices", "boosting")


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in NAMES:
        raise InputError(f"There is no experiment {name!r}; choose {', '.join(NAMES)} or all.")
    found: Experiment = import_module(f"fedwad.experiments.{name}").EXPERIMENT
    return found


def reproduce(
    name: str,
    out: str | Path = "results",
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Run one of the paper's experiments and write its table, pictures, facts and judgement into
    `out`/name.

    Parameters
    ----------
    name : one of `NAMES`
    out : folder of results
    quick : fewer and smaller settings, for a first look in a few minutes
    fresh : start again; otherwise what an interrupted run has measured is kept
    progress : called before each task
    """
    return run(experiment(name), out, quick, fresh, progress)
