"""`python -m paper NAME`: the figures and tables of the paper, and whether its claims hold."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedwad._options import check_position
from fedwad.errors import FedwadError, InputError
from paper.experiment import NAMES, Outcome, Progress, Size, experiment, has_cuda, run

VERDICTS = {True: "held", False: "did not hold", None: "cannot be judged from this run"}
#: The experiment of each numbered figure and table of the paper; figures 1 and 7 are drawings.
FIGURES = dict.fromkeys((2, 8, 9), "scaling") | dict.fromkeys((4, 10, 11), "coresets")
FIGURES |= dict.fromkeys((5, 12), "classifier") | dict.fromkeys((6, 13, 14), "otdd")
FIGURES |= {3: "toy", 15: "matrices"}
TABLES = dict.fromkeys(range(1, 6), "boosting")


def main(words: list[str] | None = None) -> int:
    """Run the command with these words; the result is the exit status."""
    parser = argparse.ArgumentParser(
        "python -m paper",
        description="Reproduce the paper's figures and tables, beside our methods and the exact"
        " distances: `toy`, `figure 3`, `table 2`. Measurements are kept at once, so the same"
        " command (without --fresh) continues an interrupted run. Datasets come from the folder"
        " that FEDWAD_DATA names, or are downloaded.",
    )
    parser.add_argument("name", choices=(*NAMES, "all", "figure", "table"), help="the experiment")
    parser.add_argument("number", nargs="?", type=int, help="of a figure or a table of the paper")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a trial that judges nothing")
    size.add_argument(
        "--whole",
        action="store_true",
        help="the paper's sizes, as far as they were ever run here; on by itself where there is a"
        " CUDA device",
    )
    parser.add_argument("--t", help="own, random or a number: for otdd, matrices and boosting")
    parser.add_argument(
        "--out", type=Path, default=Path("results"), help="folder of results (default: results)"
    )
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run measured")
    options = parser.parse_args(words)
    whole: Size = "whole" if options.whole or has_cuda() else "reduced"
    try:
        t = None if options.t is None else check_position(options.t, "t")
        for name in _names(options.name, options.number):
            chosen: Size = "quick" if options.quick else whole
            _print(run(experiment(name), options.out, chosen, options.fresh, t, _show))
    except FedwadError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        command = "the same command" + (" without --fresh" if options.fresh else "")
        print(
            f"\nInterrupted; what was measured is kept, and {command} continues from there.",
            file=sys.stderr,
        )
        return 130
    return 0


def _names(name: str, number: int | None) -> tuple[str, ...]:
    """The experiments that are asked for."""
    if name not in ("figure", "table"):
        if number is not None:
            raise InputError(
                f"{name} has no number; choose {name}, or figure or table with one.",
                "unknown-experiment",
            )
        return NAMES if name == "all" else (name,)
    known = FIGURES if name == "figure" else TABLES
    if number not in known:
        what = f"A {name} has a number" if number is None else f"No {name} {number} can be run"
        raise InputError(
            f"{what}; choose {name} {', '.join(map(str, sorted(known)))}.",
            "unknown-experiment",
        )
    return (known[number],)


def _show(step: Progress) -> None:
    left = "" if step.remaining is None else f", about {_in_words(step.remaining)} left"
    end = "\n" if step.done == step.total else ""
    print(f"\r{step.done} of {step.total} tasks{left}   ", end=end, file=sys.stderr, flush=True)


def _print(outcome: Outcome) -> None:
    print(f"{outcome.name}: {outcome.title} ({_in_words(outcome.seconds)} of work)")
    if outcome.smaller:
        print(f"  Smaller than in the paper: {outcome.smaller}")
    for claim in outcome.claims:
        print(f"  “{claim.text}” {VERDICTS[claim.holds]}: {claim.found}.")
    print(f"  written to {outcome.folder}: {', '.join(outcome.files)}")


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(main())
