"""Squared distances between populations from what each site sends: columns, dependence, interval.

Theorems. A transport plan couples each column, so W2^2(P, Q) >= sum_j W2^2(P_j, Q_j), with equality
if both populations have the same copula (Cuesta-Albertos, Rueschendorf and Tuero-Diaz 1993). For
one column W2^2 is the mean square of the difference of quantile functions, and expected order
statistics e_k are means of quantile functions over the Beta(k, m - k + 1) distributions, which
average to the uniform one; so W2^2 >= mean_k (e_k - e'_k)^2 by Jensen's inequality, and the right
side tends to W2^2 as m grows (see `level_weights` for how fast). Gelbrich (1990): W2^2 is at least
|mean - mean'|^2 + Bures^2(S, S').
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedwad.errors import InputError
from fedwad.statistics.order import OrderStatistics, aligned, common_level, number_units
from fedwad.transport.measures import Floats, Indices


def column_squares(
    a: OrderStatistics, b: OrderStatistics, steps: ArrayLike | None = None
) -> Floats:
    """Squared distance of the populations of each feature, (d,), without bias upwards.

    For a number: mean_k [(e_k - e'_k)^2 - v_k - v'_k] at the largest levels that both sites have,
    extrapolated to large m by `level_weights`. Its expectation is at most W2^2, and zero for one
    population. Single values can be negative.

    For an indicator, which is 0 or s, W2^2 is s^2 |p - q|. With a difference of means D, known to a
    standard error t, the estimate is s times T(D) = D (2 Phi(D / t) - 1) - 2 t phi(D / t). That is
    the mean over Z of (D + t Z) sign(D - t Z), whose factors are independent for normal D: so its
    expectation is |E D| (2 Phi(|E D| / (t sqrt 2)) - 1), zero for one population and never too
    high. A rare level may not occur at a small site, whose own variance is then zero; so t^2 is the
    larger of v + v' and what a variance common to both sites gives.

    Parameters
    ----------
    a, b : order statistics of the same features
    steps : s of each feature, (d,); zero for numbers

    Examples
    --------
    >>> from fedwad.statistics.order import order_statistics
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(2, 4000, 2))
    >>> a, b = order_statistics(x, rng), order_statistics(y + [1, 0], rng)
    >>> np.abs(column_squares(a, b)).round(1).tolist()
    [1.0, 0.0]
    """
    squares = np.zeros(a.means[0].shape[1])
    a, b = aligned(a, b)
    for m, weight in level_weights(common_level(a, b)).items():
        (means, variances), (other_means, other_variances) = a.level(m), b.level(m)
        noise = variances + other_variances
        squares += weight * ((means - other_means) ** 2 - noise).mean(axis=0)
    if steps is None:
        return squares
    s = np.asarray(steps, dtype=np.float64)
    return np.asarray(np.where(s > 0, s * _positive_part(*_gaps(a, b)), squares))


def level_weights(m: int) -> dict[int, float]:
    """Weights of levels m, m / 2 and m / 4 by which mean squares are extrapolated to large m.

    mean_k (e_k - e'_k)^2 = sum_l w_l(m) c_l^2 with the Legendre coefficients c_l of the difference
    of quantile functions, W2^2 = sum_l c_l^2, and the eigenvalues of the Bernstein-Durrmeyer
    operator w_l(m) = (m - 1)! m! / ((m - 1 - l)! (m + l)!) (Derriennic 1981), which are 1 - O(1/m).
    Richardson's extrapolation in 1/m gives (8 w_l(m) - 6 w_l(m/2) + w_l(m/4)) / 3. These are
    between 0 and 1 for all l and all m up to 64, so the sum is still at most W2^2, and nearer:
    of a change of scale of a uniform distribution (l = 1) 99.7% at m = 16 instead of 88%.

    >>> level_weights(1), level_weights(2)
    ({1: 1.0}, {2: 2.0, 1: -1.0})
    """
    if m == 1:
        return {1: 1.0}
    return {2: 2.0, 1: -1.0} if m == 2 else {m: 8 / 3, m // 2: -2.0, m // 4: 1 / 3}


def _gaps(a: OrderStatistics, b: OrderStatistics) -> tuple[Floats, Floats]:
    """Differences of means, and their standard errors by the larger of two estimates."""
    (mean, variance), (other, other_variance) = a.level(1), b.level(1)
    of_row = (a.count**2 * variance[0] + b.count**2 * other_variance[0]) / (a.count + b.count)
    common = of_row * (1 / a.count + 1 / b.count)
    return mean[0] - other[0], np.sqrt(np.maximum(variance[0] + other_variance[0], common))


def _positive_part(gap: Floats, error: Floats) -> Floats:
    """T of `column_squares`; |gap| where there is no error."""
    from scipy.special import ndtr

    u = gap / np.where(error > 0, error, 1.0)
    density = np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)
    return np.where(error > 0, gap * (2 * ndtr(u) - 1) - 2 * error * density, np.abs(gap))


def cells_misfit(
    order: OrderStatistics, weights: Floats, means: Floats, variances: Floats, points: int = 64
) -> float:
    """How far the columns of a site are from those of its normal cells, a distance.

    Synthetic samples are drawn from normal cells. Rows with edges, such as those of exponential
    columns or a sphere, and heavy tails are not normal inside cells. The root of the sum over
    columns of mean_k (e_k - e'_k)^2, with order statistics e of the site and e' of its cells, is a
    lower bound of the distance between both, with the sampling noise of e added.

    Parameters
    ----------
    order : order statistics of d features
    weights, means : of the cells, (S,) and (S, d)
    variances : of each feature inside cells, (d,)
    points : quantiles that stand for each cell. With 64 the largest of 32 draws of one normal cell
        is 0.2% too small
    """
    from scipy.special import gammaln, ndtri

    if not means.shape[1]:
        return 0.0
    m = order.levels[-1]
    steps = ndtri((np.arange(points) + 0.5) / points)
    values = means[:, None] + steps[:, None] * np.sqrt(variances)  # (S, points, d)
    values = values.reshape(-1, means.shape[1])
    rank = np.argsort(values, axis=0)
    values = np.take_along_axis(values, rank, axis=0)
    ends = np.cumsum(np.repeat(weights / points, points)[rank], axis=0)[:-1]
    with np.errstate(divide="ignore"):  # beyond some ends there are no more rows, but by rounding
        log_below, log_above = np.log(ends), np.log1p(-np.clip(ends, 0.0, 1.0 - 2.0**-53))
    gaps, square = np.diff(values, axis=0), 0.0
    at_least = np.zeros_like(ends)  # of m draws, k are among the values up to an end
    for k in range(m, 0, -1):
        choices = gammaln(m + 1) - gammaln(k + 1) - gammaln(m + 1 - k)
        at_least += np.exp(choices + k * log_below + (m - k) * log_above)
        expected = values[-1] - np.einsum("ij,ij->j", at_least, gaps)
        square += float(np.nansum((order.level(m)[0][k - 1] - expected) ** 2)) / m
    return float(np.sqrt(square))


def unseen_tails(
    order: OrderStatistics,
    are_numbers: NDArray[np.bool_] | None = None,
    beyond: float = 1 / 3,
    level: float = 0.025,
) -> float:
    """How much more the heavy tails of a site may add to squared distances than its rows show.

    The largest (or smallest) of m rows has a mean square about the column's mean that is known by
    its mean and variance over groups. Where these few rows have more of the column's variance than
    those of an exponential column, by `beyond` of what that leaves to others, a standard error does
    not tell how many more there may be. Kish's effective number of such rows is then taken as
    Poisson, with the upper end of its exact interval (Garwood 1936): so many more rows in the tail,
    each matched with the middle of the other population, cost at most so much. Of samples of 300
    rows of five exponential columns 3% have such a tail, of normal ones, counts and gamma columns
    none (30 runs each), of log-normal ones with sigma 1.3 67%, of Pareto tails of index 2.5 all.
    """
    from scipy.special import chdtri

    m = order.levels[-1]
    (means, variances), k = order.level(m), np.arange(1, m + 1)
    exponential = ((1 / k[1:]).sum() ** 2 + (1 / k**2).sum()) / m
    gaps, groups = (means - order.means[0]) ** 2, max(order.count // m, 1)
    parts = gaps + groups * variances
    total, ends, gaps = parts.sum(axis=0), parts[[0, -1]], gaps[[0, -1]]
    heavy = ends - exponential * total > beyond * (1 - exponential) * total  # not if it is nan
    heavy &= True if are_numbers is None else are_numbers
    rows = groups * gaps[heavy] / ends[heavy]
    square = ends[heavy] @ (chdtri(2 * (rows + 1), level) / (2 * np.maximum(rows, 1e-9)) - 1)
    return float(square) / m


def unseen_values(orders: Sequence[OrderStatistics], steps: Floats, level: float = 0.025) -> Floats:
    """The same, (N,), of features that only one site has, in few rows, and that are 0 elsewhere.

    Their `steps` are such that the square is right for any values, but nothing that was sent shows
    whether these are all the same, as `upper_end` takes them. For exponential values the mean
    square varies as if there were a third of the rows.
    """
    from scipy.special import chdtri

    found = np.zeros(len(orders))
    varies = np.array([order.variances[0][0] > 0 for order in orders])
    for k, order in enumerate(orders):
        few = len(order.levels) == 1 or np.isnan(order.means[-1][0])
        some = varies[k] & (varies.sum(axis=0) == 1) & few & (steps > 0)
        means, step = np.abs(order.means[0][0][some]), steps[some]
        rows = np.maximum(order.count * means / step, 1e-9)
        whole, third = (chdtri(2 * (n + 1), level) / (2 * n) for n in (rows, rows / 3))
        found[k] = (means * step) @ (third - whole)
    return found


def fidelity(first: Floats, second: Floats) -> float:
    """tr (S^(1/2) S' S^(1/2))^(1/2) for S = A^T A and S' = B^T B: the nuclear norm of A B^T."""
    return float(np.linalg.svd(first @ second.T, compute_uv=False).sum())


def bures_square(first: Floats, second: Floats) -> float:
    """Bures^2(S, S') for S = A^T A and S' = B^T B."""
    total = float((first**2).sum() + (second**2).sum())
    return max(total - 2 * fidelity(first, second), 0.0)


def root_of(covariance: Floats) -> Floats:
    """A with A^T A = covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def dependence(first: Floats, second: Floats) -> float:
    """What correlations add: Bures^2(S, S') - sum_j (s_j - s'_j)^2 for S = A^T A and S' = B^T B,
    never negative.

    It is 2 (sum_j s_j s'_j - tr (S^(1/2) S' S^(1/2))^(1/2)): Bures^2 of covariances is the W2^2 of
    normal populations, which is at least the sum over columns.

    >>> correlated = root_of(np.array([[1.0, 0.6], [0.6, 1.0]]))
    >>> round(dependence(np.eye(2), correlated), 3)  # 4 - 2 (r 1.6 + r 0.4)
    0.205
    """
    together = np.sqrt((first**2).sum(axis=0)) @ np.sqrt((second**2).sum(axis=0))
    return max(2 * (float(together) - fidelity(first, second)), 0.0)


@dataclass(frozen=True)
class CovarianceNoise:
    """Noise of covariances of one site; between samples of n and n' rows it is c / n + c' / n'.

    Attributes
    ----------
    dependence : c of `dependence` of two samples of one population
    bures : c of Bures^2 of their covariances
    """

    dependence: float
    bures: float


def covariance_noise(
    points: ArrayLike,
    order: Indices | np.random.Generator,
    units: ArrayLike | None = None,
    splits: int = 5,
    max_rows: int = 20_000,
) -> CovarianceNoise:
    """What a site measures on random halves and quarters of its own rows.

    Noise falls as one over the number of rows when there are many more rows than features, and more
    slowly otherwise. The noise of halves is therefore multiplied by that of halves over that of
    quarters, but by no less than 1/2 and no more than the same ratio for normal data without
    correlations. With units, whole units are dealt, and n is the number of units.

    Parameters
    ----------
    points : array (n, d)
    order : a random permutation of the rows, or a generator to draw one
    units : array (n,) of integers; rows with the same integer belong to one unit
    splits : random splits over which noise is averaged
    max_rows : rows that are used at most; c does not depend on n when there are many
    """
    rows = np.asarray(points, dtype=np.float64)
    shuffled = order.permutation(len(rows)) if isinstance(order, np.random.Generator) else order
    shuffled = shuffled[:max_rows] if units is None else shuffled
    rows = rows[shuffled]
    rng = np.random.default_rng(len(rows))
    codes = np.arange(len(rows))
    if units is not None:
        codes = number_units(np.asarray(units)[shuffled], rng)
    count = int(codes.max(initial=-1)) + 1
    if count < 8:
        raise InputError(
            f"There are {count} independent rows, and their noise needs 8; use more rows.",
            "too-few-rows",
        )
    halves, quarters = np.zeros(2), np.zeros(2)
    for _ in range(splits):
        part = (rng.permutation(count) * 4 // count)[codes]  # 0 to 3
        roots = [_root_of_rows(rows[part == k]) for k in range(4)]
        quarters += _noise(roots[0], roots[1]) + _noise(roots[2], roots[3])
        whole = [_root_of_rows(rows[part // 2 == k]) for k in range(2)]
        halves += 2 * _noise(*whole)
    halves, quarters = halves / (2 * splits), quarters / (2 * splits)
    ratio = halves / np.where(quarters > 0, quarters, 1.0)
    ratio = np.clip(ratio, 0.5, _ratio_without_correlations(count, rows.shape[1]))
    found = halves * ratio * count / 2
    return CovarianceNoise(float(found[0]), float(found[1]))


def _ratio_without_correlations(count: int, dimension: int) -> Floats:
    """Noise of `count` normal rows over that of half as many, at least 1/2.

    With fifty rows for each feature and more it is 1/2 up to 2%.
    """
    if count >= 50 * dimension:
        return np.full(2, 0.5)
    rng = np.random.default_rng(0)
    noises = []
    for n in (count, count // 2):
        pairs = [
            [_root_of_rows(rng.normal(size=(n, dimension))) for _ in range(2)]
            for _ in range(1 + 2000 // count)
        ]
        noises.append(np.mean([_noise(*pair) for pair in pairs], axis=0))
    return np.asarray(np.clip(noises[0] / np.where(noises[1] > 0, noises[1], 1.0), 0.5, 1.0))


def _root_of_rows(rows: Floats) -> Floats:
    """A with A^T A = the covariance of rows, and no more rows than features.

    Of many rows it is the root of their correlations, which a product of matrices makes faster.
    """
    n, d = rows.shape
    centred = (rows - rows.mean(axis=0)) / np.sqrt(max(n - 1, 1))
    if n < 4 * d:
        return np.asarray(np.linalg.qr(centred, mode="r"))
    deviations = np.sqrt(np.einsum("id,id->d", centred, centred))
    centred /= np.where(deviations > 0, deviations, 1.0)
    return np.asarray(root_of(centred.T @ centred) * deviations)


def _noise(first: Floats, second: Floats) -> Floats:
    """`dependence`, and Bures^2, which adds the differences of standard deviations."""
    found = dependence(first, second)
    gaps = np.sqrt((first**2).sum(axis=0)) - np.sqrt((second**2).sum(axis=0))
    return np.array([found, found + float(gaps @ gaps)])


@dataclass(frozen=True, eq=False)
class PopulationDistances:
    """Distances between the populations of N sites, (N, N) arrays.

    Attributes
    ----------
    columns : sum over features of squared distances, see `column_squares`; can be negative
    dependence : what correlations add, minus noise; zero without covariances
    population : the root of their sum, or zero
    lower : lower end of a 95% interval; the distance is below it in at most 2.5% of samples
    upper : upper end by columns and dependence alone, see `upper_end`
    """

    columns: Floats
    dependence: Floats
    population: Floats
    lower: Floats
    upper: Floats


def population_distances(
    orders: Sequence[OrderStatistics],
    steps: ArrayLike | None = None,
    covariances: Sequence[Floats] | None = None,
    noises: Sequence[CovarianceNoise] | None = None,
) -> PopulationDistances:
    """Estimates of W2 between all pairs of populations, with 95% intervals.

    The estimate is the root of columns + dependence. The ends are those of `lower_end` and
    `upper_end`.

    Parameters
    ----------
    orders : order statistics of each site
    steps : see `column_squares`
    covariances : total covariance (d, d) of each site
    noises : what each site measured by `covariance_noise`
    """
    count = len(orders)
    columns, joint, lower, upper = np.zeros((4, count, count))
    roots = None if covariances is None else [root_of(covariance) for covariance in covariances]
    for i in range(count):
        for j in range(i):
            columns[i, j] = columns[j, i] = column_squares(orders[i], orders[j], steps).sum()
            both = None if roots is None else (roots[i], roots[j])
            if both is not None and noises is not None:
                noise = noises[i].dependence / orders[i].count
                noise += noises[j].dependence / orders[j].count
                joint[i, j] = joint[j, i] = dependence(*both) - noise
            pair = None if noises is None else (noises[i], noises[j])
            lower[i, j] = lower[j, i] = lower_end(orders[i], orders[j], steps, both, pair)
            upper[i, j] = upper[j, i] = upper_end(
                orders[i], orders[j], steps, both, float(joint[i, j])
            )
    population = np.sqrt(np.maximum(columns + joint, 0.0))
    return PopulationDistances(columns, joint, population, lower, np.maximum(upper, lower))


def lower_end(
    a: OrderStatistics,
    b: OrderStatistics,
    steps: ArrayLike | None = None,
    roots: tuple[Floats, Floats] | None = None,
    noises: tuple[CovarianceNoise, CovarianceNoise] | None = None,
    level: float = 0.025,
) -> float:
    """A number that W2 of the populations is below with a probability of at most `level`.

    Order statistics are means over many groups and so nearly normal. Their differences, divided by
    sqrt(m), are a vector x = delta + eps with |delta| <= W2 and E |eps|^2 = V, the mean of their
    variances. |delta| >= |x| - |eps|, and for a normal vector P(|eps|^2 >= c V) is at most
    P(chi^2_1 >= c) for c > 1.54, whatever its correlations (Szekely and Bakirov, Extremal
    probabilities for Gaussian quadratic forms, 2003).

    With roots of the covariances of the features (`root_of`), the eigenvalues l of the noise are
    known up to correlations within a column, for which the worst are taken. The bound is then the
    largest t such that |x|^2 would be at least as large as it is with probability `level`, if
    |delta| were t and delta lay along the first eigenvector (chi-square with the same three
    moments: Imhof 1961). With many columns that is more than the bound above.

    Indicators add s |E D| each (`column_squares`), minus a normal quantile of the error of their
    sum; a sum of such bounds is one, since standard deviations of a sum are at most their sum. With
    `noises`, Gelbrich's distance, a metric, gives a second bound: its value minus that of the
    noise. The larger one is taken; that both hold at least as often as they should, together, is
    shown by `benchmarks.truth coverage`.
    """
    from scipy.special import chdtri

    bound = _columns_end(a, b, steps, roots, level)
    if roots is not None and noises is not None:
        gap, error = _gaps(a, b)
        square = float(gap @ gap) + bures_square(*roots)
        noise = float((error**2).sum()) + noises[0].bures / a.count + noises[1].bures / b.count
        bound = max(bound, float(np.sqrt(square) - np.sqrt(chdtri(1, level) * noise)))
    return bound


def _columns_end(
    a: OrderStatistics,
    b: OrderStatistics,
    steps: ArrayLike | None,
    roots: tuple[Floats, Floats] | None,
    level: float,
) -> float:
    """The lower end from columns alone."""
    from scipy.special import chdtri, ndtri

    a, b = aligned(a, b)
    m = common_level(a, b)
    (means, variances), (other_means, other_variances) = a.level(m), b.level(m)
    s = np.zeros(means.shape[1]) if steps is None else np.asarray(steps, dtype=np.float64)
    is_number, is_indicator = s == 0, s > 0
    correlations = [_correlations(root) for root in roots or ()]
    square = 0.0
    if is_number.any():
        observed = float(((means - other_means) ** 2).mean(axis=0)[is_number].sum())
        each = [v.mean(axis=0)[is_number] for v in (variances, other_variances)]
        total = float(each[0].sum() + each[1].sum())
        if roots is None:
            root = np.sqrt(observed) - np.sqrt(chdtri(1, level) * total)
        else:
            noise = np.zeros((len(each[0]), len(each[0])))
            for v, r in zip(each, correlations, strict=True):
                noise += np.sqrt(np.outer(v, v)) * r[np.ix_(is_number, is_number)]
            root = _inverted(observed, np.maximum(np.linalg.eigvalsh(noise), 0.0), level)
        square += max(float(root), 0.0) ** 2
    if is_indicator.any():
        gap, error = (x[is_indicator] for x in _gaps(a, b))
        # The largest standard deviation of T(D) of `column_squares`, for an error of one, is that
        # for D of mean 1.9, by numerical integration.
        deviation = _together(1.28 * s[is_indicator] * error, is_indicator, correlations)
        estimate = float(s[is_indicator] @ _positive_part(gap, error))
        square += max(estimate + float(ndtri(level)) * deviation, 0.0)
    return float(np.sqrt(square))


def upper_end(
    a: OrderStatistics,
    b: OrderStatistics,
    steps: ArrayLike | None = None,
    roots: tuple[Floats, Floats] | None = None,
    joint: float = 0.0,
    level: float = 0.025,
) -> float:
    """A number that the root of columns + dependence is above with a probability of about `level`.

    For numbers it is |delta| <= |x| + |eps| as in `lower_end`, with their estimated square and
    `joint`, the dependence. Indicators add s times Wilson's (1927) upper end of |p - q|: a value
    that is rare at one site and absent at the other has an error that its own variance hides.
    """
    from scipy.special import chdtri, ndtri

    squares = column_squares(a, b, steps)
    a, b = aligned(a, b)
    (_, variances), (_, other_variances) = (one.level(common_level(a, b)) for one in (a, b))
    s = np.zeros(len(squares)) if steps is None else np.asarray(steps, dtype=np.float64)
    noise = float((variances + other_variances).mean(axis=0)[s == 0].sum())
    square = max(float(squares[s == 0].sum()) + joint, 0.0)
    square = float(np.sqrt(square) + np.sqrt(chdtri(1, level) * noise)) ** 2
    if (s > 0).any():
        gap, error = (x[s > 0] for x in _gaps(a, b))
        z, each = -float(ndtri(level)), 1 / min(a.count, b.count)
        errors = z * np.sqrt(error**2 + (z * each / 2) ** 2) + z**2 * each / 2
        correlations = [_correlations(root) for root in roots or ()]
        square += float(s[s > 0] @ np.abs(gap)) + _together(s[s > 0] * errors, s > 0, correlations)
    return float(np.sqrt(square))


def _together(deviations: Floats, some: NDArray[np.bool_], correlations: Sequence[Floats]) -> float:
    """The standard deviation of a sum over `some` features with these deviations, whatever the
    signs of their correlations; as if they were one without `correlations`."""
    if not correlations:
        return float(deviations.sum())
    joint = np.maximum(*(np.abs(one[np.ix_(some, some)]) for one in correlations))
    return float(np.sqrt(deviations @ joint @ deviations))


def _correlations(root: Floats) -> Floats:
    covariance = root.T @ root
    std = np.sqrt(np.diag(covariance))
    std = np.where(std > 0, std, np.inf)
    correlations = covariance / np.outer(std, std)
    np.fill_diagonal(correlations, 1.0)
    return np.asarray(correlations)


def _inverted(observed: float, eigenvalues: Floats, level: float) -> float:
    """The t for which P(|t e_1 + eps|^2 >= observed) = level, with these eigenvalues, or zero."""
    from scipy.special import chdtrc

    unit = float(eigenvalues[-1])
    if not unit > 0:
        return float(np.sqrt(observed))
    # In units of the largest eigenvalue no power over- or underflows.
    observed, eigenvalues = observed / unit, eigenvalues / unit
    first, second, third = (float((eigenvalues**k).sum()) for k in (1, 2, 3))

    def excess(t: float) -> float:
        shift = t * t
        mean, square, cube = first + shift, second + 2 * shift, third + 3 * shift
        # mean + scale (chi^2_f - f) has the same mean, variance and third moment.
        freedom, scale = square**3 / cube**2, cube / square
        return float(chdtrc(freedom, max(freedom + (observed - mean) / scale, 0.0))) - level

    if excess(0.0) >= 0:
        return 0.0
    low, high = 0.0, np.sqrt(observed) + 1.0
    for _ in range(50):  # the probability grows with t
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return float(np.sqrt(unit) * low)
