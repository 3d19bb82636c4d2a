"""Options of a training, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from fedwad._checks import check_choice, check_integer
from fedwad.errors import InputError

__all__ = ["Algorithm", "Phases", "TrainingOptions"]

#: fedavg: one model for all sites, the mean of their models after each round (McMahan et al. 2017).
#: fedper: the last layers stay with each site, and all layers train together (Arivazhagan et al.
#: 2019). fedrep: the last layers stay with each site, which trains them before the shared ones
#: (Collins et al. 2021).
Algorithm = Literal["fedavg", "fedrep", "fedper"]

#: Epochs, and the layers that learn in them: "all", "personal" or "shared".
Phases = tuple[tuple[int, str], ...]

_NUMBERS = (int, float, np.integer, np.floating)

#: The smallest and the largest value of each real number; clients refuse others.
_RANGES = {
    "fraction_train": (1e-9, 1.0),
    "learning_rate": (1e-12, 100.0),
    "momentum": (0.0, 0.999999),
    "test_size": (0.0, 0.9),
}

#: Options that only some algorithms take: these algorithms, and the default in them.
_ALGORITHM_OPTIONS: dict[str, tuple[tuple[str, ...], int | None]] = {
    "personal": (("fedrep", "fedper"), None),
    "last_epochs": (("fedrep", "fedper"), 10),
    "body_epochs": (("fedrep",), 1),
}


@dataclass(frozen=True)
class TrainingOptions:
    """The options of a training; values out of range raise an InputError.

    Parameters
    ----------
    algorithm : "fedavg": one model for each group. "fedper": the last layer stays with each site.
        "fedrep": as fedper, but a site trains its own layer before the shared ones.
    model : "mlp", "cnn", or "package.module:function". The function takes the numbers of features
        and classes and returns a `torch.nn.Module`. It must be installed at the sites, and their
        policies must list it.
    rounds : number of rounds; after each, the models of the sites that trained are averaged
    fraction_train : fraction of a group that trains in a round, rounded down, at least one site
    epochs : passes of a site over its samples in a round
    batch_size, learning_rate, momentum : of stochastic gradient descent
    test_size : fraction of each class that a site keeps for tests; with 0 it tests on its training
        samples
    seed : decides the first weights, the test samples, who trains in which round, and the order of
        samples
    personal : names of the layers that stay with the sites, for fedrep and fedper; the last layer
        by default
    last_epochs : passes in the closing round of fedrep and fedper, in which all sites train their
        own layers; 10 by default
    body_epochs : how many of the `epochs`, the last ones, train the shared layers, for fedrep; 1 by
        default
    """

    algorithm: Algorithm = "fedavg"
    model: str = "mlp"
    rounds: int = 10
    fraction_train: float = 0.1
    epochs: int = 5
    batch_size: int = 10
    learning_rate: float = 0.01
    momentum: float = 0.5
    test_size: float = 0.2
    seed: int = 0
    personal: tuple[str, ...] | None = None
    last_epochs: int | None = None
    body_epochs: int | None = None

    def __post_init__(self) -> None:
        check_choice(self.algorithm, "algorithm", get_args(Algorithm))
        if not isinstance(self.model, str):
            raise InputError(f"model is a {type(self.model).__name__}; give the name of a model.")
        for name in ("rounds", "epochs", "batch_size"):
            self._set(name, check_integer(getattr(self, name), name))
        self._set("seed", check_integer(self.seed, "seed", 0))
        for name, (lowest, highest) in _RANGES.items():
            self._set(name, _check_number(getattr(self, name), name, lowest, highest))
        self._check_algorithm_options()

    def _check_algorithm_options(self) -> None:
        """Refuse options of other algorithms, and fill in the defaults of this algorithm."""
        for name, (algorithms, default) in _ALGORITHM_OPTIONS.items():
            if self.algorithm in algorithms:
                if getattr(self, name) is None:
                    self._set(name, default)
            elif getattr(self, name) is not None:
                raise InputError(
                    f"{name} is an option of {' and '.join(algorithms)}, and the algorithm is"
                    f" {self.algorithm}; leave it out or choose another algorithm."
                )
        if self.personal is not None:
            self._set("personal", _check_layer_names(self.personal))
        if self.last_epochs is not None:
            self._set("last_epochs", check_integer(self.last_epochs, "last_epochs", 0))
        if self.body_epochs is not None:
            self._set("body_epochs", check_integer(self.body_epochs, "body_epochs"))
            if self.body_epochs > self.epochs:
                raise InputError(
                    f"body_epochs is {self.body_epochs} of {self.epochs} epochs; give at most"
                    " as many."
                )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def of(cls, options: TrainingOptions | str, keywords: Mapping[str, Any]) -> TrainingOptions:
        """The options, or the defaults of the algorithm of this name, with values by keyword."""
        names = [field.name for field in fields(cls)]
        unknown = [name for name in keywords if name not in names]
        if unknown:
            raise InputError(
                f"Training has no option '{unknown[0]}'; its options are {', '.join(names)}."
            )
        if isinstance(options, TrainingOptions):
            # Another algorithm may not take these; `replace` fills them in again for one that does.
            defaults = {
                name: None
                for name, (_, default) in _ALGORITHM_OPTIONS.items()
                if getattr(options, name) == default
            }
            return replace(options, **(defaults | dict(keywords)))
        return cls(**({"algorithm": options} | dict(keywords)))

    def to_dict(self) -> dict[str, Any]:
        """The options that are set, as plain JSON types."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["personal"] = None if self.personal is None else list(self.personal)
        return {name: value for name, value in values.items() if value is not None}

    @property
    def phases(self) -> Phases:
        """What a site trains in a round."""
        if self.body_epochs is None:
            return ((self.epochs, "all"),)
        return ((self.epochs - self.body_epochs, "personal"), (self.body_epochs, "shared"))

    @property
    def closing_phases(self) -> Phases:
        """What all sites train in the closing round; empty if there is none."""
        return ((self.last_epochs, "personal"),) if self.last_epochs else ()


def _check_layer_names(names: Any) -> tuple[str, ...]:
    layers = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else ()
    if not layers or not all(isinstance(name, str) for name in layers):
        raise InputError(f"personal is {names!r}; give a list of names of layers.")
    return layers


def _check_number(value: Any, name: str, lowest: float, highest: float) -> float:
    if type(value) is bool or not isinstance(value, _NUMBERS) or not lowest <= value <= highest:
        raise InputError(f"{name} is {value!r}; give a number from {lowest:g} to {highest:g}.")
    return float(value)
