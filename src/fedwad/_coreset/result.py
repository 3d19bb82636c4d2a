"""The result of `fedwad.coreset`, which can be saved, loaded and drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedwad._files import SavedResult
from fedwad._html import data_frame
from fedwad.federation import Traffic
from fedwad.ot import Floats, Measure

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CoresetResult", "CoresetRound"]


@dataclass(frozen=True)
class CoresetRound:
    """What the server knew after one round (an epoch of the paper's method).

    Attributes
    ----------
    loss : float
        What the method minimises: the upper bound of W2 between atoms and union for "union", an
        estimate of this W2 for "summary"; the mean distance of the
        asked sites to the coreset for "direct", and FedWaD's running estimate of it for "fedwad".
    lower, upper : float or None
        Certified bounds of W2 between this round's atoms and the union of the asked sites, for
        "union" and "summary".
    shift : float
        Root mean square distance by which the atoms moved at the end of the round.
    sites : int
        Number of sites that answered.
    """

    number: int
    seconds: float
    loss: float
    shift: float
    sites: int
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, eq=False)
class CoresetResult(SavedResult):
    """A few points that represent the data of all sites, and how far they are from them.

    Attributes
    ----------
    points : array (S, d)
    weights : array (S,)
        Masses of the points; they sum to one.
    value : float
        Estimate of W2 between the coreset and the union of the sites' samples.
    lower, upper : float
        Certified bounds of this W2, given honest sites and up to rounding (1e-9 relative).
    method, options : str, dict
        The method and its options.
    history : tuple of CoresetRound
    sites : tuple of str
        The sites whose union the bounds are about.
    failed : mapping
        Sites that did not answer, each with the reason.
    converged : bool
        Whether the tolerance `tol` was met before the rounds ran out; True for "summary".
    min_cell_size : int or None
        Number of samples in the smallest cell whose mean a site sent; 1 means that a sample was
        sent as it is.
    traffic : Traffic
        Bytes sent `up` by the sites and `down` to them, and the number of replies.
    features : tuple of str or None
        Names of the columns of `points`; None if unknown.
    """

    _format: ClassVar[str] = "fedwad coreset 2"
    _noun: ClassVar[str] = "coreset"

    points: Floats
    weights: Floats
    value: float
    lower: float
    upper: float
    method: str
    options: dict[str, Any]
    history: tuple[CoresetRound, ...]
    sites: tuple[str, ...]
    converged: bool
    seed: int
    min_cell_size: int | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    features: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        failed = f", without {', '.join(self.failed)}" if self.failed else ""
        return (
            f"<coreset of {len(self)} points for {len(self.sites)} sites, W2 {self.value:.6g} in"
            f" [{self.lower:.6g}, {self.upper:.6g}], method {self.method}{failed}>"
        )

    @property
    def measure(self) -> Measure:
        """The points with their weights."""
        return Measure(self.points, self.weights)

    def to_frame(self) -> pd.DataFrame:
        """Return the points as a pandas DataFrame with the names of features as columns."""
        return data_frame(
            self.points, columns=None if self.features is None else list(self.features)
        )

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> CoresetResult:
        remaining = dict(content)
        result = cls(
            points=np.array(remaining.pop("points"), dtype=np.float64),
            weights=np.array(remaining.pop("weights"), dtype=np.float64),
            sites=_names(remaining.pop("sites")),
            traffic=Traffic(**remaining.pop("traffic")),
            history=tuple(CoresetRound(**record) for record in remaining.pop("history")),
            features=None if (names := remaining.pop("features")) is None else _names(names),
            **remaining,
        )
        result._check()
        return result

    def _check(self) -> None:
        points, weights = self.points, self.weights
        if points.ndim != 2 or weights.shape != (len(points),) or not np.isfinite(points).all():
            raise ValueError("not points with weights")
        if self.features is not None and len(self.features) != points.shape[1]:
            raise ValueError("not a name for each feature")
        if not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-9:
            raise ValueError("not weights")
        if not 0 <= self.lower <= self.value <= self.upper < math.inf:
            raise ValueError("not a result of coreset()")

    def plot(self, path: str | Path, shape: tuple[int, ...] | None = None) -> None:
        """Draw the points into a .png, .svg or .pdf file, as images or on two principal axes.

        `shape` is the shape of an image, such as (28, 28) or (32, 32, 3). When left out, points
        with a square number of features are drawn as square images.
        """
        import importlib

        # By name, because packages import only from earlier ones, and the report comes later.
        importlib.import_module("fedwad.report").coreset_picture({"": self}, path, shape=shape)


def _names(names: Any) -> tuple[str, ...]:
    if type(names) is not list or not all(type(name) is str for name in names):
        raise TypeError("not a list of names")
    return tuple(names)
