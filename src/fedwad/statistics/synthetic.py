"""Distance estimates from synthetic samples: draw samples from summaries and transport them.

The samples are normal distributions around the means of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedwad.statistics.populations import root_of
from fedwad.statistics.summaries import LabelledSummary, Summary
from fedwad.transport.many import in_threads, pair_distances
from fedwad.transport.measures import Floats, LabelledMeasure, Measure
from fedwad.transport.nearly import near_squares

_EXPONENTS = np.linspace(0.05, 1.0, 96)

Pair = tuple[int, int]


@dataclass(frozen=True)
class Effort:
    """How many synthetic points are drawn and transported; more pairs get fewer each.

    Attributes
    ----------
    sizes : of samples for pairs with more points than the largest, from which are extrapolated
    points : drawn in all for each pair of smaller samples, in 2 to 16 draws
    few_pairs, some_pairs : above, two draws of each size are enough; above that, one
    many_pairs, few_points, sampled : beyond so many pairs, most are transported with few points,
        and a sample of pairs shows what more points change
    near : ratio of numbers of rows up to which one size stands for both, since samples of equal
        size are transported many times faster
    many_points, worth_compiling : SciPy, which loads faster than compiled code, transports fewer
        points of fewer pairs
    kept_numbers : normal numbers that are kept between sizes
    """

    sizes: tuple[int, ...] = (125, 250, 500, 1500)
    points: int = 4000
    few_pairs: int = 10
    some_pairs: int = 200
    many_pairs: int = 1000
    few_points: int = 100
    sampled: int = 24
    near: float = 1.25
    many_points: int = 512
    worth_compiling: int = 500
    kept_numbers: int = 1 << 25

    @property
    def cap(self) -> int:
        """The largest sample that is transported."""
        return self.sizes[-1]


EFFORT = Effort()


@dataclass
class NestedNormals:
    """Parts of one array of normal numbers for each call.

    Samples that are drawn from its parts are the parts of one larger sample. So the mean distance
    of small samples differs from the distance of the large one by size alone, and hardly by chance.
    """

    _key: Sequence[int]
    _keep: bool
    _part: int = 0
    _parts: int = 1
    _calls: int = 0
    _kept: dict[int, Floats] = field(default_factory=dict)

    def part(self, number: int, of: int) -> NestedNormals:
        """The source of part `number` of so many, which has the same arrays."""
        return replace(self, _part=number, _parts=of)

    def standard_normal(self, size: tuple[int, int], /) -> Floats:
        """This part's rows of the next array; the k-th calls of all parts share one array."""
        call, rows = self._calls, size[0]
        self._calls += 1
        found = self._kept.get(call)
        if found is None or len(found) < rows * self._parts:
            rng = np.random.default_rng([*self._key, call])
            found = rng.standard_normal((rows * self._parts, size[1]))
            if self._keep:
                self._kept[call] = found
        return found[rows * self._part : rows * (self._part + 1)].copy()


#: A source of normal random numbers.
Normals = np.random.Generator | NestedNormals


@dataclass(frozen=True, eq=False)
class SyntheticSample:
    """Synthetic samples with the cells of a summary: Gaussians around its cell means, with
    covariance factors^T factors + diag(deviations^2)."""

    summary: Summary
    deviations: Floats | None  # (d,)
    factors: Floats | None  # (k, d)

    @classmethod
    def of(cls, summary: Summary) -> SyntheticSample:
        if summary.covariance_type != "full":
            variances = np.broadcast_to(summary.covariance, summary.dimension)
            return cls(summary, np.sqrt(variances), summary.factors)
        return cls(summary, None, root_of(summary.covariance))

    def draw(self, size: int, rng: Normals) -> Measure:
        """The measure on `points`."""
        return Measure(self.points(size, rng))

    def points(self, size: int, rng: Normals) -> Floats:
        """`size` points, distributed over cells by weight.

        The mean of each cell that has points is exact, unless there are fewer than two points for
        such a cell on average.
        """
        summary = self.summary
        counts = shares(summary.weights, size)
        occupied = np.flatnonzero(counts)
        counts = counts[occupied]
        fixed = size >= 2 * len(occupied)  # cells of one point would lose all of their variance
        points: Floats = np.zeros((size, summary.dimension))
        if self.deviations is not None:
            points = rng.standard_normal((size, len(self.deviations)))
            if fixed:
                _subtract_means(points, counts)
            points *= self.deviations
        if self.factors is not None:
            noise = rng.standard_normal((size, len(self.factors)))
            if fixed:
                _subtract_means(noise, counts)
            points += noise @ self.factors
        if fixed:  # fixing the means removed this fraction of the variance
            points *= np.sqrt(size / (size - len(occupied)))
        points += np.repeat(summary.means[occupied], counts, axis=0)
        return points


@dataclass(frozen=True, eq=False)
class LabelledSyntheticSample:
    """Synthetic samples class by class, with the statistics of the real classes."""

    summary: LabelledSummary
    parts: tuple[SyntheticSample, ...]

    @classmethod
    def of(cls, summary: LabelledSummary) -> LabelledSyntheticSample:
        return cls(summary, tuple(map(SyntheticSample.of, summary.parts)))

    def draw(self, size: int, rng: Normals) -> LabelledMeasure:
        counts = shares(self.summary.weights, size)
        drawn = [
            synthetic.points(int(count), rng)
            for synthetic, count in zip(self.parts, counts, strict=True)
            if count > 0
        ]
        codes = np.repeat(np.arange(len(counts)), counts)
        return LabelledMeasure(np.concatenate(drawn), codes, self.summary.table.points)


def shares(weights: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Integers in proportion to the weights that sum to `size`."""
    ends = np.rint(np.cumsum(weights) / weights.sum() * size).astype(np.int64)
    ends[1:] -= ends[:-1].copy()
    return np.asarray(ends)


def _subtract_means(noise: Floats, counts: NDArray[np.int64]) -> None:
    """Make the mean over each group of rows zero."""
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    noise -= np.repeat(np.add.reduceat(noise, starts, axis=0) / counts[:, None], counts, axis=0)


class _Step(NamedTuple):
    """Pairs of samples of at most `cap` points; `nested` ones are parts of samples of the largest
    size, and `even` ones have exactly `cap` points."""

    cap: int
    draws: int
    pairs: list[Pair]
    nested: bool = False
    even: bool = False


def content_seed(summary: Summary | LabelledSummary) -> int:
    """A seed for the random numbers of a site that depends on its summary alone."""
    return int.from_bytes(summary.key[:8], "little")


def synthetic_distances(
    summaries: Sequence[Summary | LabelledSummary],
    pairs: Sequence[Pair],
    p: float = 2.0,
    seed: int = 0,
    n_jobs: int = 1,
    on_pair: Callable[[], None] = lambda: None,
    total_pairs: int | None = None,
    columns: dict[Pair, Floats] | None = None,
) -> Floats:
    """Estimates of W_p between the samples that were summarised, for the given pairs, (N, N), zero
    elsewhere; each synthetic sample is drawn once for all its pairs.

    Synthetic samples of the original sizes n and m have about the distance of the originals,
    including the part that sampling noise contributes. Above 1500 points, the mean of W_p^p at
    smaller sizes k is fitted by w + c k^-g and evaluated at the original sizes.

    The random numbers of a sample depend on its summary alone, so a pair's estimate does not depend
    on the other samples. `on_pair` is called after each of `count_synthetic_transports`
    transports. The more pairs there are (`total_pairs`, if `pairs` are not all), the fewer draws
    each gets. `columns` receives the contribution of each feature to a pair's squared distance, for
    p = 2, unless there are so many pairs that plans are not formed.
    """
    total = total_pairs or len(pairs)
    drawing = _Draws(summaries, seed, p, n_jobs, on_pair, total)
    sizes = drawing.sizes
    chosen = _transported(sizes, pairs, seed)
    powers = drawing.powers(_steps(sizes, chosen, total))
    full = {}
    for pair in chosen:
        by_cap = {cap: found[pair] for cap, found in powers.items() if pair in found}
        full[pair] = _at_full_size(by_cap, sizes[list(pair)])
    if columns is not None:
        columns |= drawing.columns(full)
    if len(chosen) < len(pairs):
        small = drawing.powers([_Step(EFFORT.few_points, 1, list(pairs))])[EFFORT.few_points]
        full = _corrected(small, full, sizes, [summary.within_std for summary in summaries], p)
    result = np.zeros((len(summaries), len(summaries)))
    for pair in pairs:
        result[pair] = result[pair[::-1]] = max(full[pair], 0.0) ** (1 / p)
    return result


@dataclass
class _Draws:
    """Synthetic samples of many summaries, each with its own seeds, and their transports."""

    _summaries: Sequence[Summary | LabelledSummary]
    _seed: int
    _p: float
    _threads: int
    _on_pair: Callable[[], None]
    _total_pairs: int
    _synthetic: dict[int, SyntheticSample | LabelledSyntheticSample] = field(default_factory=dict)
    _columns: dict[Pair, tuple[int, Floats]] = field(default_factory=dict)
    _nested: dict[int, NestedNormals] = field(default_factory=dict)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([summary.count for summary in self._summaries])

    def columns(self, squares: Mapping[Pair, float]) -> dict[Pair, Floats]:
        """The contribution of each feature to these squared distances, by the plans of the largest
        samples."""
        return {
            pair: found * (max(squares[pair], 0.0) / (float(found.sum()) or 1.0))
            for pair, (_, found) in self._columns.items()
            if pair in squares
        }

    def powers(self, steps: Iterable[_Step]) -> dict[int, dict[Pair, float]]:
        """Mean of W_p^p over draws, for each cap and its pairs."""
        found: dict[int, dict[Pair, float]] = {}
        for step in steps:
            totals = dict.fromkeys(step.pairs, 0.0)
            involved = sorted({index for pair in step.pairs for index in pair})
            for draw in range(step.draws):
                samples = in_threads(partial(self._draw, step, draw), involved, self._threads)
                drawn = dict(zip(involved, samples, strict=True))
                for pair, power in self._transported(drawn, step):
                    totals[pair] += power / step.draws
                    self._on_pair()
            found.setdefault(step.cap, {}).update(totals)
        return found

    def _transported(
        self, drawn: Mapping[int, Measure], step: _Step
    ) -> Iterator[tuple[Pair, float]]:
        """W_p^p of the pairs in one draw, nearly for p = 2.

        Of nested samples only the largest give parts of features.
        """
        columns: dict[Pair, Floats] = {}  # filled by threads, added up in the order of pairs

        def compiled(pair: Pair) -> bool:
            """Whether compiled code is worth loading for this pair."""
            largest = int(self.sizes[list(pair)].max())
            return self._total_pairs >= EFFORT.worth_compiling or largest > EFFORT.many_points

        on_columns = None if step.nested and step.cap < EFFORT.cap else columns.__setitem__
        powers: Iterable[tuple[Pair, float]]
        if self._p == 2 and next(iter(drawn.values())).dimension > 1:
            powers = near_squares(drawn, step.pairs, self._threads, on_columns, compiled)
        else:
            distances = pair_distances(drawn, step.pairs, self._p, self._threads, on_columns)
            powers = ((pair, distance**self._p) for pair, distance in distances)
        for pair, power in powers:
            if pair in columns:
                part = columns.pop(pair)
                largest, total = self._columns.get(pair, (0, part))
                if step.cap == largest:
                    part = part + total
                if step.cap >= largest:
                    self._columns[pair] = step.cap, part
            yield pair, power

    def _draw(self, step: _Step, draw: int, index: int) -> Measure:
        """A synthetic sample, by number of the draw and index of the summary."""
        if index not in self._synthetic:
            summary = self._summaries[index]
            self._synthetic[index] = (
                LabelledSyntheticSample.of(summary)
                if isinstance(summary, LabelledSummary)
                else SyntheticSample.of(summary)
            )
        key = [self._seed, content_seed(self._summaries[index])]
        normals: Normals
        if step.nested:
            if index not in self._nested:
                numbers = len(self._summaries) * EFFORT.cap * self._summaries[index].dimension
                self._nested[index] = NestedNormals(
                    [*key, EFFORT.cap], numbers <= EFFORT.kept_numbers
                )
            normals = self._nested[index].part(draw, EFFORT.cap // step.cap)
        else:
            normals = np.random.default_rng([*key, step.cap, draw])
        size = step.cap if step.even else int(min(self.sizes[index], step.cap))
        return self._synthetic[index].draw(size, normals)


def _transported(sizes: NDArray[np.int64], pairs: Sequence[Pair], seed: int) -> Sequence[Pair]:
    """The pairs that are transported at full size: all, or of many pairs a random sample."""
    if len(pairs) <= EFFORT.many_pairs or int(sizes.max()) <= EFFORT.few_points:
        return pairs
    rng = np.random.default_rng(seed)
    return [pairs[k] for k in rng.permutation(len(pairs))[: EFFORT.sampled]]


def _corrected(
    small: dict[Pair, float],
    full: dict[Pair, float],
    sizes: NDArray[np.int64],
    within_stds: Sequence[float],
    p: float,
) -> dict[Pair, float]:
    """W_p^p of small synthetic samples, corrected to full size.

    More points lower it by c (k^-g - n^-g) times the p-th power of the standard deviation within
    cells, averaged over both sides. c and g are fitted to the pairs for which both are known.
    """
    pairs = list(small)
    index = np.array(pairs)
    before = np.minimum(sizes, EFFORT.few_points)[index].astype(float)
    after = sizes[index].astype(float)
    within = (np.array(within_stds)[index] ** p).sum(axis=1)
    known = np.array([pair in full for pair in pairs])
    drop = np.array([small[pair] - full[pair] for pair in pairs if pair in full])
    best, answer = np.inf, np.zeros(len(pairs))
    for g in _EXPONENTS:
        unit = (before**-g - after**-g).mean(axis=1) * within
        size = float(unit[known] @ unit[known])
        c = max(0.0, float(unit[known] @ drop) / size) if size > 0 else 0.0
        misfit = float(((c * unit[known] - drop) ** 2).sum())
        if misfit < best:
            best, answer = misfit, c * unit
    return {
        pair: full.get(pair, small[pair] - float(change))
        for pair, change in zip(pairs, answer, strict=True)
    }


def count_synthetic_transports(
    sizes: Sequence[int], pairs: Sequence[Pair], seed: int = 0, total_pairs: int | None = None
) -> int:
    """The number of transports that `synthetic_distances` makes."""
    chosen = _transported(np.array(sizes), pairs, seed)
    steps = _steps(np.array(sizes), chosen, total_pairs or len(pairs))
    made = sum(step.draws * len(step.pairs) for step in steps)
    return made + (len(pairs) if len(chosen) < len(pairs) else 0)


def _steps(sizes: NDArray[np.int64], pairs: Sequence[Pair], total_pairs: int) -> Iterator[_Step]:
    """Sizes of synthetic samples, each with its number of draws and its pairs."""
    largest = {pair: int(max(sizes[pair[0]], sizes[pair[1]])) for pair in pairs}
    extrapolated = [pair for pair in pairs if largest[pair] > EFFORT.cap]
    for cap in EFFORT.sizes if extrapolated else ():
        parts = EFFORT.cap // cap
        if EFFORT.some_pairs < total_pairs <= EFFORT.many_pairs:  # of which all are drawn
            parts = max(1, parts // 3)
        yield _Step(cap, parts, extrapolated, nested=True)
    others: dict[tuple[int, int, bool], list[Pair]] = {}
    for pair in pairs:
        if largest[pair] <= EFFORT.cap:
            common = _common_size(int(sizes[pair[0]]), int(sizes[pair[1]]), total_pairs)
            draws = _draws(common or largest[pair], total_pairs)
            others.setdefault((common or EFFORT.cap, draws, bool(common)), []).append(pair)
    for (cap, draws, even), some in others.items():
        yield _Step(cap, draws, some, even=even)


def _common_size(n: int, m: int, pairs: int) -> int:
    """One size for both sides of a pair, 0 if each keeps its own.

    Samples of equal size are transported many times faster. The noise in c (n^-g + m^-g) hardly
    differs from that of sqrt(n m) points on both sides while n and m are near each other.
    """
    few, many = min(n, m), max(n, m)
    near = (
        few < many <= EFFORT.near * few and many >= EFFORT.few_points and pairs <= EFFORT.few_pairs
    )
    return round((n * m) ** 0.5) if near else 0


def _draws(size: int, pairs: int) -> int:
    if pairs > EFFORT.many_pairs:  # only a subset of them is drawn, which must be accurate
        return 2
    if pairs > EFFORT.some_pairs:
        return 1
    return 2 if pairs > EFFORT.few_pairs else int(np.clip(EFFORT.points // size, 2, 16))


def _at_full_size(powers: dict[int, float], sizes: NDArray[np.int64]) -> float:
    """Fit powers = w + c * mean(k^-g) over both sizes with w, c >= 0; evaluate at `sizes`."""
    values = np.array(list(powers.values()))
    if len(values) == 1:
        return float(values[0])
    steps = np.array([np.minimum(sizes, cap) for cap in powers], dtype=float)
    units = (steps ** -_EXPONENTS[:, None, None]).mean(axis=2)
    gaps, apart = units - units.mean(axis=1)[:, None], values - values.mean()
    c = np.maximum(gaps @ apart, 0.0) / np.maximum((gaps**2).sum(axis=1), 1e-300)
    w = values.mean() - c * units.mean(axis=1)
    through = units @ values / (units**2).sum(axis=1)  # without w, where it would be negative
    w, c = np.where(w < 0, 0.0, w), np.where(w < 0, through, c)
    best = int(((w[:, None] + c[:, None] * units - values) ** 2).sum(axis=1).argmin())
    return float(w[best] + c[best] * (sizes.astype(float) ** -_EXPONENTS[best]).mean())
