"""The number of microsoft/otdd beside ours on the same samples, and what each difference of
definition does to it.

The package itself is not run: its quantities are written down here from its source (commit
72f1b22), its solver's temperatures from geomloss 0.2.6. `docs/otdd.md` lists the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.stats import spearmanr

import fedwad
from paper.data import load

NAMES = ("mnist", "kmnist", "usps", "fashion_mnist")
QUICK = ("mnist - usps", "digits, 0 to 16", "digits, 0 to 1", "digits, 10 axes")
ENTREG = 0.1  # DatasetDistance(entreg=0.1, inner_ot_entreg=0.1)

Floats = NDArray[np.float64]


class Side(NamedTuple):
    """One data set: the samples that are transported, and those that class statistics are taken
    of."""

    X: Floats
    y: NDArray[np.int64]
    whole: tuple[Floats, NDArray[np.int64]]

    def classes(self) -> list[Floats]:
        X, y = self.whole
        return [X[y == code] for code in range(y.max() + 1)]


Table = Callable[[Side, Side], Floats]
Term = Callable[["Spread", "Spread", float], float]


def side(X: NDArray[Any], y: NDArray[Any], transported: int | None = None) -> Side:
    """A data set of which the first `transported` samples are transported, all when left out."""
    X, codes = np.asarray(X, dtype=np.float64), np.unique(y, return_inverse=True)[1]
    return Side(X[:transported], codes[:transported], (X, codes))


def squares(X: Floats, Y: Floats) -> Floats:
    """|x - y|^2 for all pairs."""
    return np.asarray(
        np.maximum((X**2).sum(axis=1)[:, None] + (Y**2).sum(axis=1) - 2 * X @ Y.T, 0.0)
    )


# ---- How far apart two classes are.


class Spread(NamedTuple):
    """The covariance V'diag(a^2)V of a class: deviations a along directions, the rows of V."""

    a: Floats
    V: Floats


def spread(points: Floats, lost: int, cut: float) -> Spread:
    """The covariance with divisor n - lost; variances below `cut` times the largest are taken as
    zero."""
    _, a, V = np.linalg.svd(
        (points - points.mean(axis=0)) / np.sqrt(len(points) - lost), full_matrices=False
    )
    kept = a**2 > cut * a.max() ** 2
    return Spread(a[kept], V[kept])


def _traces(S: Spread, T: Spread) -> float:
    return float(S.a @ S.a + T.a @ T.a)


def diagonal(S: Spread, T: Spread, _cut: float = 0.0) -> float:
    """Sum over features of (s - t)^2, s and t the standard deviations: diagonal_cov=True, and
    ours."""
    s, t = (np.sqrt(part.a**2 @ part.V**2) for part in (S, T))
    return float(((s - t) ** 2).sum())


def bures(S: Spread, T: Spread, cut: float = 0.0) -> float:
    """tr S + tr T - 2 tr (S^1/2 T S^1/2)^1/2: the default. The last root leaves out squares below
    `cut`, too."""
    roots = np.linalg.svd(S.a[:, None] * (S.V @ T.V.T) * T.a, compute_uv=False)
    return _traces(S, T) - 2 * float(roots[roots**2 > cut * roots.max(initial=0.0) ** 2].sum())


def frobenius(S: Spread, T: Spread, _cut: float = 0.0) -> float:
    """|S^1/2 - T^1/2|^2 = tr S + tr T - 2 tr S^1/2 T^1/2: our covariance="full"."""
    return _traces(S, T) - 2 * float(S.a @ (S.V @ T.V.T) ** 2 @ T.a)


def spreads(term: Term, lost: int = 1, single: bool = True) -> Table:
    """`term` between all classes. Their roots leave out eigenvalues below d times the rounding of
    the precision."""

    def table(a: Side, b: Side) -> Floats:
        cut = a.X.shape[1] * float(np.finfo(np.float32 if single else np.float64).eps)
        left, right = ([spread(points, lost, cut) for points in side.classes()] for side in (a, b))
        return np.array([[term(S, T, cut) for T in right] for S in left])

    return table


def _nothing_to_itself(a: Side, b: Side, table: Floats) -> Floats:
    """Within one data set they set a class's distance to itself to zero, whatever rounding and
    entropy make of it."""
    if a is b:
        np.fill_diagonal(table, 0.0)
    return table


def gaussian(term: Term, lost: int = 1, single: bool = True) -> Table:
    """W2^2 between Gaussians, |m - m'|^2 + term, for all classes; covariances divide by n -
    lost."""

    def table(a: Side, b: Side) -> Floats:
        means = (np.array([points.mean(axis=0) for points in side.classes()]) for side in (a, b))
        return _nothing_to_itself(a, b, squares(*means) + spreads(term, lost, single)(a, b))

    return table


def samples(transport: Callable[[Floats, float], float]) -> Table:
    """W2^2 between the samples of all classes: inner_ot_method="exact"."""

    def table(a: Side, b: Side) -> Floats:
        first, second = a.classes(), b.classes()
        found = np.array(
            [[transport(squares(x, y), diameter(x, y)) for y in second] for x in first]
        )
        return _nothing_to_itself(a, b, found)

    return table


# ---- Transport between the data sets.


def cost(a: Side, b: Side, table: Floats) -> Floats:
    """Their cost of a pair of samples: half of what ours is."""
    return (squares(a.X, b.X) + table[np.ix_(a.y, b.y)]) / 2


def exact(cost: Floats, _diameter: float = 0.0) -> float:
    n, m = cost.shape
    return float(ot.emd2(np.full(n, 1 / n), np.full(m, 1 / m), cost, numItermax=10**8))


def diameter(X: Floats, Y: Floats) -> float:
    """Of the box around both: geomloss starts cooling from it."""
    both = np.vstack([X, Y])
    return float(np.linalg.norm(both.max(axis=0) - both.min(axis=0)))


def _softmin(cost: Floats, heat: float) -> Floats:
    """-heat log of the mean of exp(-cost / heat) over each row: its least entry where heat is
    small."""
    least = cost.min(axis=1)
    return np.asarray(least - heat * np.log(np.exp((least[:, None] - cost) / heat).mean(axis=1)))


def annealed(cost: Floats, diameter: float, entreg: float = ENTREG, scaling: float = 0.5) -> float:
    """Entropic transport the way geomloss does it: one averaged step of both potentials at each
    temperature.

    Temperatures fall from diameter^2 by the factor scaling^2 to entreg, some ten in all; the value
    is that of the potentials reached, converged or not.
    """
    steps = int(np.ceil(np.log(entreg**0.5 / diameter) / np.log(scaling)))
    temperatures = [
        diameter**2,
        *(diameter**2 * scaling ** (2.0 * k) for k in range(steps)),
        entreg,
    ]

    def potentials(f: Floats, g: Floats, heat: float) -> tuple[Floats, Floats]:
        """What each potential should be, given the other, under uniform weights."""
        return _softmin(cost - g, heat), _softmin(cost.T - f, heat)

    f, g = potentials(np.zeros(cost.shape[0]), np.zeros(cost.shape[1]), temperatures[0])
    for heat in temperatures:
        better_f, better_g = potentials(f, g, heat)
        f, g = (f + better_f) / 2, (g + better_g) / 2
    f, g = potentials(f, g, entreg)
    return float(f.mean() + g.mean())


class Costs(NamedTuple):
    """Their costs across two data sets and within each, and the size of the box around both."""

    across: Floats
    first: Floats
    second: Floats
    size: float


def costs(a: Side, b: Side, table: Table) -> Costs:
    # Labels are the last column of a point there, those of the second data set counted on from the
    # first's.
    start = a.whole[1].max() + 1
    size = diameter(np.column_stack([a.X, a.y]), np.column_stack([b.X, b.y + start]))
    return Costs(cost(a, b, table(a, b)), cost(a, a, table(a, a)), cost(b, b, table(b, b)), size)


def theirs(costs: Costs, entreg: float = ENTREG, scaling: float = 0.5) -> float:
    """What DatasetDistance(...).distance() returns: a debiased Sinkhorn divergence of half
    squares."""
    across, first, second = (annealed(part, costs.size, entreg, scaling) for part in costs[:3])
    return across - first / 2 - second / 2


# ---- The table.


def problems(samples: int = 1000) -> dict[str, tuple[Side, Side]]:
    """Named pairs of data sets: six of images, and digits in other units and in few features."""
    data = {name: side(*load(name, samples=samples)) for name in NAMES}
    found = {f"{a} - {b}": (data[a], data[b]) for a, b in combinations(NAMES, 2)}
    X, y = fedwad.datasets.load("digits")
    centred = X - X.mean(axis=0)
    main = centred @ np.linalg.svd(centred, full_matrices=False)[2][:10].T
    for name, points in {
        "digits, 0 to 16": X,
        "digits, 0 to 1": X / 16,
        "digits, 10 axes": main,
    }.items():
        found[name] = side(points[y < 5], y[y < 5]), side(points[y >= 5], y[y >= 5])
    return found


def row(a: Side, b: Side) -> dict[str, Any]:
    """Both packages' numbers, their ratios, and one of the ratios taken apart."""
    forms = ("diag", "full")
    diag, full = (
        fedwad.transport.dataset_distance(a.X, a.y, b.X, b.y, covariance=form) ** 2 / 2
        for form in forms
    )
    messages = [
        fedwad.distance((a.X, a.y), (b.X, b.y), class_covariance=form, labels=True).value ** 2 / 2
        for form in forms
    ]
    usual = costs(a, b, gaussian(bures))
    default, single = theirs(usual), exact(usual.across)
    narrow = theirs(costs(a, b, gaussian(diagonal)))
    inner = theirs(costs(a, b, samples(annealed)))
    population, sample = (
        exact(cost(a, b, gaussian(bures, lost, single=False)(a, b))) for lost in (0, 1)
    )
    apart = spreads(frobenius, single=False)(a, b) / spreads(bures, single=False)(a, b)
    return {
        "ours diag": (2 * diag) ** 0.5,
        "ours full": (2 * full) ** 0.5,
        "theirs diag": f"{narrow:.5g}",
        "theirs": f"{default:.5g}",
        "theirs inner": f"{inner:.5g}",
        "diag/diag": f"{narrow / diag:.4f}",
        "theirs/full": f"{default / full:.4f}",
        "theirs/diag": f"{default / diag:.4f}",
        "inner/full": f"{inner / full:.4f}",
        "Bures": f"{population / full:.4f}",
        "n - 1": f"{sample / population:.4f}",
        "single": f"{single / sample:.4f}",
        "steps": f"{default / single:.4f}",
        "many steps": f"{theirs(usual, scaling=0.9) / single:.4f}",
        "F2/B2": f"{apart.min():.2f}-{apart.max():.2f}",
        "message diag": f"{messages[0] / diag - 1:+.1%}",
        "message full": f"{messages[1] / full - 1:+.1%}",
    }


def measure(full: bool = False) -> Iterator[dict[str, Any]]:
    """One row a pair; with `full` of 1000 samples, then rank correlations over the six pairs, then
    class statistics of more samples.

    "diag/diag" is theirs with diagonal_cov=True over half our square, "theirs/full" their default
    over half the square of our "full", and so on; "theirs/full" is the product of the columns
    "Bures" to "steps".
    """
    rows = []
    for name, (a, b) in problems(1000 if full else 300).items():
        if full or name in QUICK:
            rows.append({"pair": name, **row(a, b)})
            yield rows[-1]
    if full:
        yield from _ranks(rows)
        yield from statistics()


def _ranks(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rank correlations over the pairs of image sets."""
    six = rows[: len(NAMES) * (len(NAMES) - 1) // 2]
    columns = {name: [float(row[name]) for row in six] for name in list(six[0])[1:6]}
    for form in ("diag", "full"):
        errors = [float(row[f"message {form}"].rstrip("%")) / 100 for row in six]
        columns[f"message {form}"] = [
            d * d * (1 + e) for d, e in zip(columns[f"ours {form}"], errors, strict=True)
        ]
    for name in ("theirs diag", "theirs", "theirs inner"):
        yield {"pair": f"rank with {name}"} | {
            other: float(spearmanr(columns[name], values).statistic)
            for other, values in columns.items()
        }


def statistics() -> list[dict[str, Any]]:
    """Their maxsamples: class statistics of 1000 or of all 5000 samples, the same 1000
    transported."""
    data = [load(name, samples=5000) for name in ("mnist", "usps")]
    rows = []
    for known in (1000, 5000):
        a, b = (side(X[:known], y[:known], transported=1000) for X, y in data)
        ours = fedwad.transport.dataset_distance(a.X, a.y, b.X, b.y, covariance="full")
        default = theirs(costs(a, b, gaussian(bures)))
        ratio = f"{2 * default / ours**2:.4f}"
        name = f"mnist - usps, of {known}"
        rows.append(
            {"pair": name, "ours full": ours, "theirs": f"{default:.5g}", "theirs/full": ratio}
        )
    return rows


if __name__ == "__main__":
    from benchmarks.__main__ import show

    show("otdd_conversion", list(measure(full=True)))
