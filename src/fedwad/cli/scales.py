"""A hint for those who read tables: one column that outweighs all others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedwad.cli.console import screen
from fedwad.federation import Dataset
from fedwad.federation.columns import dropping
from fedwad.ot import Floats

__all__ = ["note_scales", "shares"]

_ALMOST_ALL = 0.9


def note_scales(parties: Iterable[Dataset]) -> None:
    """Say so when one named feature makes nearly all of the spread: a patient's number, or one in
    small units.

    Squares are added up over features, so that feature alone then decides distances and clusters,
    and these look as certain as any. Only tables are looked at, here where the files are; arrays
    have been prepared by somebody.
    """
    data = list(parties)
    names = data[0].features if data else None
    if names is None or len(names) < 2 or any(one.features != names for one in data):
        return
    found = shares([one.measure.points for one in data])
    largest = int(found.argmax())
    if found[largest] > _ALMOST_ALL:
        part = "nearly all" if found[largest] > 0.995 else f"{found[largest]:.0%}"
        screen.print(
            f"Mind: column '{names[largest]}' makes {part} of the spread of these data, so the answer is about little"
            f" else. Drop it if it is no measurement ({dropping(names[largest])}), or scale the columns by numbers that"
            " are public.",
            soft_wrap=True,
            markup=False,
        )


def shares(tables: list[Floats]) -> Floats:
    """Each feature's share of the spread: of the sum of variances over all rows of all tables."""
    rows = np.concatenate(tables)
    largest = np.abs(rows).max(axis=0)  # squares of very large numbers would overflow
    scale = float(largest.max()) or 1.0
    variances = np.var(rows / scale, axis=0)
    return np.asarray(variances / (variances.sum() or 1.0))
