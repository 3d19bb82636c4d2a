"""From what sites sent to what may be said: tests, distances between populations, evidence.

The permutation test is the only source of "differs". Distances between populations come from
columns and correlations (`fedwad.statistics.populations`); the upper end of their interval from the
distances between samples, which are larger on average, since W2^2 is convex.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._files import to_plain
from fedwad._html import html_table
from fedwad._words import pluralize
from fedwad.compare.evidence import (
    Column,
    Evidence,
    Moments,
    PairEvidence,
    add_class_parts,
    column_index,
    moments_of,
    rounded,
)
from fedwad.compare.sentences import ALPHA, join_columns, units_in_words
from fedwad.compare.task import ColumnNames, MatrixEstimates, Pair
from fedwad.statistics import LabelledSummary, Summary, beyond_chance, column_bounds
from fedwad.statistics.blocking import GRID, SMALLEST, Blocks, sizes_of
from fedwad.statistics.order import (
    OrderStatistics,
    has_ties,
    indicator_steps,
)
from fedwad.statistics.populations import (
    cells_misfit,
    column_squares,
    population_distances,
    unseen_tails,
    unseen_values,
)
from fedwad.statistics.summaries import feature_variances
from fedwad.statistics.testing import (
    PermutationTest,
    functions_of,
    have_same_functions,
    pairwise,
    rows_needed,
)
from fedwad.transport import Floats


def verdict(pvalue: float, smallest: float, alpha: float = ALPHA) -> bool | None:
    """Whether a p-value is at most alpha; None if it is unknown or could not have been.

    >>> verdict(0.01, 0.001), verdict(0.4, 0.001), verdict(0.1, 0.1), verdict(float("nan"), 0.0)
    (True, False, None, None)
    """
    if pvalue != pvalue or smallest > alpha:
        return None
    return bool(pvalue <= alpha)


def verdicts(pvalue: Floats, smallest: Floats, alpha: float = ALPHA) -> NDArray[np.object_]:
    """The verdicts of all pairs, (N, N) of True, False and None; False on the diagonal."""
    found = (pvalue <= alpha).astype(object)
    found[np.isnan(pvalue) | (smallest > alpha)] = None
    np.fill_diagonal(found, False)
    return found


@dataclass(frozen=True)
class Heterogeneity:
    """How different the sites are on the whole.

    Attributes
    ----------
    value : float
        Mean over all pairs of sites of the squared distance between their populations: that of
        `population` where a pair differs, else an estimate that is zero on average if the two
        agree, and may then be negative.
    fraction : float
        The part of the total variance that lies between sites, at most 1; negative if `value`
        is. Half the mean squared distance between sites is their variance, as in the
        intraclass correlation.
    pvalue : float
        Of the hypothesis that all sites have one population, by the test over all sites; nan if
        none ran, or if none could have told with these rows.
    """

    value: float
    fraction: float
    pvalue: float

    def __repr__(self) -> str:
        return (
            f"<heterogeneity {self.value:.4g}, {self.fraction:.1%} of the total variance,"
            f" p = {self.pvalue:.2g}>"
        )

    @property
    def sentence(self) -> str:
        """What may be said: no number unless the test over all sites finds a difference."""
        if math.isnan(self.pvalue):
            return "unknown, since no test could tell"
        if self.pvalue > ALPHA:
            return "no difference was found"
        if self.value <= 0:
            return "too small to be estimated"
        part = f"{self.fraction:.1%} of the total variance"
        return f"{self.value:.4g}, the mean squared distance; {part}"

    def _repr_html_(self) -> str:
        return html_table("heterogeneity", {"answer": self.sentence})

    def to_dict(self) -> dict[str, float | None]:
        """Return plain numbers, None for unknown ones."""
        return {name: to_plain(number) for name, number in vars(self).items()}


def heterogeneity(square: Floats, variances: Floats, pvalue: float) -> Heterogeneity:
    """From squared population distances (N, N) and the total variance (N,) of each site."""
    value = float(square[np.triu_indices(len(square), 1)].mean())
    between = value / 2
    total = float(variances.mean()) + max(between, 0.0)
    return Heterogeneity(value, min(between / total, 1.0) if total > 0 else 0.0, pvalue)


@dataclass(frozen=True, eq=False)
class Eccentricity:
    """How far each site lies from the rest.

    Attributes
    ----------
    sites : tuple of str
    value : array (N,)
        Mean squared distance between the population of a site and those of the others. The mean
        over sites is the heterogeneity.
    odd : tuple of str
        The odd one out, if there is one: a site that differs from every other one while no two
        others differ, which could be told of all pairs. Empty with fewer than three sites.
    """

    sites: tuple[str, ...]
    value: Floats
    odd: tuple[str, ...]

    @property
    def farthest(self) -> str:
        """The site that is farthest from the rest, even if only by chance."""
        return self.sites[int(np.argmax(self.value))]

    def __repr__(self) -> str:
        odd = f"odd one out: {', '.join(self.odd)}" if self.odd else "no odd one out"
        return f"<eccentricity of {len(self.sites)} sites, {odd}>"

    def _repr_html_(self) -> str:
        rows = {self.sites[k]: f"{self.value[k]:.4g}" for k in np.argsort(-self.value)}
        return html_table(repr(self), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists."""
        return {"sites": list(self.sites), "value": self.value.tolist(), "odd": list(self.odd)}


def eccentricity(
    sites: Sequence[str], square: Floats, differs: NDArray[np.object_]
) -> Eccentricity:
    """From squared population distances (N, N) and the verdicts of all pairs.

    If all sites have one population, some site is called odd with probability at most alpha, since
    p-values of pairs are adjusted for their number.
    """
    count = len(sites)
    value = square.sum(axis=1) / max(count - 1, 1)
    odd = []
    for k in range(count if count > 2 else 0):
        others = [i for i in range(count) if i != k]
        apart = all(differs[k, i] is True for i in others)
        if apart and all(differs[i, j] is False for i in others for j in others):
            odd.append(sites[k])
    return Eccentricity(tuple(sites), value, tuple(odd))


_Z = 1.959964  # the 97.5% quantile of a normal number
#: Pairs times features up to which contributions of columns are computed for every pair.
_MOST_PARTS = 400_000


@dataclass(frozen=True, eq=False)
class Tests:
    """The test over all sites, and those of pairs.

    Attributes
    ----------
    overall : the test over all sites that sent blocks; None with fewer than two
    pvalue, smallest : arrays (N, N), adjusted for the number of pairs; nan where untested
    columns : by pair, the p-value of each column
    enough : rows at each site that a test would need, 0 if there are enough
    """

    overall: PermutationTest | None
    pvalue: Floats
    smallest: Floats
    columns: Mapping[Pair, Floats] = field(default_factory=dict)
    enough: int = 0


def run_tests(
    blocks: Sequence[Blocks | None],
    columns: Sequence[int],
    seed: int,
    rows: Sequence[int] = (),
) -> Tests:
    """Test all sites together and each pair, as far as sites sent blocks.

    `rows` are those of the sites, if they are known: a site with fewer than a block has too few.
    """
    count = len(blocks)
    # A site whose blocks are means of other functions than most sites' costs no other its test.
    kinds = Counter(functions_of(one) for one in blocks if one is not None).most_common(2)
    if len(kinds) == 2 and kinds[0][1] > kinds[1][1]:
        blocks = [one if one and functions_of(one) == kinds[0][0] else None for one in blocks]
    known = comparable(blocks)
    own = [one for k in known if (one := blocks[k]) is not None]
    pvalue, smallest = np.full((2, count, count), math.nan)
    np.fill_diagonal(pvalue, 1.0)
    np.fill_diagonal(smallest, 0.0)
    every = [one for one in with_empty(blocks, rows, len(columns)) if one is not None]
    enough = 0
    if len(every) > sum(one is not None for one in blocks) and have_same_functions(every):
        pairs = combinations(every, 2)  # none if only one site's blocks are known
        enough = max((rows_needed(list(pair), ALPHA) for pair in pairs), default=0)
    if len(own) < 2 or not have_same_functions(own):
        return Tests(None, pvalue, smallest, enough=enough)
    with_columns = len(own) * (len(own) - 1) // 2 * len(columns) <= _MOST_PARTS
    found = pairwise(own, columns, seed=seed, with_columns=with_columns)
    among = np.ix_(known, known)
    pvalue[among], smallest[among] = found.pvalues, found.smallest
    by_column = {}
    for i, j in combinations(range(len(own)), 2):
        if found.columns is not None and not np.isnan(found.pvalues[i, j]):
            by_column[known[i], known[j]] = found.columns[i, j]
        if verdict(found.pvalues[i, j], found.smallest[i, j]) is None:
            enough = max(enough, rows_needed([own[i], own[j]], ALPHA, found.factor))
    return Tests(found.overall, pvalue, smallest, by_column, enough)


def comparable(blocks: Sequence[Blocks | None]) -> list[int]:
    """The sites that sent blocks, without those that share no size with most of the others.

    Blocks of one size are compared, so a single site with blocks of a million rows would end the
    test of all.
    """
    known = [k for k, one in enumerate(blocks) if one is not None]
    sizes = {k: set(sizes_of([one])) for k, one in enumerate(blocks) if one is not None}
    kept = [k for k in known if 2 * sum(bool(sizes[k] & sizes[j]) for j in known) > len(known)]
    return kept if len(kept) > 1 else known


def with_empty(
    blocks: Sequence[Blocks | None], rows: Sequence[int], features: int
) -> list[Blocks | None]:
    """The blocks of all sites, with no block for a site that has fewer rows than one."""
    like = next((one for one in blocks if one is not None), None)
    functions = features if like is None else like.means.shape[1]
    indicators = () if like is None else like.indicators
    none = Blocks(SMALLEST, (), np.zeros((0, functions)), features, indicators)
    too_few = [count < SMALLEST for count in rows] or [False] * len(blocks)
    return [none if few else one for one, few in zip(blocks, too_few, strict=True)]


def with_column_bounds(estimates: MatrixEstimates, columns: Sequence[Column]) -> MatrixEstimates:
    """The same with the lower bounds of columns, where these are larger."""
    summaries = [one for one in estimates.summaries if isinstance(one, Summary)]
    moments = [moments_of(one) for one in summaries]
    known = [one.std for one in moments if one.std is not None]
    stds = known if len(known) == len(moments) else [0 * one.mean for one in moments]
    steps = np.nan_to_num(np.concatenate([column.on_values for column in columns]))
    moved = any(reply.rounding for reply in estimates.replies)
    if moved or not moments or {len(steps)} != {len(one.mean) for one in moments}:
        return estimates  # moved samples are not 0 or s; labelled ones have class statistics
    bounds = column_bounds(np.array([one.mean for one in moments]), np.array(stds), steps)
    return replace(estimates, lower=np.maximum(estimates.lower, bounds))


def between_samples(
    estimates: MatrixEstimates,
) -> tuple[Floats, Floats | None, Floats | None]:
    """Return distances between samples, what chance alone gives, and errors of squares.

    Calibrations of the sites correct the estimates. If both summaries of a pair are equal, its
    value stays the lower bound.
    """
    lower, upper = np.minimum(estimates.lower, estimates.upper), estimates.upper
    calibrations = [reply.calibration for reply in estimates.replies]
    found = beyond_chance(estimates.value, estimates.summaries, calibrations)
    if found is None:
        return np.clip(estimates.value, lower, upper), None, None
    value = np.where(estimates.value > estimates.lower, found.value, estimates.value)
    return np.clip(value, lower, upper), found.noise, found.error


@dataclass(frozen=True, eq=False)
class Between:
    """Distances between populations, (N, N), with nan where they are unknown; None if all are.

    `contributions` has, by pair, the part of each feature in the square, `dependence` that of
    correlations.
    """

    square: Floats | None = None
    population: Floats | None = None
    interval: tuple[Floats, Floats] | None = None
    contributions: Mapping[Pair, Floats] = field(default_factory=dict)
    dependence: Mapping[Pair, float] = field(default_factory=dict)


def between_populations(
    estimates: MatrixEstimates, columns: Sequence[Column], value: Floats, error: Floats | None
) -> Between:
    """Distances between the populations of all pairs of sites that sent order statistics.

    The upper end of an interval is an upper end of the distance between samples, plus 1.96 standard
    errors of its square: the larger of the calibrated and the plain estimate, plus how far the rows
    of both sites are from their cells (`cells_misfit`), and at most the certified bound. It is that
    of the columns if that is larger. Heavy tails and rare values come in addition (`unseen_tails`,
    `unseen_values`).
    """
    if estimates.private is not None:
        return _between_releases(estimates, columns)
    replies = estimates.replies
    known = [k for k, reply in enumerate(replies) if reply.order is not None]
    orders = [reply.order for reply in replies if reply.order is not None]
    count = len(estimates.sites)
    if len(known) < 2 or len({order.means[0].shape[1] for order in orders}) > 1:
        return Between()
    steps = np.nan_to_num(np.concatenate([column.on_values for column in columns]))
    unknown_steps = np.where(steps > 0, 0.0, indicator_steps(orders))
    steps = np.where(steps > 0, steps, unknown_steps)
    summaries = [replies[k].summary for k in known]
    totals = [one.total_covariance() for one in summaries if isinstance(one, Summary)]
    full = [total for total in totals if total.ndim == 2]
    measured = [noise for k in known if (noise := replies[k].noise) is not None]
    has_covariances = len(full) == len(measured) == len(known) and full[0].shape[0] == len(steps)
    found = population_distances(
        orders,
        steps,
        full if has_covariances else None,
        measured if has_covariances else None,
    )
    misfit, tails = np.full(count, math.inf), np.zeros(count)
    tails[known] = unseen_values(orders, unknown_steps)
    for k, order in zip(known, orders, strict=True):
        tails[k] += unseen_tails(order, steps == 0)
        misfit[k] = _cells_misfit(order, replies[k].summary, (steps == 0) & ~has_ties(order))
    plain = np.maximum(value, np.minimum(estimates.value, estimates.upper))
    plain = np.minimum(plain + (misfit[:, None] + misfit), estimates.upper)
    spread = np.zeros_like(value) if error is None else np.nan_to_num(error)
    upper = np.sqrt(plain**2 + _Z * spread)
    # Where the estimate between samples is too low, the columns' own upper end counts.
    upper[np.ix_(known, known)] = np.maximum(upper[np.ix_(known, known)], found.upper)
    upper = np.sqrt(upper**2 + tails[:, None] + tails)
    np.fill_diagonal(upper, 0.0)
    unknown = np.where(np.eye(count, dtype=bool), 0.0, math.nan)

    def whole(part: Floats) -> Floats:
        table = unknown.copy()
        table[np.ix_(known, known)] = part
        return table

    lower = whole(found.lower)
    contributions, dependence = {}, {}
    if count * (count - 1) // 2 * len(steps) <= _MOST_PARTS:
        for i, j in combinations(range(len(known)), 2):
            pair = known[i], known[j]
            contributions[pair] = column_squares(orders[i], orders[j], steps)
            if has_covariances:
                dependence[pair] = float(found.dependence[i, j])
    return Between(
        square=whole(found.columns + found.dependence),
        population=whole(found.population),
        interval=(lower, np.maximum(upper, np.nan_to_num(lower))),
        contributions=contributions,
        dependence=dependence,
    )


def of_causes(found: Between, tests: Tests, columns: NDArray[np.int64]) -> Floats:
    """The root of what the columns that differ by themselves contribute, (N, N); 0 if unknown.

    The distance between two populations is at least that of some of their columns, so an estimate
    by all columns, to which those that do not differ add noise of both signs, is not below it.
    """
    table = np.zeros_like(tests.pvalue)
    for (i, j), pvalues in tests.columns.items():
        if (i, j) in found.contributions:
            parts = np.bincount(columns, found.contributions[i, j], minlength=len(pvalues))
            square = float(np.maximum(parts, 0.0)[pvalues <= ALPHA].sum())
            table[i, j] = table[j, i] = math.sqrt(square)
    return table


def _cells_misfit(
    order: OrderStatistics, summary: Summary | LabelledSummary, are_numbers: NDArray[np.bool_]
) -> float:
    """How far the rows of a site are from its cells; infinite where that is not known.

    Columns of numbers show it. Of a feature with ties, such as an indicator, no column shows how it
    goes with the others: a row and a sample of its cell are at most as far from each other as if
    they were independent, by twice the variance inside cells.
    """
    if isinstance(summary, LabelledSummary) or summary.dimension != len(are_numbers):
        return math.inf
    variances = feature_variances(summary.within, summary.dimension)
    numbers = OrderStatistics(
        tuple(means[:, are_numbers] for means in order.means), order.variances, order.count
    )
    shown = cells_misfit(
        numbers, summary.weights, summary.means[:, are_numbers], variances[are_numbers]
    )
    return math.hypot(shown, math.sqrt(2.0 * float(variances[~are_numbers].sum())))


def _between_releases(estimates: MatrixEstimates, columns: Sequence[Column]) -> Between:
    """Distances by columns from private releases, with their noise subtracted."""
    private = estimates.private
    assert private is not None  # noqa: S101
    count, features = private.means.shape
    contributions = {}
    if count * (count - 1) // 2 * features <= _MOST_PARTS:
        starts = [column.feature_slice.start for column in columns]
        for pair in combinations(range(count), 2):
            parts = np.zeros(features)  # that of a column stands at its first feature
            parts[starts] = private.contributions[pair]
            contributions[pair] = parts
    return Between(
        square=private.square,
        population=estimates.value,
        interval=(private.lower, private.upper),
        contributions=contributions,
    )


def total_variances(estimates: MatrixEstimates) -> list[float]:
    """The total variance of the rows of each site, with labels also that of class statistics."""
    if estimates.private is not None:
        return [float((std**2).sum()) for std in estimates.private.stds]
    variances = []
    for one in estimates.summaries:
        if isinstance(one, LabelledSummary):
            variances.append(one.within_std**2 + float(one.cells.variances.sum()))
        else:
            between = one.weights @ ((one.means - one.mean) ** 2).sum(axis=1)
            variances.append(one.variance + float(between))
    return variances


def compressed(orders: Sequence[OrderStatistics], columns: Sequence[Column]) -> tuple[str, ...]:
    """A sentence about the columns in whose units most rows are nearly equal, since a few extreme
    values made the unit.

    Means are rounded to the `GRID` in units of the standard deviation (`block_means`). Where the
    middle half of the rows, on average over sites that show it, lies within one step of it, the
    test sees little of them: it finds a shift of half a standard deviation of 300 rows in 10% of
    samples if two of them are typing errors of 1e5. A site withholds the rows of a column of which
    few make the most.
    """
    if not orders or min(one.levels[-1] for one in orders) < 4:
        return ()
    unit = np.sqrt(np.mean([one.count * one.level(1)[1][0] for one in orders], axis=0))
    tied, spreads = np.zeros(len(unit), dtype=bool), []
    for one in orders:
        middle, m = one.level(one.levels[-1])[0], one.levels[-1]
        spreads.append(middle[3 * m // 4 - 1] - middle[m // 4])
        tied |= has_ties(one) & ~np.isnan(middle[0])
    shown = ~np.isnan(spreads)
    spread = np.where(shown, spreads, 0.0).sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
    few = (spread > 0) & (spread < GRID * unit) & ~tied
    index = column_index(columns)
    names = list(dict.fromkeys(columns[index[k]].name for k in np.flatnonzero(few)))
    if not names:
        return ()
    return (
        f"A few extreme values make most of the standard deviation of {join_columns(names)}:"
        " the test hardly sees how the other rows differ.",
    )


def notes(
    rows: Sequence[int],
    units: Sequence[int],
    cells: Sequence[int] = (),
    asked: int = 0,
    unequal: float = 10.0,
    each: int = 10,
) -> tuple[str, ...]:
    """Sentences about what these sizes do not allow to be said.

    Where sizes differ by more than the factor `unequal`, the estimate of `value` is far off for
    clusters of 50 and 1500 rows (+35%), and hardly for 100 and 1000. So it is with fewer `cells`
    than were `asked` for and fewer than `each` rows for one of these: six clusters of 60 rows are
    17% too far, of 100 rows 1%.
    `units` are the numbers of independent rows or units of the sites, as far as they are known.
    """
    found = list(units_in_words(rows, units))
    small = [n for n, k in zip(rows, cells, strict=False) if k < asked and n < each * asked]
    if small:
        found.append(
            f"A site with {pluralize(min(small), 'row')} has fewer than {asked} cells: if its rows"
            " form clusters, the distance between the samples may be far off."
        )
    if rows and max(rows) > unequal * min(rows):
        found.append(
            f"The sites have {min(rows):,} to {max(rows):,} rows: for sizes so unequal the distance"
            " between the samples may be far off."
        )
    return tuple(found)


def evidence_of(
    estimates: MatrixEstimates,
    tests: Tests,
    found: Between,
    features: int,
    column_names: ColumnNames,
) -> Evidence:
    """What explains the distances.

    Private releases have no summaries. Summaries may have coordinates for classes after the
    features.
    """
    by_feature = estimates.contributions, found.contributions, tests.columns
    known = {pair for one in (*by_feature, found.dependence) for pair in one}
    if sum(map(len, by_feature)) * features > _MOST_PARTS:
        known = set()
    pairs = []
    for i, j in sorted(known):  # threads finished them in any order
        squares, parts = estimates.contributions.get((i, j)), found.contributions.get((i, j))
        if squares is not None:
            squares = rounded(add_class_parts(squares, features))
        one = PairEvidence(
            None if parts is None else rounded(parts),
            found.dependence.get((i, j)),
            tests.columns.get((i, j)),
            squares,
        )
        pairs.append((i, j, one))
    private = estimates.private
    if private is None:
        moments = [moments_of(reply.summary, features) for reply in estimates.replies]
    else:
        moments = [*map(Moments, private.counts, private.means, private.stds)]
    return Evidence(
        moments=tuple(
            # a mean may have a large offset, so it stays
            replace(one, std=None if one.std is None else rounded(one.std))
            for one in moments
        ),
        pairs=tuple(pairs),
        features=column_names[0],
        schema=column_names[1],
    )
