"""Distance estimates from synthetic samples: draw samples from summaries and transport them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedwad.ot._classes import LabelledSummary
from fedwad.ot._many import in_threads, pair_distances
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._nearly import near_squares
from fedwad.ot._summary import Summary
from fedwad.ot._synthetic_samples import (
    LabelledSyntheticSample,
    NestedNormals,
    Normals,
    SyntheticSample,
)

__all__ = [
    "LabelledSyntheticSample",
    "SyntheticSample",
    "count_synthetic_transports",
    "synthetic_distance",
    "synthetic_distances",
]

#: Largest synthetic sample that is transported; results for larger ones are extrapolated.
CAP = 1500
_SAMPLE_SIZES = (125, 250, 500, CAP)
_POINTS = 4000  # drawn in all for each pair of up to CAP points; sets the number of draws
_FEW_PAIRS, _SOME_PAIRS = 10, 200  # above, two draws of each size are enough; above that, one
# Beyond so many pairs, most are transported with few points, and a sample of pairs shows what more
# points change.
_MANY_PAIRS, _FEW_POINTS, _SAMPLE = 1000, 100, 24
# SciPy, which loads faster than compiled code, transports fewer points of fewer pairs.
_MANY_POINTS, _WORTH_COMPILING = 256, 500
_EXPONENTS = np.linspace(0.05, 1.0, 96)
_NEAR = 1.25  # ratio of sizes that one size may stand for
_KEPT_NUMBERS = 1 << 25  # normal numbers that are kept between sizes
_DRAWN_TOGETHER = 16  # pairs of samples that are drawn before any is transported

Pair = tuple[int, int]


class _Drawing(Protocol):
    def draw(self, size: int, rng: Normals) -> Measure: ...


class _Step(NamedTuple):
    """Pairs of samples of at most `cap` points; `nested` ones are parts of samples of CAP, and
    `even` ones have exactly `cap` points."""

    cap: int
    draws: int
    pairs: list[Pair]
    nested: bool = False
    even: bool = False


def synthetic_distance(
    a: Summary | LabelledSummary,
    b: Summary | LabelledSummary,
    p: float = 2.0,
    seed: int = 0,
    total_pairs: int | None = None,
    columns: dict[Pair, Floats] | None = None,
) -> float:
    """Estimate of W_p between the two samples that were summarised.

    Synthetic samples of the original sizes n and m have about the distance of the originals,
    including the part that sampling noise contributes. Above CAP points, the mean of W_p^p at
    smaller sizes k is fitted by w + c k^-g and evaluated at the original sizes.
    """
    found = synthetic_distances([a, b], [(0, 1)], p, seed, total_pairs=total_pairs, columns=columns)
    return float(found[0, 1])


def synthetic_distances(
    summaries: Sequence[Summary | LabelledSummary],
    pairs: Sequence[Pair],
    p: float = 2.0,
    seed: int = 0,
    keys: Sequence[int] | None = None,
    n_jobs: int = 1,
    on_pair: Callable[[], None] | None = None,
    total_pairs: int | None = None,
    columns: dict[Pair, Floats] | None = None,
) -> Floats:
    """Estimates for the given pairs, (N, N), zero elsewhere; each synthetic sample is drawn once
    for all its pairs.

    `keys` (by default 0, 1, ...) seed the random numbers of each sample, so a pair's estimate does
    not depend on the other samples. `on_pair` is called after each of `count_synthetic_transports`
    transports. The more pairs there are (`total_pairs`, if `pairs` are not all), the fewer draws
    each gets. `columns` receives the contribution of each feature to a pair's squared distance, for
    p = 2, unless there are so many pairs that plans are not formed.
    """
    keys = range(len(summaries)) if keys is None else keys
    drawing = _Draws(
        summaries, seed, keys, p, n_jobs, on_pair or _nothing, total_pairs or len(pairs)
    )
    sizes = drawing.sizes
    many = len(pairs) > _MANY_PAIRS and int(sizes.max()) > _FEW_POINTS
    chosen = _sample(pairs, seed) if many else pairs
    powers = drawing.powers(_steps(sizes, chosen, total_pairs or len(pairs)))
    full = {pair: _at_full_size(_of_pair(powers, pair), sizes[list(pair)]) for pair in chosen}
    if columns is not None:
        columns |= drawing.columns(full)
    if many:
        small = drawing.powers([_Step(_FEW_POINTS, 1, list(pairs))])[_FEW_POINTS]
        full = _corrected(small, full, sizes, [summary.within_std for summary in summaries], p)
    result = np.zeros((len(summaries), len(summaries)))
    for pair in pairs:
        result[pair] = result[pair[::-1]] = max(full[pair], 0.0) ** (1 / p)
    return result


def _nothing() -> None:
    pass


def _of_pair(powers: dict[int, dict[Pair, float]], pair: Pair) -> dict[int, float]:
    """Mean W_p^p of one pair by cap."""
    return {cap: found[pair] for cap, found in powers.items() if pair in found}


class _Draws:
    """Synthetic samples of many summaries, each with its own seeds, and their transports."""

    def __init__(
        self,
        summaries: Sequence[Summary | LabelledSummary],
        seed: int,
        keys: Sequence[int],
        p: float,
        n_jobs: int,
        on_pair: Callable[[], None],
        total_pairs: int,
    ) -> None:
        self._total_pairs = total_pairs
        self.sizes = np.array([summary.count for summary in summaries])
        self._summaries = summaries
        self._synthetic: dict[int, _Drawing] = {}
        self._seed, self._keys, self._p, self._threads, self._on_pair = (
            seed,
            keys,
            p,
            n_jobs,
            on_pair,
        )
        self._columns: dict[Pair, tuple[int, Floats]] = {}
        self._nested: dict[int, NestedNormals] = {}

    def columns(self, squares: Mapping[Pair, float]) -> dict[Pair, Floats]:
        """The contribution of each feature to these squared distances, by the plans of the largest
        samples."""
        return {
            pair: found * (max(squares[pair], 0.0) / (float(found.sum()) or 1.0))
            for pair, (_, found) in self._columns.items()
            if pair in squares
        }

    def _add_columns(self, cap: int, pair: Pair, found: Floats) -> None:
        largest, total = self._columns.get(pair, (0, np.zeros(1)))
        if cap >= largest:
            self._columns[pair] = cap, found + total if cap == largest else found

    def powers(self, steps: Iterable[_Step]) -> dict[int, dict[Pair, float]]:
        """Mean of W_p^p over draws, for each cap and its pairs."""
        found: dict[int, dict[Pair, float]] = {}
        for step in steps:
            cap, draws, pairs, _, _ = step
            totals = dict.fromkeys(pairs, 0.0)
            involved = sorted({index for pair in pairs for index in pair})
            together = max(1, _DRAWN_TOGETHER // len(pairs))
            for start in range(0, draws, together):
                some = range(start, min(start + together, draws))
                drawings = [(draw, index) for draw in some for index in involved]
                samples = in_threads(partial(self._draw, step), drawings, self._threads)
                drawn = dict(zip(drawings, samples, strict=True))
                for pair, power in self._transported(drawn, pairs, step):
                    totals[pair] += power / draws
                    self._on_pair()
            found.setdefault(cap, {}).update(totals)
        return found

    def _transported(
        self, drawn: Mapping[Pair, Measure], pairs: Sequence[Pair], step: _Step
    ) -> Iterator[tuple[Pair, float]]:
        """W_p^p of these pairs in each of the draws, nearly for p = 2.

        Samples are known by draw and index. Of nested ones only the largest give parts of features.
        """
        count = len(self._summaries)
        measures = {draw * count + index: measure for (draw, index), measure in drawn.items()}
        numbers = [
            (draw * count + i, draw * count + j)
            for draw in dict.fromkeys(draw for draw, _ in drawn)
            for i, j in pairs
        ]

        def of_sites(pair: Pair) -> Pair:
            return pair[0] % count, pair[1] % count

        columns: dict[Pair, Floats] = {}  # filled by threads, added up in the order of pairs

        def compiled(pair: Pair) -> bool:
            return self._is_compiled(of_sites(pair))

        on_columns = None if step.nested and step.cap < CAP else columns.__setitem__
        powers: Iterable[tuple[Pair, float]]
        if self._p == 2 and next(iter(drawn.values())).dimension > 1:
            powers = near_squares(measures, numbers, self._threads, on_columns, compiled)
        else:
            distances = pair_distances(measures, numbers, self._p, self._threads, on_columns)
            powers = ((pair, distance**self._p) for pair, distance in distances)
        for pair, power in powers:
            if pair in columns:
                self._add_columns(step.cap, of_sites(pair), columns.pop(pair))
            yield of_sites(pair), power

    def _is_compiled(self, pair: Pair) -> bool:
        """Whether compiled code is worth loading for this pair."""
        return (
            self._total_pairs >= _WORTH_COMPILING
            or int(self.sizes[list(pair)].max()) > _MANY_POINTS
        )

    def _draw(self, step: _Step, drawing: tuple[int, int]) -> Measure:
        """A synthetic sample, by number of the draw and index of the summary."""
        draw, index = drawing
        if index not in self._synthetic:
            summary = self._summaries[index]
            self._synthetic[index] = (
                LabelledSyntheticSample.of(summary)
                if isinstance(summary, LabelledSummary)
                else SyntheticSample.of(summary)
            )
        key = [self._seed, self._keys[index]]
        normals: Normals
        if step.nested:
            if index not in self._nested:
                numbers = len(self._summaries) * CAP * self._summaries[index].dimension
                self._nested[index] = NestedNormals([*key, CAP], numbers <= _KEPT_NUMBERS)
            normals = self._nested[index].part(draw, CAP // step.cap)
        else:
            normals = np.random.default_rng([*key, step.cap, draw])
        size = step.cap if step.even else int(min(self.sizes[index], step.cap))
        return self._synthetic[index].draw(size, normals)


def _sample(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    """A random subset of the pairs."""
    rng = np.random.default_rng(seed)
    return [pairs[k] for k in rng.permutation(len(pairs))[:_SAMPLE]]


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
    before, after = np.minimum(sizes, _FEW_POINTS)[index].astype(float), sizes[index].astype(float)
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


def count_synthetic_transports(sizes: Sequence[int], pairs: Sequence[Pair], seed: int = 0) -> int:
    """The number of transports that `synthetic_distances` makes."""
    counts = np.array(sizes)
    many = len(pairs) > _MANY_PAIRS and int(counts.max()) > _FEW_POINTS
    chosen = _sample(pairs, seed) if many else pairs
    made = sum(step.draws * len(step.pairs) for step in _steps(counts, chosen, len(pairs)))
    return made + (len(pairs) if many else 0)


def _steps(sizes: NDArray[np.int64], pairs: Sequence[Pair], total_pairs: int) -> Iterator[_Step]:
    """Sizes of synthetic samples, each with its number of draws and its pairs."""
    largest = {pair: int(max(sizes[pair[0]], sizes[pair[1]])) for pair in pairs}
    extrapolated = [pair for pair in pairs if largest[pair] > CAP]
    for cap in _SAMPLE_SIZES if extrapolated else ():
        yield _Step(cap, _parts(cap, total_pairs), extrapolated, nested=True)
    others: dict[tuple[int, int, bool], list[Pair]] = {}
    for pair in pairs:
        if largest[pair] <= CAP:
            common = _common_size(int(sizes[pair[0]]), int(sizes[pair[1]]), total_pairs)
            draws = _draws(common or largest[pair], total_pairs)
            others.setdefault((common or CAP, draws, bool(common)), []).append(pair)
    for (cap, draws, even), some in others.items():
        yield _Step(cap, draws, some, even=even)


def _common_size(n: int, m: int, pairs: int) -> int:
    """One size for both sides of a pair, 0 if each keeps its own.

    Samples of equal size are transported many times faster. The noise in c (n^-g + m^-g) hardly
    differs from that of sqrt(n m) points on both sides while n and m are near each other.
    """
    few, many = min(n, m), max(n, m)
    near = few < many <= _NEAR * few and many >= _FEW_POINTS and pairs <= _FEW_PAIRS
    return round((n * m) ** 0.5) if near else 0


def _parts(cap: int, pairs: int) -> int:
    """Parts of samples of CAP points; a third of them for many pairs of which all are drawn."""
    parts = CAP // cap
    return max(1, parts // 3) if _SOME_PAIRS < pairs <= _MANY_PAIRS else parts


def _draws(size: int, pairs: int) -> int:
    if pairs > _MANY_PAIRS:  # only a subset of them is drawn, which must be accurate
        return 2
    if pairs > _SOME_PAIRS:
        return 1
    return 2 if pairs > _FEW_PAIRS else int(np.clip(_POINTS // size, 2, 16))


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
