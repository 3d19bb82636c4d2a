"""Expected order statistics of each feature of one site, with their variances.

The k-th smallest of m independent draws of a distribution with quantile function F has the
expectation e_k = m int F(u) b(u; k - 1, m - 1) du with the binomial probabilities b (David and
Nagaraja, Order Statistics, 2003, section 2.1). For two distributions, W2^2 is at least
mean_k (e_k - e'_k)^2 and tends to it as m grows (`fedwad.statistics.populations`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad.errors import InputError
from fedwad.transport.measures import Floats, Indices


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """Expected order statistics of each of d features at levels m = 1, 2, 4, ...

    Attributes
    ----------
    means : tuple of arrays (m, d)
        Row k of the array of level m estimates the expectation of the (k + 1)-th smallest of m
        draws; it is unbiased at any number of rows. nan where a site withholds a feature at this
        level and above.
    variances : tuple of arrays (m, d)
        Unbiased estimates of the variances of `means`.
    count : int
        Rows, or units (such as patients) where rows are not independent.
    """

    means: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    count: int

    @property
    def levels(self) -> tuple[int, ...]:
        """Numbers of draws m, in ascending order."""
        return tuple(len(means) for means in self.means)

    def level(self, m: int) -> tuple[Floats, Floats]:
        """Means and variances of the order statistics of m draws, two arrays (m, d)."""
        index = self.levels.index(m)
        return self.means[index], self.variances[index]


def common_level(a: OrderStatistics, b: OrderStatistics) -> int:
    """The largest number of draws that both sites have; there is always 1, the mean."""
    return max(set(a.levels) & set(b.levels))


def aligned(a: OrderStatistics, b: OrderStatistics) -> tuple[OrderStatistics, OrderStatistics]:
    """Both up to the largest common level; where one withholds a feature, so does the other, and
    both have the order statistics of the level below instead, each twice.

    The mean square of their differences is then that of the level below.
    """
    levels = range(len(set(a.levels) & set(b.levels)))
    filled: list[tuple[list[Floats], list[Floats]]] = [([], []), ([], [])]
    for level in levels:
        withheld = np.isnan(a.means[level][0]) | np.isnan(b.means[level][0])
        for one, (means, variances) in zip((a, b), filled, strict=True):
            for found, below in ((one.means[level], means), (one.variances[level], variances)):
                if withheld.any():
                    found = np.where(withheld, np.repeat(below[-1], 2, axis=0), found)
                below.append(found)
    first, second = (
        OrderStatistics(tuple(means), tuple(variances), one.count)
        for one, (means, variances) in zip((a, b), filled, strict=True)
    )
    return first, second


def indicator_steps(orders: Sequence[OrderStatistics], tolerance: float = 1e-6) -> Floats:
    """The difference of the two values of each feature that has no others at any site; 0 for other
    features, (d,).

    An order statistic of values a and b is a or b, so the variance of its mean e over G groups is
    (e - a) (b - e) / (G - 1). At one site the mean of its rows, where G is known, and the two order
    statistics of level 2 give a and b, whatever the data; that the variance of the mean at all
    other sites is that of a and b, up to the `tolerance`, shows that there are no other values.
    Where sites withhold levels, since one of the values is rare, 0 is tried as one of them.
    Rows of units are not independent, and show none.

    >>> rng = np.random.default_rng(0)
    >>> sites = [rng.binomial([1, 2], p, size=(400, 2)) for p in (0.2, 0.4)]
    >>> indicator_steps([order_statistics(rows, rng) for rows in sites]).round(9).tolist()
    [1.0, 0.0]
    """
    steps = np.zeros(orders[0].means[0].shape[1])
    for k, order in enumerate(orders):
        if len(order.levels) == 1:
            continue
        (mean,), (variance,) = order.means[0], order.variances[0]
        (low, high), (v, w) = order.means[1], order.variances[1]
        with np.errstate(invalid="ignore", divide="ignore"):
            # In units of high - low from low, with s = a + b and p = a b: v s + (w - v) p = v, and
            # s m - p is the mean square of the rows, of mean m.
            width = high - low
            m = (mean - low) / width
            square = m**2 + variance * (order.count - 1) / width**2
            total = (v + (w - v) * square) / (v + (w - v) * m)
            half = np.sqrt(total**2 / 4 - total * m + square)
            low, high = low + width * (total / 2 - half), low + width * (total / 2 + half)
            fits = np.isfinite(low) & np.isfinite(high)
            for other in (*orders[:k], *orders[k + 1 :]):
                gap = other.variances[0][0] * (other.count - 1)
                gap = gap - (other.means[0][0] - low) * (high - other.means[0][0])
                fits &= np.abs(gap) <= tolerance * (high - low) ** 2
        steps = np.where(fits & (steps == 0), high - low, steps)
    # If one value is 0, the other is the mean square over the mean: the same at each site that has
    # it, and right for any values if all sites but one have nothing but 0.
    means = np.array([order.means[0][0] for order in orders])
    spreads = np.array([order.variances[0][0] * (order.count - 1) for order in orders])
    withheld = [np.isnan(one.means[-1][0]) | (len(one.levels) == 1) for one in orders]
    # With one of n rows at s and the others at 0, n mean^2 is already above the variance.
    counts = np.array([[order.count] for order in orders])
    near_zero = 2 * counts * means**2 < spreads
    with np.errstate(invalid="ignore", divide="ignore"):
        others = np.where(
            spreads > 0, means + spreads / means, np.where(means == 0, np.nan, np.inf)
        )
        others[near_zero] = np.inf
        low, high = np.fmin.reduce(others), np.fmax.reduce(others)
        fits = np.all(withheld | (spreads == 0), axis=0) & (steps == 0)
        fits &= np.isfinite(high) & (high - low <= tolerance * np.abs(high))
    return np.where(fits, np.abs(high), steps)


def has_ties(order: OrderStatistics) -> NDArray[np.bool_]:
    """Which features have values that many rows share: two neighbouring order statistics of some
    level are the same number, or are withheld because most groups have the same. Of a site that
    sent means alone it may be any."""
    found = np.full(order.means[0].shape[1], len(order.levels) == 1)
    for means in order.means[1:]:
        found |= (~(np.diff(means, axis=0) != 0) | np.isnan(means[1:])).any(axis=0)
    return found


def order_statistics(
    points: ArrayLike,
    order: Indices | np.random.Generator,
    min_cell_size: int = 10,
    units: ArrayLike | None = None,
    max_level: int = 32,
    max_numbers: int = 1 << 17,
    max_parts: int = 256,
    withhold: Callable[..., NDArray[np.bool_]] | None = None,
    present: NDArray[np.bool_] | None = None,
) -> OrderStatistics:
    """Expected order statistics of each feature, by groups of rows.

    Rows are dealt at random into groups of m rows, each group is sorted, and the k-th smallest is
    averaged over the groups. Groups are independent, so the mean is unbiased and the sample
    variance over groups, divided by their number, is an unbiased estimate of its variance. Levels
    are m = 1, 2, 4, ... as long as there are at least `min_cell_size` groups: each number is then a
    mean over at least so many rows.

    The order statistics of a level sum to the sum over the rows that were dealt. So all levels
    above 1 deal the same rows, and those that are left over are none or at least `min_cell_size`
    (`count_dealt`), of as many units: otherwise the difference of two levels would be a sum over
    few rows.

    With units, rows of one unit depend on each other. Whole units are dealt into parts, and inside
    a part the rows of a unit go to different groups, so that a group holds rows of m different
    units. The variance is that of a mean over parts (with weights, if parts have different numbers
    of groups), which are independent.

    Parameters
    ----------
    points : array (n, d), or (n,) for one feature, in which missing values (nan) are left out
    order : a random permutation of the rows, or a generator to draw one
    min_cell_size : fewest rows, of different units, over which a mean is taken
    units : array (n,) of integers; rows with the same integer belong to one unit
    max_level : largest m. A shift counts in full at any m, and a change of the scale of a uniform
        distribution by (m - 1) / (m + 1), which is 94% at 32
    max_numbers : largest number of numbers in the result (default: 1 MB as float64); levels that
        exceed it are left out. There are about 4 m numbers a feature
    max_parts : largest number of parts with units. The variance over 256 parts has a relative
        standard error of about sqrt(2 / 255) = 9%
    withhold : says of groups, (groups, m, d), whose values are sorted, and with units of the unit
        of each value, of which features their means may not be sent; these are nan at that
        level and at higher ones, and a level at which all are is left out. Level 1 is always there
    present : bool array (n, d), which entries are values and no zeros for missing ones. A feature
        of which the rows that are left over have a value in fewer than `min_cell_size` units has
        level 1 only

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = order_statistics(rng.normal(size=(4000, 2)), rng)
    >>> found.levels, found.level(2)[0].round(1).tolist()  # -+ 1 / sqrt(pi)
    ((1, 2, 4, 8, 16, 32), [[-0.6, -0.6], [0.6, 0.6]])
    """
    rows = np.asarray(points, dtype=np.float64)
    shuffled = order.permutation(len(rows)) if isinstance(order, np.random.Generator) else order
    if rows.ndim == 1:
        shuffled = shuffled[~np.isnan(rows[shuffled])]
        rows = rows[:, None]
    independent, codes = len(shuffled), None
    if units is not None:
        shuffled_units = np.asarray(units)[shuffled]
        codes = number_units(shuffled_units, np.random.default_rng(len(np.unique(shuffled_units))))
        independent = int(codes.max(initial=-1)) + 1
    least = max(min_cell_size, 2)
    if independent < least:
        raise InputError(
            f"There are {independent} independent rows with a value, and a mean needs {least}; "
            "use more rows.",
            "too-few-rows",
        )
    levels = [1]
    first: list[Indices] = [] if codes is None else _parts(codes, 1, least, max_parts)
    parts = first
    while (m := 2 * levels[-1]) <= max_level and 2 * (2 * m - 1) * rows.shape[1] <= max_numbers:
        if codes is None:
            possible = count_dealt(independent, m, least) // m >= least
        else:
            found_parts = _parts(codes, m, least, max_parts) if independent // m >= least else []
            possible = bool(found_parts)
            parts = found_parts or parts
        if not possible:
            break
        levels.append(m)
    found: list[tuple[Floats, Floats]] = []
    left = np.zeros(len(shuffled), dtype=bool)  # rows that no group of the levels above 1 has
    if codes is None:
        # A few columns at a time are shuffled and sorted, so that the data are never copied whole.
        step = max(1, (1 << 18) // max(independent, 1))
        dealt = count_dealt(independent, levels[-1], least)
        left[dealt:] = True
        by_columns = []
        for start in range(0, rows.shape[1], step):
            columns = np.ascontiguousarray(rows[:, start : start + step].T)
            some = columns.take(shuffled, axis=1)[None]
            by_levels = [_by_groups(some, None)]
            some = some[:, :, :dealt]
            for _ in levels[1:]:
                some = _merged(some)
                by_levels.append(_by_groups(some, withhold))
            by_columns.append(by_levels)
        found = [
            (np.hstack([one[0] for one in level]), np.hstack([one[1] for one in level]))
            for level in zip(*by_columns, strict=True)
        ]
    else:
        rows = rows[shuffled]
        left[:] = True
        left[np.concatenate(parts)] = False
        for m in levels:
            own = parts if m > 1 else first
            groups = [rows[part].reshape(m, -1, rows.shape[1]) for part in own]
            of_units = [codes[part].reshape(m, -1, 1) for part in own]
            found.append(_by_parts(groups, of_units, withhold if m > 1 else None))
    withheld = np.zeros(rows.shape[1], dtype=bool)
    for level, (means, variances) in enumerate(found):
        if level == 1 and present is not None:
            owners = np.flatnonzero(left) if codes is None else codes[left]
            has = np.zeros((max(independent, len(left)), rows.shape[1]), dtype=bool)
            np.logical_or.at(has, owners, present[shuffled[left]])
            few = has.sum(axis=0)
            withheld |= (few > 0) & (few < least)
        withheld |= np.isnan(means[0])
        means[:, withheld] = variances[:, withheld] = np.nan
    known = [one for one in found if not np.isnan(one[0]).all()]  # level 1, the mean, always is
    all_means, all_variances = zip(*known, strict=True)
    return OrderStatistics(all_means, all_variances, independent)


def count_dealt(rows: int, m: int, least: int) -> int:
    """How many rows are dealt into groups of m: none are left over, or at least `least`.

    >>> count_dealt(64, 32, 2), count_dealt(65, 32, 10), count_dealt(75, 32, 10)
    (64, 32, 64)
    """
    left = rows % m
    return rows - left if left == 0 or left >= least else max(rows - least, 0) // m * m


def number_units(units: ArrayLike, rng: np.random.Generator) -> Indices:
    """Numbers 0, 1, ... of units in a random order, for each row.

    The order in which units first come in shuffled rows would put units with many rows first.
    """
    _, first, inverse = np.unique(np.asarray(units), return_index=True, return_inverse=True)
    numbers = np.empty(len(first), dtype=np.int64)
    numbers[np.argsort(first)] = rng.permutation(len(first))
    return np.asarray(numbers[inverse])


def _merged(groups: Floats) -> Floats:
    """Sorted groups (m, d, k) of values of d features, each two neighbours as one (2 m, d, k / 2).

    Of two sorted halves, one reversed, the smaller values of pairs and the larger ones are bitonic
    sequences, which are sorted in the same way (Batcher 1968): a few vector instructions.
    """
    first, second = groups[:, :, ::2], groups[::-1, :, 1::2]
    found = np.concatenate([np.minimum(first, second), np.maximum(first, second)])
    step = len(groups) // 2
    while step:
        pairs = found.reshape(-1, 2, step, *found.shape[1:])
        smaller = np.minimum(pairs[:, 0], pairs[:, 1])
        np.maximum(pairs[:, 0], pairs[:, 1], out=pairs[:, 1])
        pairs[:, 0] = smaller
        step //= 2
    return found


def _by_groups(
    groups: Floats, withhold: Callable[..., NDArray[np.bool_]] | None
) -> tuple[Floats, Floats]:
    """Means over sorted groups (m, d, k) of the ordered values, and the variances of these means;
    nan where they are to be withheld."""
    means, variances = groups.mean(axis=2), groups.var(axis=2, ddof=1) / groups.shape[2]
    if withhold is not None:
        means[:, withhold(groups.transpose(2, 0, 1))] = np.nan
    return means, variances


def _by_parts(
    parts: Sequence[Floats],
    units: Sequence[Indices],
    withhold: Callable[..., NDArray[np.bool_]] | None,
) -> tuple[Floats, Floats]:
    """The same for parts that are independent, each with its groups: arrays (m, groups, d). `units`
    are those of their rows, (m, groups, 1)."""
    ranks = [np.argsort(part, axis=0, kind="stable") for part in parts]
    ordered = [np.take_along_axis(*pair, axis=0) for pair in zip(parts, ranks, strict=True)]
    values = np.array([part.mean(axis=1) for part in ordered])
    groups = np.array([part.shape[1] for part in ordered])
    weights = groups / groups.sum()
    overall = np.einsum("p,pkd->kd", weights, values)
    # Variance of a ratio estimate (Cochran, Sampling Techniques, 1977, equation 6.13); of a plain
    # mean if weights are equal.
    squares = np.einsum("p,pkd->kd", weights**2, (values - overall) ** 2)
    if withhold is not None:
        owners = [
            np.take_along_axis(np.broadcast_to(unit, rank.shape), rank, axis=0)
            for unit, rank in zip(units, ranks, strict=True)
        ]
        both = (np.concatenate(one, axis=1).swapaxes(0, 1) for one in (ordered, owners))
        overall[:, withhold(*both)] = np.nan
    return overall, squares * len(groups) / (len(groups) - 1)


def _parts(codes: Indices, m: int, least: int, max_parts: int) -> list[Indices]:
    """The rows of each part, a multiple of m of them; empty if that is impossible.

    `codes` has the number of the unit of each row. A part has so many units that rows of the
    largest unit can go to different groups, if `least` parts remain. Row i of a part goes to group
    i modulo the number of groups, so the rows of a unit, which are next to each other, go to
    different ones. The rows that are in no part are of no units or of at least `least`.
    """
    sizes = np.bincount(codes)
    units_each = m * int(np.ceil(sizes.max() / sizes.mean()))
    count = min(max_parts, len(sizes) // m, max(len(sizes) // units_each, least))
    by_unit = np.argsort(codes, kind="stable")
    ends = np.concatenate([[0], np.cumsum(sizes)])
    limits = np.linspace(0, len(sizes), count + 1).astype(np.int64)
    parts = [
        by_unit[first : first + (last - first) // m * m]
        for first, last in zip(ends[limits[:-1]], ends[limits[1:]], strict=True)
    ]
    in_part = np.zeros(len(codes), dtype=bool)
    in_part[np.concatenate(parts)] = True
    for k in reversed(range(len(parts))):
        if in_part.all() or len(np.unique(codes[~in_part])) >= least:
            return parts
        if len(parts[k]) > m:
            in_part[parts[k][-m:]] = False
            parts[k] = parts[k][:-m]
    return parts if in_part.all() or len(np.unique(codes[~in_part])) >= least else []
