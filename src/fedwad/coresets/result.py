"""The result of `fedwad.coreset`, which can be saved, loaded and drawn, and what methods return."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedwad._files import SavedResult, read_fields
from fedwad._html import data_frame, html_rows
from fedwad._words import format_bytes, format_value, pluralize
from fedwad.errors import InputError
from fedwad.federation import Traffic
from fedwad.tables import Schema
from fedwad.transport import Floats, Measure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def decode(schema: Schema, point: Floats) -> dict[str, str]:
    """An encoded row in the columns' own units and levels."""
    described = schema.describe(point)
    return {name: format_value(values, schema[name].kind) for name, values in described.items()}


def rows_in_units(schema: Schema, points: Floats, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Encoded rows as rows of a table after the `given` columns: texts, but numbers as numbers."""
    found = []
    for k, point in enumerate(points):
        row = decode(schema, point)
        numbers = {
            name: values["mean"] if row[name] != "missing" else np.nan
            for name, values in schema.describe(point).items()
            if schema[name].kind in ("number", "boolean")
        }
        found.append({name: values[k] for name, values in given.items()} | row | numbers)
    return found


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


@dataclass(frozen=True, eq=False, kw_only=True)
class PointsResult(SavedResult):
    """Points with weights that were learned in rounds; coresets and barycenters are such."""

    points: Floats
    weights: Floats
    lower: float
    upper: float
    converged: bool
    seed: int
    failed: Mapping[str, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    features: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def measure(self) -> Measure:
        """The points with their weights."""
        return Measure(self.points, self.weights)

    def to_frame(self) -> pd.DataFrame:
        """Return the points as a pandas DataFrame with the names of features as columns."""
        return data_frame(self.points, columns=self.features and list(self.features))

    def _check(self) -> None:
        points, weights = self.points, self.weights
        if points.ndim != 2 or weights.shape != (len(points),) or not np.isfinite(points).all():
            raise ValueError("not points with weights")
        if self.features is not None and len(self.features) != points.shape[1]:
            raise ValueError("not a name for each feature")
        if not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-9:
            raise ValueError("not weights")
        if not 0 <= self.lower <= self.upper < math.inf:
            raise ValueError("not bounds")


@dataclass(frozen=True, eq=False, kw_only=True)
class CoresetResult(PointsResult):
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
    schema : Schema or None
        The schema that encoded the sites' tables, which decodes the points; None for arrays.
    """

    _format: ClassVar[str] = "fedwad coreset 2"
    _noun: ClassVar[str] = "coreset"

    value: float
    method: str
    options: dict[str, Any]
    history: tuple[CoresetRound, ...]
    sites: tuple[str, ...]
    min_cell_size: int | None = None
    schema: Schema | None = None

    def __repr__(self) -> str:
        failed = f", without {', '.join(self.failed)}" if self.failed else ""
        return (
            f"<coreset of {len(self)} points for {len(self.sites)} sites, W2 {self.value:.6g} in"
            f" [{self.lower:.6g}, {self.upper:.6g}], method {self.method}{failed}>"
        )

    @property
    def rows(self) -> tuple[dict[str, str], ...]:
        """The points as rows of the sites' tables: numbers in their units, and likely levels.

        The level of a category comes with its share where the point is not of one level. Empty
        without a schema.
        """
        return tuple(self.decode(point) for point in self.points) if self.schema else ()

    def decode(self, point: Floats) -> dict[str, str]:
        """An encoded row, such as a mean of points, in the columns' own units and levels."""
        if self.schema is None:
            raise InputError(
                "These points have no schema; they are as they were given.", "no-schema"
            )
        return decode(self.schema, point)

    def to_frame(self) -> pd.DataFrame:
        """Return the points as a pandas DataFrame.

        With a schema it has their weights and the columns of the tables: numbers in their own
        units, days, and likely levels as in `rows`.
        """
        if self.schema is None:
            return super().to_frame()
        return data_frame(rows_in_units(self.schema, self.points, {"weight": self.weights}))

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> CoresetResult:
        # Without the rows, which --json adds.
        return read_fields(cls, {k: value for k, value in content.items() if k != "rows"})

    def _check(self) -> None:
        super()._check()
        if not self.lower <= self.value <= self.upper:
            raise ValueError("not a result of coreset()")

    def plot(self, path: Any = None, shape: tuple[int, ...] | None = None) -> Figure:
        """Draw the points, as images or on two principal axes.

        Parameters
        ----------
        path : a .png, .svg or .pdf file to write, optional
        shape : of an image, such as (28, 28) or (32, 32, 3); when left out, points with a square
            number of features are drawn as square images
        """
        import importlib

        # By name, because packages import only from earlier ones, and the report comes later.
        picture = importlib.import_module("fedwad.report").coreset_picture
        figure: Figure = picture(self, path, shape=shape)
        return figure

    def _html_rows(self) -> dict[str, str]:
        up = format_bytes(self.traffic.up)
        return {
            "W2 from all data": f"{self.value:.4g}",
            "certified bounds": f"{self.lower:.4g} to {self.upper:.4g}",
            "sent by the sites": f"{up} in {pluralize(self.traffic.messages, 'message')}",
        }

    def _repr_html_(self) -> str:
        """The points in the columns' own units, the heaviest first, where there is a schema."""
        facts, rows = super()._repr_html_(), self.rows
        if not rows:
            return facts
        order = np.argsort(-self.weights, kind="stable").tolist()[:50]
        lines = [("", [f"{self.weights[k]:.1%}", *rows[k].values()]) for k in order]
        return facts + html_rows("The heaviest points first.", ("weight", *rows[0]), lines)


@dataclass(frozen=True, eq=False)
class Learned:
    """Atoms (S, d) with masses (S,) that a method found, and what is known about them.

    Their W2 from the union of the samples of `sites` lies between `lower` and `upper`. Other fields
    are those of a `CoresetResult`. Without an estimate `value`, the lower bound is the estimate, or
    the upper bound if the lower one is zero. The lower bound is closer because the dual value is
    flat around the optimal potentials, while the cost of a plan is not.
    """

    atoms: Floats
    weights: Floats
    lower: float
    upper: float
    sites: tuple[str, ...]
    value: float | None = None
    history: tuple[CoresetRound, ...] = ()
    converged: bool = False
    min_cell_size: int | None = None
