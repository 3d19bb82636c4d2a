"""The result of `fedwad.learning.train`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad._files import SavedResult
from fedwad.errors import InputError
from fedwad.federation import Traffic

if TYPE_CHECKING:
    from torch import nn

__all__ = ["TrainingResult", "TrainingRound"]

# Attributes with one number for each site, and their types in the file.
_PER_SITE = {"accuracy": np.float64, "baseline": np.float64, "tests": np.int64, "groups": np.int64}
# Attributes that are saved without a conversion.
_SCALARS = ("algorithm", "model", "features", "rounds", "seed", "start")


@dataclass(frozen=True)
class TrainingRound:
    """One round: its number, the mean loss of the sites that trained, the mean accuracy over the
    sites that tested, and the duration in seconds.

    The accuracy is None if the sites were not asked to test. The last record of fedrep and fedper
    is the closing round, in which all sites train their own layers, unless `last_epochs` is 0.
    """

    number: int
    loss: float
    accuracy: float | None
    seconds: float


@dataclass(frozen=True, eq=False)
class TrainingResult(SavedResult):
    """Models of groups of sites, and their accuracy on each site's own test samples.

    Attributes
    ----------
    sites : names of the sites that tested the last model
    accuracy : array (N,), fraction of its test samples that a site's model classifies correctly
    baseline : array (N,), the accuracy of always predicting the class that is most frequent among
        the site's training samples
    tests : array (N,), numbers of test samples
    groups : array (N,), the group of each site
    weights : for each group, the layers that sites share, as one vector of float32
    classes : names of the classes, in the order of the model's outputs
    personal : names of the parameters that stayed with the sites
    algorithm, model, rounds, seed : the options of the training
    features : number of features of a row
    start : the seed of the initial weights
    history : one record for each round
    failed : sites that did not answer or were left out, each with the reason
    traffic : bytes that the sites sent and received, and the number of replies
    """

    _format: ClassVar[str] = "fedwad training 2"
    _noun: ClassVar[str] = "training"

    sites: tuple[str, ...]
    accuracy: NDArray[np.float64]
    baseline: NDArray[np.float64]
    tests: NDArray[np.int64]
    groups: NDArray[np.int64]
    weights: Mapping[int, NDArray[np.float32]]
    classes: tuple[Any, ...]
    personal: tuple[str, ...]
    algorithm: str
    model: str
    features: int
    rounds: int
    seed: int
    start: int
    history: tuple[TrainingRound, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def mean(self) -> float:
        """Mean accuracy over sites."""
        return float(self.accuracy.mean())

    @property
    def mean_baseline(self) -> float:
        """Mean accuracy over sites of always predicting the most frequent class."""
        return float(self.baseline.mean())

    def __repr__(self) -> str:
        groups = len(self.weights)
        return (
            f"<{self.algorithm} on {len(self.sites)} sites in {groups}"
            f" group{'' if groups == 1 else 's'}: accuracy {self.mean:.1%},"
            f" majority class {self.mean_baseline:.1%}>"
        )

    def network(self, group: int = 0) -> nn.Module:
        """The model of a group as a PyTorch module.

        Layers that stayed with the sites have their initial weights.
        """
        import torch

        from fedwad.learning.local.networks import build

        if group not in self.weights:
            raise InputError(
                f"There is no group {group!r}; the groups are {', '.join(map(str, self.weights))}."
            )
        built = build(self.model, self.features, len(self.classes), self.start, self.personal)
        weights = built.join(self.weights[group], built.initial_weights()[built.personal_mask])
        built.module.load_state_dict(built.tensors(torch.as_tensor(weights)))
        return built.module.eval()

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {name: getattr(self, name) for name in _SCALARS}
        content |= {
            "sites": list(self.sites),
            "classes": list(self.classes),
            "personal": list(self.personal),
        }
        content |= {name: getattr(self, name).tolist() for name in _PER_SITE}
        content |= {"mean": self.mean, "mean_baseline": self.mean_baseline}
        content |= {"failed": dict(self.failed), "traffic": asdict(self.traffic)}
        content["history"] = [asdict(record) for record in self.history]
        content["weights"] = {
            str(group): base64.b64encode(vector.astype("<f4").tobytes()).decode()
            for group, vector in self.weights.items()
        }
        return content

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> TrainingResult:
        rest = dict(content)
        del rest["mean"], rest["mean_baseline"]  # they follow from the arrays
        arrays: dict[str, Any] = {
            name: np.array(rest.pop(name), dtype=kind) for name, kind in _PER_SITE.items()
        }
        names: dict[str, Any] = {
            name: tuple(rest.pop(name)) for name in ("sites", "classes", "personal")
        }
        result = cls(
            weights={int(group): _decode(text) for group, text in rest.pop("weights").items()},
            history=tuple(TrainingRound(**record) for record in rest.pop("history")),
            traffic=Traffic(**rest.pop("traffic")),
            **names,
            **arrays,
            **rest,
        )
        result._check()
        return result

    def _check(self) -> None:
        shape = (len(self.sites),)
        if shape == (0,) or any(getattr(self, name).shape != shape for name in _PER_SITE):
            raise ValueError("an array does not have one number for each site")
        if not set(self.groups.tolist()) <= set(self.weights):
            raise ValueError("a group has no model")


def _decode(text: str) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)
