"""The answer to `fedwad.coreset`: saved, loaded, and drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedwad._files import Saved
from fedwad.errors import InputError
from fedwad.federation import Traffic
from fedwad.ot import Floats, Measure

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CoresetResult", "CoresetRound"]

_NUMBERS = ("value", "lower", "upper")


@dataclass(frozen=True)
class CoresetRound:
    """What the server knew after one round (an epoch of the paper's method).

    Attributes
    ----------
    loss : float What the method makes small: W2 between atoms and union for "union"; the mean over
        the active clients of their distance to the coreset for "direct", and of FedWaD's running
        estimate of it for "fedwad".
    lower, upper : float or None Certified interval of W2 between the atoms of this round and the
        union of those asked, for "union".
    shift : float How far the atoms moved at the end of the round (root mean square over their
        mass); 0 when they stayed.
    clients : int
        How many clients answered.
    """

    number: int
    seconds: float
    loss: float
    shift: float
    clients: int
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, eq=False)
class CoresetResult(Saved):
    """A few points that stand for the data of all clients, and how far they are from them.

    Attributes
    ----------
    points : array (S, d)
    weights : array (S,)
        Masses of the points, sum one.
    value : float
        W2 between the coreset and the union of the clients' samples, as well as it is known.
    lower, upper : float
        Certified bounds of it, given honest clients and up to rounding (1e-9 relative).
    history : tuple of CoresetRound
    clients : tuple of str
        Those whose union the bounds are about.
    lost : mapping
        Clients that did not answer, each with the reason.
    converged : bool
        Whether the tolerance was met before the rounds ran out.
    min_cell_size : int Fewest samples behind one of the cell means that the clients sent: 1 means
        that a sample was sent as it is.
    traffic : Traffic
        Bytes sent `up` by and `down` to clients, and the number of replies.
    features : tuple of str or None
        Names of the columns of `points`, where the data are tables of this process.
    """

    _format: ClassVar[str] = "fedwad coreset 1"
    _noun: ClassVar[str] = "coreset"

    points: Floats
    weights: Floats
    value: float
    lower: float
    upper: float
    method: str
    history: tuple[CoresetRound, ...]
    clients: tuple[str, ...]
    converged: bool
    seed: int
    masses: str = "equal"
    min_cell_size: int | None = None
    lost: Mapping[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    features: tuple[str, ...] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoresetResult) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        lost = f", without {', '.join(self.lost)}" if self.lost else ""
        return (
            f"<coreset of {len(self)} points for {len(self.clients)} clients, W2 {self.value:.6g} in"
            f" [{self.lower:.6g}, {self.upper:.6g}], method {self.method}{lost}>"
        )

    @property
    def measure(self) -> Measure:
        """The points with their weights."""
        return Measure(self.points, self.weights)

    def to_frame(self) -> pd.DataFrame:
        """The points as a pandas DataFrame, one row each in the order of `weights`, with the names
        of features."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas; run: pip install pandas.") from None
        return pd.DataFrame(
            self.points, columns=None if self.features is None else list(self.features)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists: what --json prints and `save` writes."""
        names = (*_NUMBERS, "method", "converged", "seed", "masses", "min_cell_size")
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        content |= {"points": self.points.tolist(), "weights": self.weights.tolist()}
        content |= {
            "clients": list(self.clients),
            "lost": dict(self.lost),
            "traffic": asdict(self.traffic),
        }
        content["features"] = None if self.features is None else list(self.features)
        content["history"] = [asdict(record) for record in self.history]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> CoresetResult:
        """What `to_dict` gave; InputError if it is something else."""
        try:
            found = dict(content)
            points = np.array(found.pop("points"), dtype=np.float64)
            weights = np.array(found.pop("weights"), dtype=np.float64)
            if type(found["clients"]) is not list or not all(
                type(name) is str for name in found["clients"]
            ):
                raise TypeError("not a list of names")
            features = found.pop(
                "features", None
            )  # which coresets saved by earlier versions do not have
            if features is not None and (
                type(features) is not list or not all(type(name) is str for name in features)
            ):
                raise TypeError("not a list of names")
            result = cls(
                points=points,
                weights=weights,
                clients=tuple(found.pop("clients")),
                traffic=Traffic(**found.pop("traffic")),
                history=tuple(CoresetRound(**record) for record in found.pop("history")),
                features=None if features is None else tuple(features),
                **found,
            )
            if points.ndim != 2 or weights.shape != (len(points),) or not np.isfinite(points).all():
                raise ValueError("not points with weights")
            if features is not None and len(features) != points.shape[1]:
                raise ValueError("not a name for each feature")
            if not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-9:
                raise ValueError("not weights")
            if not 0 <= result.lower <= result.value <= result.upper < math.inf:
                raise ValueError("not a result of coreset()")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "These are not the parts of a coreset; some are missing or were changed."
            ) from None
        return result

    def plot(self, path: str | Path, shape: tuple[int, ...] | None = None) -> None:
        """Draw the points as a sheet of images, or in their two main directions, into a .png, .svg
        or .pdf file.

        `shape` is that of an image, (28, 28) or (32, 32, 3); when left out, points with a square
        number of features are drawn as square images.
        """
        import importlib

        # By name: pictures are a later room, which this one does not need to exist.
        importlib.import_module("fedwad.report").coreset_picture({"": self}, path, shape=shape)
