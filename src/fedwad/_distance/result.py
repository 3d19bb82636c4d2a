"""The answer to `fedwad.distance`: saved, loaded, and printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from fedwad._distance.rounds import Round
from fedwad._files import Saved
from fedwad.errors import InputError
from fedwad.federation import Traffic
from fedwad.ot import Measure

__all__ = ["DistanceResult"]


@dataclass(frozen=True, eq=False)
class DistanceResult(Saved):
    """A distance with its interval, its history and its price.

    Attributes
    ----------
    value : float
        The estimate of W_p between the two samples.
    lower, upper : float Certified bounds: lower <= W_p <= upper, given honest clients and up to
        rounding (1e-9 relative).
    fedwad : float or None
        The paper's estimate d_mu + d_nu; None for method="summary".
    history : tuple of Round
    support : Measure or None
        The final xi of FedWaD.
    traffic : Traffic
        Bytes sent `up` by and `down` to clients, and the number of replies.
    covariance_types : tuple
        How much of the covariance each client told: "full", "diagonal" or "isotropic".
    min_cell_size : int or None Fewest samples behind one of the cell means that the clients sent: 1
        means that a sample was sent as it is.
    privacy : dict or None With differential privacy the promise of each client's release
        (`fedwad.DP`). `lower` and `upper` are then no certificate: they tell where noise and what
        summaries leave out are likely to let the distance be.
    classes : str
        "ignored", or what classes were compared by in a dataset distance: "diagonal" or "full".
    """

    _format: ClassVar[str] = "fedwad distance 1"
    _noun: ClassVar[str] = "distance"

    value: float
    lower: float
    upper: float
    fedwad: float | None
    history: tuple[Round, ...]
    support: Measure | None
    traffic: Traffic
    method: str
    p: float
    seed: int
    clients: tuple[str, str]
    covariance_types: tuple[str, ...] = ()
    min_cell_size: int | None = None
    classes: str = "ignored"
    privacy: dict[str, Any] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DistanceResult) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def zero(
        cls, method: str, p: float, seed: int, clients: tuple[str, str], classes: str
    ) -> DistanceResult:
        """The distance of a client from itself, for which nobody needs to be asked."""
        fedwad = 0.0 if method == "fedwad" else None
        return cls(
            0.0, 0.0, 0.0, fedwad, (), None, Traffic(), method, p, seed, clients, classes=classes
        )

    def __repr__(self) -> str:
        a, b = self.clients
        private = "" if self.privacy is None else f", epsilon {self.privacy['epsilon']:g}"
        interval = f"[{self.lower:.6g}, {self.upper:.6g}]"
        return (
            f"<distance {a} - {b}: {self.value:.6g} in {interval}, method {self.method}{private}>"
        )

    @property
    def certified(self) -> bool:
        """Whether `lower` and `upper` are proven, given honest clients. Nothing is proven about
        noisy numbers."""
        return self.privacy is None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists: what --json prints and `save` writes."""
        names = (
            "value",
            "lower",
            "upper",
            "fedwad",
            "method",
            "p",
            "seed",
            "min_cell_size",
            "classes",
            "privacy",
        )
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        content["clients"], content["covariance_types"] = (
            list(self.clients),
            list(self.covariance_types),
        )
        content["traffic"] = asdict(self.traffic)
        content["history"] = [asdict(record) for record in self.history]
        if self.support is not None:
            content["support"] = {
                "points": self.support.points.tolist(),
                "weights": self.support.weights.tolist(),
            }
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> DistanceResult:
        """What `to_dict` gave; InputError if it is something else."""
        try:
            return cls._from_dict(dict(content))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "These are not the parts of a distance; some are missing or were changed."
            ) from None

    @classmethod
    def _from_dict(cls, content: dict[str, Any]) -> DistanceResult:
        support = content.pop("support", None)
        if not content["lower"] <= content["value"] <= content["upper"]:
            raise ValueError("not a result of distance()")
        return cls(
            support=None if support is None else Measure(support["points"], support["weights"]),
            history=tuple(Round(**record) for record in content.pop("history")),
            traffic=Traffic(**content.pop("traffic")),
            clients=tuple(content.pop("clients")),
            covariance_types=tuple(content.pop("covariance_types")),
            **content,
        )
