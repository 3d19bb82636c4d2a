"""Where `fedwad train` runs: on files in this process, or on an engine."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Protocol, get_type_hints

import typer

import fedwad
from fedwad.cli.console import Bar
from fedwad.cli.engine import EngineOptions
from fedwad.cli.option_groups import OptionGroup, keyword_parameter
from fedwad.cli.sites import find_files, read_files
from fedwad.federation import Columns
from fedwad.learning import TrainingOptions, TrainingResult, train

__all__ = ["EngineRunner", "LocalRunner", "Runner", "TrainingArguments"]


_HELP = {
    "algorithm": "fedavg: one model per cluster. fedper, fedrep: the last layer stays with each"
    " site, and fedrep trains it first.",
    "model": "mlp, cnn, or 'package.module:function' that makes a network.",
    "rounds": "Rounds of training.",
    "fraction_train": "Fraction of a cluster that trains in a round.",
    "epochs": "Passes of a site over its samples in a round.",
    "batch_size": "Samples per step.",
    "learning_rate": "Learning rate of SGD.",
    "momentum": "Momentum of SGD.",
    "test_size": "Fraction of its samples that a site keeps for tests.",
    "seed": "The same seed gives the same result.",
    "personal": "Layer that stays with each site, for fedrep and fedper; can be given several"
    " times. The last layer by default.",
    "last_epochs": "Passes over the own layers in the end, for fedrep and fedper [10].",
    "body_epochs": "Epochs of the shared layers in a round, for fedrep [1].",
}


class TrainingArguments(OptionGroup):
    """The fields of `TrainingOptions` as options of the command."""

    def __init__(self, personal: list[str] | None, **options: Any) -> None:
        self.options = TrainingOptions(personal=tuple(personal) if personal else None, **options)

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        hints = get_type_hints(TrainingOptions) | {"personal": list[str] | None}
        return [
            keyword_parameter(
                spec.name,
                Annotated[hints[spec.name], typer.Option(help=_HELP[spec.name])],
                spec.default,
            )
            for spec in fields(TrainingOptions)
        ]


class Runner(Protocol):
    """Trains on all sites, or in each group of them, and measures the distances between sites."""

    def train(
        self, options: TrainingOptions, groups: dict[str, int] | None = None
    ) -> TrainingResult:
        """Train one model for all sites, or one for each group.

        `groups` has the group of each site; other sites take no part.
        """

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        """Distances between the labelled data of all sites."""


class LocalRunner:
    """Each file is a client of this process."""

    def __init__(self, data: Sequence[str], columns: Columns, bar: Bar) -> None:
        self._federation = fedwad.local(read_files(find_files(data), columns))
        self._bar = bar

    def train(
        self, options: TrainingOptions, groups: dict[str, int] | None = None
    ) -> TrainingResult:
        clients = None if groups is None else list(groups)
        return train(
            self._federation, options, groups=groups, clients=clients, callback=self._bar.progress
        )

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        return fedwad.matrix(self._federation, labels=True, seed=seed, callback=self._bar.progress)


@dataclass(frozen=True)
class EngineRunner:
    """The sites of a deployment, or files in an engine's simulation."""

    data: Sequence[str]
    columns: Columns
    bar: Bar
    engine_options: EngineOptions

    def train(
        self, options: TrainingOptions, groups: dict[str, int] | None = None
    ) -> TrainingResult:
        extra = {} if groups is None else {"groups": groups}
        return TrainingResult.from_dict(self._run("train", options.to_dict() | extra, groups or ()))

    def matrix(self, seed: int) -> fedwad.MatrixResult:
        return fedwad.MatrixResult.from_dict(self._run("matrix", {"labels": True, "seed": seed}))

    def _run(
        self, algorithm: str, options: dict[str, Any], names: Iterable[str] = ()
    ) -> dict[str, Any]:
        return self.engine_options.run(
            algorithm, self.data, options, self.columns, self.bar.line, names=tuple(names)
        )
