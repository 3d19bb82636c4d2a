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
    chosen: Experiment = import_module(f"fedwad.experiments.{name}").EXPERIMENT
    return chosen


def reproduce(
    name: str,
    out: str | Path = "results",
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Run one of the paper's experiments, and write its table, its figures and facts.json with the
    judged claims into `out`/name.

    Parameters
    ----------
    name : one of `NAMES`
    out : folder of results
    quick : measure fewer and smaller settings, which takes a few minutes; the folder is name-quick
    fresh : delete earlier rows and measure everything; otherwise tasks with rows are not repeated
    progress : called before each task and after the last
    """
    return run(experiment(name), out, quick, fresh, progress)
