"""Attacks on block means: solving them for the rows of a block, and membership.

A block mean is a mean of functions f over k rows. For a row x in the block it is distributed about
mu + (f(x) - mu) / k, for any other row about mu, with the covariance of f over k in both cases. mu
and the covariance follow from a reference sample of the same population. By the lemma of Neyman
and Pearson no test is better than the likelihood ratio of the two, mixed over all blocks (for
normal means; Homer et al., Resolving individuals contributing trace amounts of DNA, 2008, did it
for frequencies).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import rankdata
from scipy.stats import t as student

from fedwad.audit.score import Finding
from fedwad.audit.session import AttackSession, attack, need
from fedwad.errors import FedwadError
from fedwad.federation import Client, Dataset, Policy, SummaryReply, SummaryRequest
from fedwad.statistics.blocking import (
    GRID,
    PAIRED,
    SMALLEST,
    Blocks,
    block_means,
    joint_functions,
    row_functions,
)
from fedwad.transport import Floats, Measure

_MAX_STEPS, _STARTS = 40, 3  # of a solver; fewer steps where data are large
_SOLVED = 1e-9  # squared misfit of a solution


@attack("solving of block means", "one set of block means")
def solve_blocks(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Rows that agree with all numbers of their block, for each block of one reply, in units of
    which the attacker knows that the site accepts them."""
    centre, scale = session.public_units
    request = SummaryRequest(1, "diag", 2.0, 0, calibration=False, centre=centre, scale=scale)
    return _solve(need(session.require(request, SummaryReply).blocks), session, rng)


def _solve(
    blocks: Blocks,
    session: AttackSession,
    rng: np.random.Generator,
    max_work: float = 2e9,
    max_system: float = 4e5,
) -> Floats:
    """Rows of all blocks in the units of the data; of large blocks only two moments agree.

    At most so many multiplications are made for all blocks, to bound the time, and a block of
    more equations times unknowns is not solved for all its numbers.
    """
    sizes = np.repeat(blocks.rows * 2 ** np.arange(len(blocks.counts)), blocks.counts)
    systems = sizes * blocks.features * blocks.means.shape[1]
    solvable = int((systems <= max_system).sum()) or 1
    work = float(systems[0]) * blocks.means.shape[1] * _STARTS * solvable
    steps = int(np.clip(max_work / work, 4, _MAX_STEPS))
    guesses = [
        solve_block(means, int(size), blocks.features, rng, steps, blocks.indicators)
        if system <= max_system
        else _draw_with_two_moments(means, int(size), blocks, rng)
        for size, system, means in zip(sizes, systems, blocks.means, strict=True)
    ]
    centre, scale = session.public_units
    return np.asarray(centre + scale * np.concatenate(guesses))


def _draw_with_two_moments(
    means: Floats, size: int, blocks: Blocks, rng: np.random.Generator
) -> Floats:
    """Random rows with the block's mean and mean square of each feature; an indicator's square
    is taken as its mean."""
    d = blocks.features
    squares = means[:d].copy()
    numbers = np.array([k for k in range(d) if k not in blocks.indicators], dtype=np.int64)
    squares[numbers] = means[d : d + len(numbers)]
    rows = rng.standard_normal((size, d))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    std = np.sqrt(np.maximum(squares - means[:d] ** 2, 0.0))
    return np.asarray(means[:d] + std * rows)


def solve_block(
    means: Floats,
    size: int,
    d: int,
    rng: np.random.Generator,
    steps: int = _MAX_STEPS,
    indicators: Sequence[int] = (),
) -> Floats:
    """Rows of one block with these means in public units, (size, d): the best of some starts.

    Each step is the smallest change of the rows after which all means agree to first order. It is
    damped if it goes too far.
    """
    smallest, best = np.inf, np.empty((0, 0))
    for _ in range(_STARTS):
        start = means[:d] + rng.standard_normal((size, d))
        rows, misfit = _descend(start, means, steps, indicators)
        if misfit < smallest:
            smallest, best = misfit, rows
        if smallest < _SOLVED:
            break
    return best


def _descend(
    rows: Floats, means: Floats, steps: int, indicators: Sequence[int]
) -> tuple[Floats, float]:
    """The rows after some damped Gauss-Newton steps, and their squared misfit."""
    values, slopes = _means_and_slopes(rows, len(means), indicators)
    misfit, damping = float(((values - means) ** 2).sum()), 1e-2
    for _ in range(steps):
        if misfit < _SOLVED * 1e-12:
            break
        gram = slopes @ slopes.T
        gram[np.diag_indices_from(gram)] += damping * max(float(np.trace(gram)) / len(gram), 1e-12)
        try:
            step = slopes.T @ np.linalg.solve(gram, means - values)
        except np.linalg.LinAlgError:  # singular, because the damping became too small
            damping *= 10
            continue
        new_rows = rows + step.reshape(rows.shape)
        new_values, new_slopes = _means_and_slopes(new_rows, len(means), indicators)
        new_misfit = float(((new_values - means) ** 2).sum())
        if new_misfit < misfit:
            rows, values, slopes, misfit = new_rows, new_values, new_slopes, new_misfit
            damping *= 0.1
        else:
            damping *= 10
    return rows, misfit


def _means_and_slopes(rows: Floats, count: int, indicators: Sequence[int]) -> tuple[Floats, Floats]:
    """Means over these rows of all `count` public functions, and their derivatives.

    The functions are those of `fedwad.statistics.blocking.row_functions`. The derivatives are
    (count, rows x d).
    """
    size, d = rows.shape
    everything = np.arange(d)
    numbers = np.array([k for k in range(d) if k not in indicators], dtype=np.int64)
    slopes = []
    for feature, derivative in (
        (everything, np.ones_like(rows)),
        (numbers, 2 * rows[:, numbers]),
        (numbers, -2 * np.sin(2 * rows[:, numbers])),
    ):
        slope = np.zeros((len(feature), size, d))
        slope[np.arange(len(feature)), :, feature] = (derivative / size).T
        slopes.append(slope)
    first, second = np.triu_indices(d if d <= PAIRED else 0, 1)
    products = np.zeros((len(first), size, d))
    products[np.arange(len(first)), :, first] = rows[:, second].T / size
    products[np.arange(len(first)), :, second] = rows[:, first].T / size
    slopes.append(products)
    directions = joint_functions(d, count - sum(map(len, slopes)))
    along = rows @ directions
    slopes.extend(
        np.einsum("ip,kp->pik", derivative / size, directions)
        for derivative in (-np.sin(along), np.cos(along))
    )
    values = row_functions(rows, indicators, directions).mean(axis=0)
    return values, np.concatenate(slopes).reshape(count, size * d)


MOST = 0.6  # area under the curve up to which membership counts as hidden
#: By how much a server divides all scales; which of them tells most depends on the table. Divided
#: by more, mean squares exceed 9, and sites send signs alone (`block_means`).
FINER = 1.6, 2.0, 2.7


@dataclass(frozen=True)
class Membership:
    """How well the attack tells rows of the site from others of the same population.

    auc : area under the curve of true against false positives; 1/2 is guessing
    true_at_1 : true positives at a threshold with one false one in a hundred
    control : `auc` where neither kind of rows is in the site
    error : standard error of `auc` if rows were guessed
    pvalue : of a one-sided t-test over random splits of these rows, that `auc` is above `control`
    """

    auc: float
    true_at_1: float
    control: float
    error: float
    pvalue: float


def find_members(data: Dataset, policy: Policy, rng: np.random.Generator) -> Finding:
    """Sites of random halves of the rows, attacked by whoever has some of the other rows.

    Where so few rows send no block means although all of them do, sites of more rows are tried.
    """
    refused = ""
    for share, rows in (("half", 0.5), ("three quarters of", 0.75)):
        count = int(rows * len(data.measure))
        try:
            tried = [measure_membership(data, policy, rng, count, finer=k) for k in (1.0, *FINER)]
        except FedwadError as error:
            refused = str(error)
            continue
        if (found := tried[0]) is not None:
            worst = max(one.auc for one in tried if one is not None)
            words = (
                f"area {found.auc:.2f} under the curve for sites of {share} the rows,"
                f" {worst:.2f} in scales of a server's choice (control {found.control:.2f});"
                f" {found.true_at_1:.0%} right at 1% false"
            )
            numbers = {name: float(value) for name, value in vars(found).items()}
            numbers["auc_in_chosen_scales"] = worst
            leaks = worst - 2 * found.error > MOST
            return Finding(int(leaks), len(data.measure), 1, words=words, numbers=numbers)
    try:
        blocks = _ask(_site(data, np.arange(len(data.measure))), policy, *_units(data))
    except FedwadError as error:
        return Finding(refused=str(error))
    if blocks is None:
        return Finding(answered=1, words="nothing to decide from: the reply has no block means")
    return Finding(
        skipped_reason=(
            f"Too few rows for membership: your replies hold {blocks.means.size:,} block means, but"
            f" those of {share} your rows would hold none{f' ({refused[:-1]})' if refused else ''}."
            " Other tables of a hundred rows had areas of 0.62 to 0.70, see docs/audit.md."
        )
    )


def _units(data: Dataset) -> tuple[Floats, Floats]:
    """Centres and scales in which block means of these data are asked for."""
    points = data.measure.points
    if data.schema is not None:
        return np.zeros(points.shape[1]), np.ones(points.shape[1])
    scale = points.std(axis=0)
    return points.mean(axis=0), np.where(scale > 0, scale, 1.0)


def _site(data: Dataset, rows: NDArray[np.int64]) -> Dataset:
    """A site with these rows of the data, each a unit of its own."""
    measure = Measure(data.measure.points[rows])
    return replace(data, measure=measure, labels=None, row_digests=None, units=None)


def measure_membership(
    data: Dataset,
    policy: Policy,
    rng: np.random.Generator,
    site_rows: int,
    splits: int = 8,
    finer: float = 1.0,
) -> Membership | None:
    """The attack on sites of `site_rows` random rows; None if they send no block means.

    The other rows are split in two: one part is the reference sample while the other is tried, and
    the other way round. The server divides the scales of all features by `finer`.
    """
    centre, scale = _units(data)
    units = centre, scale if data.schema is not None else scale / finer
    if data.schema is not None:
        data = replace(data, measure=Measure(data.measure.points * finer))
    values = _functions(data, *units)
    inside, outside, control = [], [], []
    for _ in range(splits):
        order = rng.permutation(len(data.measure))
        rows, others = order[:site_rows], order[site_rows:]
        blocks = _ask(_site(data, rows), policy, *units)
        if blocks is None:
            return None
        halves = others[: len(others) // 2], others[len(others) // 2 :]
        for k in range(2):
            score = _LikelihoodRatio(blocks, values[halves[k]])
            inside.append(score(values[rows[k::2]]))
            outside.append(score(values[halves[1 - k]]))
            control.append(_area(outside[-1][::2], outside[-1][1::2]))
    areas = [_area(*pair) for pair in zip(inside, outside, strict=True)]
    # Splits are drawn independently of each other; the two halves of one are not.
    above = np.subtract(areas, control).reshape(splits, 2).mean(axis=1)
    error = float(above.std(ddof=1) / math.sqrt(splits)) or 1e-12
    positive, negative = np.concatenate(inside), np.concatenate(outside)
    a, b = len(inside[0]), len(outside[0])
    return Membership(
        float(np.mean(areas)),
        float((positive > np.quantile(negative, 0.99)).mean()),
        float(np.mean(control)),
        math.sqrt((a + b + 1) / (12 * a * b)),
        float(student.sf(above.mean() / error, splits - 1)),
    )


class _LikelihoodRatio:
    """The log of the likelihood ratio of each row, given block means and a reference sample."""

    def __init__(self, blocks: Blocks, reference: Floats) -> None:
        self._mean = reference.mean(axis=0)
        # Few rows and many functions: entries off the diagonal count as far as they are known.
        covariance = np.atleast_2d(np.cov(reference.T))
        covariance *= len(reference) / sum(reference.shape)
        np.fill_diagonal(covariance, reference.var(axis=0) + 1e-9)
        sizes = np.repeat(blocks.rows * 2 ** np.arange(len(blocks.counts)), blocks.counts)
        self._parts = []
        for k in np.unique(sizes):
            means = blocks.means[sizes == k]
            noise = GRID**2 / 6 * SMALLEST / k  # of the rounding of each ten rows
            precision = np.linalg.inv(covariance / k + noise * np.eye(len(covariance)))
            self._parts.append((int(k), precision, means - self._mean, k / sizes.sum()))

    def __call__(self, values: Floats) -> Floats:
        away, logs = values - self._mean, []
        for k, precision, means, share in self._parts:
            along = away / k @ precision
            own = ((along * away / k).sum(axis=1) / 2)[:, None]
            logs.append(along @ means.T - own + math.log(share))
        return np.asarray(logsumexp(np.hstack(logs), axis=1))


def _functions(data: Dataset, centre: Floats, scale: Floats) -> Floats:
    """The functions of each row whose means leave: those of blocks of copies, without rounding."""
    copies = np.repeat(data.measure.points, SMALLEST, axis=0)
    order, rng = np.arange(len(copies)), np.random.default_rng(0)
    options = SMALLEST, None, *data.block_options, len(data.measure)
    return block_means(copies, order, rng, centre, scale, *options, grid=0.0).means


def _ask(site: Dataset, policy: Policy, centre: Floats, scale: Floats) -> Blocks | None:
    """The block means that a site sends; the summary that comes with them says less."""
    request = SummaryRequest(1, "diag", 2.0, 0, calibration=False)
    if site.schema is None:
        request = replace(request, centre=centre, scale=scale)
    reply = Client(site, policy).answer(request)
    return reply.blocks if isinstance(reply, SummaryReply) else None


def _area(inside: Floats, outside: Floats) -> float:
    """The chance that a row of the site has the larger score: the area under the curve."""
    ranks = rankdata(np.concatenate([inside, outside]))[: len(inside)]
    return float((ranks.mean() - (len(inside) + 1) / 2) / len(outside))
