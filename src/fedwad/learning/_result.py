"""The answer to `fedwad.learning.train`: saved, loaded, and made into networks again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad._files import Saved
from fedwad.errors import InputError
from fedwad.federation import Traffic

if TYPE_CHECKING:
    from torch import nn

__all__ = ["TrainingResult", "TrainingRound"]

_PLAIN = ("algorithm", "model", "features", "rounds", "seed", "start")


@dataclass(frozen=True)
class TrainingRound:
    """One round: the mean loss of those who trained, the mean accuracy over all clients (None: not
    asked), its length.

    The closing round of fedrep and fedper, in which clients train their own layers only, is the
    last one.
    """

    number: int
    loss: float
    accuracy: float | None
    seconds: float


@dataclass(frozen=True, eq=False)
class TrainingResult(Saved):
    """Models of groups of clients, and how well they do on each client's own test samples.

    Attributes
    ----------
    sites : names of the clients that were evaluated in the end
    accuracy : array (N,), part of each client's test samples that its model puts into the right
        class
    tests : array (N,), how many test samples each has
    groups : array (N,), the group of each client
    weights : by group, the layers that clients share, as one vector of float32
    classes : names of the classes, in the order of the model's outputs
    personal : names of the layers that stayed with the clients
    history : one record a round
    lost : clients that did not answer, each with the reason
    traffic : bytes that travelled
    """

    _format: ClassVar[str] = "fedwad training 1"
    _noun: ClassVar[str] = "training"

    sites: tuple[str, ...]
    accuracy: NDArray[np.float64]
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
    lost: Mapping[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def mean(self) -> float:
        """Mean accuracy over clients."""
        return float(self.accuracy.mean())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainingResult) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        groups = len(self.weights)
        return (
            f"<{self.algorithm} on {len(self.sites)} clients in {groups} group{'' if groups == 1 else 's'}:"
            f" accuracy {self.mean:.1%}>"
        )

    def network(self, group: int = 0) -> nn.Module:
        """The model of a group as a PyTorch module; layers that stayed with the clients have their
        first weights."""
        import torch

        from fedwad.learning.local.networks import build

        if group not in self.weights:
            raise InputError(
                f"There is no group {group!r}; the groups are {', '.join(map(str, self.weights))}."
            )
        made = build(self.model, self.features, len(self.classes), self.start, self.personal)
        whole = made.joined(self.weights[group], made.initial()[made.personal])
        made.module.load_state_dict(made.tensors(torch.as_tensor(whole)))
        return made.module.eval()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists; weights as float32 in base64."""
        content: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN}
        content |= {
            "sites": list(self.sites),
            "classes": list(self.classes),
            "personal": list(self.personal),
        }
        content |= {name: getattr(self, name).tolist() for name in ("accuracy", "tests", "groups")}
        content |= {"mean": self.mean, "lost": dict(self.lost), "traffic": asdict(self.traffic)}
        content["history"] = [asdict(record) for record in self.history]
        content["weights"] = {
            str(group): base64.b64encode(vector.astype("<f4").tobytes()).decode()
            for group, vector in self.weights.items()
        }
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TrainingResult:
        """What `to_dict` gave; InputError if it is something else."""
        try:
            found = dict(content)
            found.pop("mean")
            weights = {
                int(group): np.frombuffer(
                    base64.b64decode(text, validate=True), dtype="<f4"
                ).astype(np.float32)
                for group, text in found.pop("weights").items()
            }
            result = cls(
                sites=tuple(found.pop("sites")),
                accuracy=np.array(found.pop("accuracy"), dtype=np.float64),
                tests=np.array(found.pop("tests"), dtype=np.int64),
                groups=np.array(found.pop("groups"), dtype=np.int64),
                classes=tuple(found.pop("classes")),
                personal=tuple(found.pop("personal")),
                weights=weights,
                history=tuple(TrainingRound(**record) for record in found.pop("history")),
                traffic=Traffic(**found.pop("traffic")),
                **found,
            )
            tables = (result.accuracy, result.tests, result.groups)
            if any(table.shape != (len(result.sites),) for table in tables) or not len(
                result.sites
            ):
                raise ValueError("not one number for each client")
            if not set(result.groups.tolist()) <= set(weights):
                raise ValueError("a group without a model")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "These are not the parts of a training; some are missing or were changed."
            ) from None
        return result
