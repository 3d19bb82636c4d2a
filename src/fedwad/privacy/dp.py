"""The promise that is asked for: epsilon, delta, and what is public about the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.privacy._accounting import check_budget, mu_of

__all__ = ["DP", "MOST_CELLS"]

MOST_CELLS = 1000


@dataclass(frozen=True, eq=False)
class DP:
    """Differential privacy for one release: (epsilon, delta) for each record, whoever sees it and
    whatever they know.

    Parameters
    ----------
    epsilon, delta : the promise of this release; delta is to be well below one over the number of
        samples
    clip_norm : samples farther than this from the centre are drawn back to it. It is public: take
        it from what the features can be, never from the data. One twice too large costs little with
        many samples, and much with few.
    centre : public point about which samples are clipped: a number for all features, or one for
        each
    cells : how many cells are told besides the moments: "auto" (from the number of samples and
        features and the promise), a whole number (0 for moments alone), or public centres (S, d) of
        one's own
    labels : public names of classes, for data that have labels: then the classes are the cells, and
        the release serves a classifier too. It tells noisy means and shares of these classes;
        samples of other classes count for none.

    Examples
    --------
    >>> import fedwad
    >>> fedwad.DP(epsilon=1, clip_norm=10)
    DP(epsilon=1, delta=1e-05, clip_norm=10)
    """

    epsilon: float
    delta: float = 1e-5
    clip_norm: float = math.nan
    centre: Any = 0.0
    cells: Any = "auto"
    labels: Any = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        clip_norm = self.clip_norm
        if (
            isinstance(clip_norm, bool)
            or not isinstance(clip_norm, int | float)
            or not 1e-100 < clip_norm < 1e100
        ):
            raise InputError(
                f"clip_norm is {clip_norm!r}; give how far from the centre samples can lie, from what is public about them."
            )
        centre = np.atleast_1d(_array(self.centre, "centre"))
        if centre.ndim != 1:
            raise InputError("centre must be a number, or one number for each feature.")
        if self.labels is not None:
            if isinstance(self.labels, str) or not 1 <= len(self.class_names) <= MOST_CELLS:
                raise InputError(
                    f"labels must be a list of one to {MOST_CELLS} public names of classes."
                )
            if not (isinstance(self.cells, str) and self.cells == "auto"):
                raise InputError(
                    "labels and cells came both; with labels the classes are the cells, so leave cells out."
                )
        cells = self.cells
        if isinstance(cells, str | int | np.integer) and not isinstance(cells, bool):
            if cells != "auto" and not (not isinstance(cells, str) and 0 <= cells <= MOST_CELLS):
                raise InputError(
                    f"cells is {cells!r}; give 'auto', 0 to {MOST_CELLS}, or centres (S, d)."
                )
        elif _array(cells, "cells").ndim != 2 or not 1 <= len(cells) <= MOST_CELLS:
            raise InputError(
                f"cells came as centres of a wrong shape; give an array (S, d) of up to {MOST_CELLS}."
            )

    def __repr__(self) -> str:
        return f"DP(epsilon={self.epsilon:g}, delta={self.delta:g}, clip_norm={self.clip_norm:g})"

    @property
    def mu(self) -> float:
        """What the release costs: see `fedwad.privacy.mu_of`."""
        return mu_of(self.epsilon, self.delta)

    @property
    def centre_point(self) -> Floats:
        """The centre as an array, of one number if it is the same for all features."""
        return np.atleast_1d(_array(self.centre, "centre"))

    @property
    def own_centres(self) -> Floats | None:
        """The public centres of cells, if they were given."""
        return (
            None if isinstance(self.cells, str | int | np.integer) else _array(self.cells, "cells")
        )

    @property
    def class_names(self) -> tuple[Any, ...]:
        """The public names of classes; none if labels are not asked for."""
        names = () if self.labels is None else self.labels
        return tuple(name.item() if isinstance(name, np.generic) else name for name in names)

    @property
    def cell_count(self) -> int:
        """The number of cells; -1 stands for "auto"."""
        if self.labels is not None:
            return len(self.class_names)
        if isinstance(self.cells, str):
            return -1
        return int(self.cells) if isinstance(self.cells, int | np.integer) else len(self.cells)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, from which `DP.of` makes it again."""
        own = self.own_centres
        return {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "clip_norm": float(self.clip_norm),
            "centre": self.centre_point.tolist(),
            "cells": own.tolist() if own is not None else self.cells,
            **({} if self.labels is None else {"labels": list(self.class_names)}),
        }

    @classmethod
    def of(cls, promise: Any) -> DP:
        """A DP as it is, or what `to_dict` made of it."""
        if isinstance(promise, DP):
            return promise
        known = {field.name for field in fields(cls)}
        if (
            not isinstance(promise, Mapping)
            or not set(promise) <= known
            or "epsilon" not in promise
        ):
            raise InputError(
                f"privacy came as a {type(promise).__name__}; give fedwad.DP(epsilon=..., clip_norm=...)."
            )
        return cls(**promise)


def _array(values: Any, name: str) -> Floats:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} does not consist of numbers.") from None
    if not np.isfinite(array).all() or array.size == 0 or np.abs(array).max() > 1e100:
        raise InputError(f"{name} must be finite numbers.")
    return array
