"""The error to expect before anything is spent, from simulated releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedwad._checks import check_integer, check_number, format_value
from fedwad.errors import InputError
from fedwad.privacy._mechanism import is_number, mu_of
from fedwad.privacy._release import MOST_FEATURES
from fedwad.privacy.columns import BinnedColumn, bin_columns, private_distances, release_counts
from fedwad.tables import Schema
from fedwad.transport import Floats

Verdict = Literal["feasible", "rough", "not feasible"]


@dataclass(frozen=True)
class FeasibilityReport:
    """What releases with this guarantee would show about two distances of this size.

    Attributes
    ----------
    n : rows of each site
    d, columns : encoded features, and columns
    epsilon, delta, mu : the guarantee, and its privacy loss
    nearest, farthest : the two distances between the simulated populations, by columns
    error : root mean square of the relative error of the nearest
    order : probability that the nearest comes out smaller than the farthest
    verdict : "feasible" if the order is kept in 95% of cases and the error is at most 30%, "rough"
        if one of both holds
    enough : about the number of rows with which it would be feasible, `n` or `n` doubled a few
        times; None if 1000 times as many would not do
    """

    n: int
    d: int
    columns: int
    epsilon: float
    delta: float
    mu: float
    nearest: float
    farthest: float
    error: float
    order: float
    verdict: Verdict
    enough: int | None

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def plan(
    n: int,
    d: int | Schema,
    epsilon: float,
    delta: float = 1e-5,
    clip_norm: float = 2.0,
    seed: int = 0,
    *,
    nearest: float = 0.5,
    farthest: float = 1.0,
) -> FeasibilityReport:
    """Simulate releases of three sites, and report what becomes of two distances between them.

    The first site has standard normal numbers, in the units of the schema and within its ranges,
    and equally frequent levels. The other two differ from it in all columns alike.

    Parameters
    ----------
    n : rows of each site
    d : the schema of the tables, or the number of plain features
    epsilon, delta : the guarantee
    clip_norm : of plain features, in units of the typical norm of a row; 2 is a careful, common
        choice. The bins of a schema do not depend on it.
    seed : of the simulated data and their noise
    nearest, farthest : distances between the populations, such as those of the nearest and the
        farthest pair that matter to you

    Examples
    --------
    >>> plan(20_000, 4, epsilon=3).verdict, plan(100, 30, epsilon=1).verdict
    ('feasible', 'not feasible')
    """
    n, seed = check_integer(n, "n", 2), check_integer(seed, "seed", 0)
    check_number(nearest, "nearest", positive=True)
    if not nearest < check_number(farthest, "farthest", positive=True):
        raise InputError(
            f"nearest is {nearest:g} and farthest {farthest:g}; give a smaller and a larger"
            " distance.",
            "bad-option",
        )
    schema = d if isinstance(d, Schema) else None
    width = schema.width if schema is not None else check_integer(d, "d")
    if not 1 <= width <= MOST_FEATURES:
        raise InputError(
            f"There are {width} features; private releases have 1 to {MOST_FEATURES}: reduce them"
            " first.",
            "bad-option",
        )
    if not is_number(clip_norm) or not 0.1 <= clip_norm <= 1000:
        raise InputError(
            f"clip_norm is {format_value(clip_norm)}; give it in units of a row's typical norm,"
            " 0.1 to 1000.",
            "bad-option",
        )
    mu = mu_of(epsilon, delta)
    columns = bin_columns(schema, width, clip_norm * math.sqrt(width))
    base, near, far = (
        [_population(k, columns[k], schema, size**2 / len(columns)) for k in range(len(columns))]
        for size in (0.0, nearest, farthest)
    )
    sites = [[shares for shares, _ in one] for one in (base, near, far)]
    truth = [math.sqrt(sum(square for _, square in one)) for one in (near, far)]
    if not 0 < truth[0] < truth[1]:
        raise InputError(
            f"Populations with these columns are at most {truth[1]:.3g} apart; give smaller"
            " distances.",
            "bad-option",
        )
    error, order = _simulate(n, columns, sites, truth[0], mu, 100, seed)
    verdict = _verdict(error, order)
    enough = n if verdict == "feasible" else None
    for more in (n << doublings for doublings in range(1, 11)):
        if enough is None:
            found = _simulate(more, columns, sites, truth[0], mu, 40, seed)
            enough = more if _verdict(*found) == "feasible" else None
    return FeasibilityReport(
        n=n,
        d=width,
        columns=len(columns),
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        nearest=truth[0],
        farthest=truth[1],
        error=error,
        order=order,
        verdict=verdict,
        enough=enough,
    )


def _verdict(error: float, order: float) -> Verdict:
    """By the usual level of confidence, and by an error well below the factor of two between the
    distances that are simulated unless others are given."""
    kept, known = order >= 0.95, error <= 0.3
    if kept and known:
        return "feasible"
    return "rough" if kept or known else "not feasible"


def _simulate(
    n: int,
    columns: Sequence[BinnedColumn],
    sites: Sequence[Sequence[Floats]],
    truth: float,
    mu: float,
    trials: int,
    seed: int,
    draws: int = 20,
) -> tuple[float, float]:
    """Relative error of the nearest distance, and how often it is the smaller one.

    The standard errors of a probability of 0.95 are 2% and 3% with 100 and 40 trials. The mean of
    20 draws of the bootstrap adds a twentieth to the variance of an estimate.
    """
    rng = np.random.default_rng(seed)
    errors, kept = [], 0.0
    for trial in range(trials):
        releases = []
        for shares in sites:
            counts = np.concatenate([rng.multinomial(n, part) for part in shares])
            # Nothing private is released here, so a seeded generator may draw the noise.
            releases.append(release_counts(n, counts, len(columns), mu, rng.bytes))
        found = private_distances(releases, columns, trial, draws).value[0]
        errors.append(found[1] / truth - 1)
        kept += float(found[1] < found[2]) + 0.5 * float(found[1] == found[2])
    return math.sqrt(float(np.mean(np.square(errors)))), kept / trials


def _population(
    k: int, column: BinnedColumn, schema: Schema | None, square: float
) -> tuple[Floats, float]:
    """Shares of the bins of the k-th column of a population, and its squared distance from the
    first one: `square`, or as much as the column allows."""
    flag = [0.0] if column.has_flag else []
    if column.atoms:
        gap = (column.atoms[1] - column.atoms[0]) ** 2
        moved = min(square / gap, 0.5)
        return np.array([0.5 - moved, 0.5 + moved, *flag]), moved * gap
    if schema is not None and not len(column.edges):
        levels = np.array(schema.compared_columns[k].middle) / column.on_value
        step = 2 * column.on_value**2 * (1 - levels[0])
        moved = min(square / step, 1.0) if step > 0 else 0.0
        shares = (1 - moved) * levels
        shares[0] += moved
        return shares / shares.sum(), moved * step
    from scipy.special import ndtr, ndtri

    shift = math.sqrt(square)
    cumulated = ndtr(column.edges[1:-1] - shift)  # values beyond the bins count in the last ones
    shares = np.diff(np.concatenate([[0.0], cumulated, [1.0]]))
    if schema is not None and schema.compared_columns[k].range:  # no value is beyond it
        low, high = column.edges[[0, -1]]
        first = ndtri((np.arange(4096) + 0.5) / 4096)  # of both quantile functions
        square = float(
            np.mean((np.clip(first + shift, low, high) - np.clip(first, low, high)) ** 2)
        )
    return np.array([*shares, *flag]), square
