"""Scores of reconstructions, and the answer to `fedwad.audit`, with a verdict for each method.

A score is compared with that of a fresh sample from the same population.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedwad._files import SavedResult
from fedwad.errors import InputError
from fedwad.tables import Schema
from fedwad.transport import Floats, ground_cost


@dataclass(frozen=True)
class Score:
    """How many records were reconstructed.

    exact : within a millionth of the typical nearest-neighbour distance
    near : within a tenth of it, the exact ones included
    closest : median over records of the distance to the closest guess, in typical nearest-neighbour
        distances
    """

    exact: int = 0
    near: int = 0
    closest: float = math.inf


@dataclass(frozen=True)
class Finding:
    """The outcome of an attack that is not about whole records.

    found : rows, values or columns at which it got; 0 if it failed
    count : how many there are
    answered, refused : as in `Row`
    words : the outcome in words; empty for "so many records exactly"
    numbers : what was measured, by name
    skipped_reason : why nothing was tried; else empty
    """

    found: int = 0
    count: int = 0
    answered: int = 0
    refused: str = ""
    words: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    skipped_reason: str = ""


class ReconstructionScorer:
    """Scores reconstructions in units of the nearest-neighbour distances of the data.

    A guess close to a record means little if records lie close to each other. Therefore distances
    are divided by the median distance of a record to its nearest neighbour, where records that have
    a copy do not count, and every score is compared with the `baseline`: the score of the other
    n - 1 records as guesses of each record. These are a fresh sample from the same population.
    """

    _EXACT, _NEAR = 1e-6, 0.1  # in typical nearest-neighbour distances

    def __init__(self, points: Floats, most: int = 5000) -> None:
        self._points = points
        chosen = np.arange(len(points))
        if len(points) > most:  # the baseline is estimated from a random part
            chosen = np.sort(np.random.default_rng(0).permutation(len(points))[:most])
        distances = np.sqrt(_closest(points[chosen], points, indices=chosen)[0])
        largest = float(np.abs(points - points.mean(axis=0)).max()) or 1.0
        distances[distances <= 1e-9 * largest] = 0.0  # copies of a record
        positive = distances[distances > 0]
        #: The median distance of a record without a copy to its nearest neighbour; 1 if all have
        #: copies.
        self.typical = float(np.median(positive)) if len(positive) else 1.0
        ratio, score = len(points) / len(chosen), self._score(distances)
        self.baseline = Score(round(ratio * score.exact), round(ratio * score.near), score.closest)
        #: Whether each record has a value that no other has, and how many such records the fresh
        #: sample finds.
        self._alone = np.zeros(len(points), dtype=bool)
        for values in points.T:
            _, places, counts = np.unique(values, return_index=True, return_counts=True)
            self._alone[places[counts == 1]] = True
        alone = distances[self._alone[chosen]] / self.typical
        self._fresh_alone = {w: ratio * int((alone <= w).sum()) for w in (self._EXACT, self._NEAR)}

    def score(self, guesses: Floats) -> Score:
        """The score of the guesses, of which at most as many count as there are records."""
        guesses = self._usable(guesses)
        return self._score(np.sqrt(_closest(self._points, guesses)[0])) if len(guesses) else Score()

    def is_beyond_chance(self, guesses: Floats, few: float = 0.1) -> bool:
        """Whether the guesses find more records than as many records of a fresh sample would, by
        three standard deviations.

        Any exact reconstruction is beyond chance if the fresh sample has none. Guesses that are at
        most a part `few` of the records are also compared where records have a value that no other
        has: that others have copies says nothing about these.
        """
        score, fresh, guesses = self.score(guesses), self.baseline, self._usable(guesses)
        if score.exact and not fresh.exact:
            return True
        # Both are counts of rare events, so the variance of their difference is about their sum.
        pairs = (score.exact, fresh.exact), (score.near, fresh.near)
        if any(count - chance > 3 * math.sqrt(count + chance + 1) for count, chance in pairs):
            return True
        part = len(guesses) / len(self._points)
        if not 0 < part <= few:
            return False
        ratios = np.sqrt(_closest(self._points, guesses)[0]) / self.typical
        for within, fresh_alone in self._fresh_alone.items():
            found, chance = int((self._alone & (ratios <= within)).sum()), part * fresh_alone
            if found > chance + 3 * math.sqrt(chance):
                return True
        return False

    def nearest(self, records: Floats, guesses: Floats) -> Floats:
        """For each of these records the guess that is closest to it."""
        guesses = self._usable(guesses)
        return np.asarray(guesses[_closest(records, guesses)[1]])

    def _usable(self, guesses: Floats) -> Floats:
        """The finite guesses, at most as many as there are records."""
        return np.asarray(guesses[np.isfinite(guesses).all(axis=1)][: len(self._points)])

    def _score(self, distances: Floats) -> Score:
        """The score of records at these distances from their closest guess."""
        ratios = distances / self.typical
        exact, near = int((ratios <= self._EXACT).sum()), int((ratios <= self._NEAR).sum())
        return Score(exact, near, float(np.median(ratios)))


def _closest(
    points: Floats, others: Floats, indices: np.ndarray | None = None, chunk_rows: int = 512
) -> tuple[Floats, np.ndarray]:
    """The squared distance of each point to the closest of the others, and the index of that one.

    If the points are among the others, `indices` are their own, which do not count.
    """
    squares, which = np.empty(len(points)), np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), chunk_rows):
        chunk = slice(start, start + chunk_rows)
        cost = ground_cost(points[chunk], others)
        if indices is not None:
            cost[np.arange(len(cost)), indices[chunk]] = np.inf
        which[chunk] = cost.argmin(axis=1)
        # From the difference itself: |x|^2 - 2 x.y + |y|^2 loses all digits if guess and record
        # agree.
        squares[chunk] = ((points[chunk] - others[which[chunk]]) ** 2).sum(axis=1)
    if indices is not None and len(others) == 1:
        squares[:] = np.inf
    return squares, which


@dataclass(frozen=True)
class Row:
    """The outcome of one attack on one method.

    method : the method whose requests the attack may use
    attack : its name
    requests : what it asks for, in words
    answered : number of answered requests
    refused : the client's sentence for a refusal, or why a request does not fit the data; empty if
        there was neither
    score : how many records were reconstructed, exactly and nearly; see Score for the tolerances
    leaks : whether that is more than a fresh sample of the same population would give
    skipped_reason : why the requests do not fit the data, so that nothing was tried; else empty
    n_attacked : number of records that it was tried on; 0 if that is the number of the whole audit
    words, numbers : the outcome of an attack that is not about whole records, and what it measured
    """

    method: str
    attack: str
    requests: str
    answered: int
    refused: str
    score: Score
    leaks: bool
    skipped_reason: str = ""
    n_attacked: int = 0
    words: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_played(self) -> bool:
        """Whether the attack was tried, and came to guesses or was refused nothing."""
        return not self.skipped_reason and (math.isfinite(self.score.closest) or not self.refused)

    @property
    def tells_members(self) -> bool:
        """Whether it tells rows of the data from others better than its control, at level 5%."""
        return self.numbers.get("pvalue", 1.0) <= 0.05

    def verdict(self, n_attacked: int) -> str:
        """The outcome in a few words. `n_attacked` is used if the row has no number of its own."""
        count = self.n_attacked or n_attacked
        if self.skipped_reason:
            return f"not tried: {self.skipped_reason}"
        if self.words:
            return self.words
        if not math.isfinite(self.score.closest):
            return f"refused: {self.refused}" if self.refused else "nothing to reconstruct from"
        if not self.leaks:
            return "nothing beyond a fresh sample"
        if self.score.exact:
            exact = "all" if self.score.exact == count else self.score.exact
            return f"{exact} of {count} records exactly"
        return f"{self.score.near} of {count} records nearly"


@dataclass(frozen=True, eq=False)
class Samples:
    """A few records, and the closest guesses to them by method and attack: arrays (k, d).

    They are never saved with a result. `features` and `schema` say what their columns mean, if that
    is known.
    """

    records: Floats
    guesses: Mapping[tuple[str, str], Floats]
    features: tuple[str, ...] | None = None
    schema: Schema | None = None


@dataclass(frozen=True, eq=False)
class AuditResult(SavedResult):
    """What a curious server can reconstruct of these data under this policy.

    Attributes
    ----------
    rows : tuple of Row
        The outcome of each attack.
    baseline : Score
        The score of a fresh sample of the same size from the same population.
    policy : str
        The name of the policy.
    n_attacked, n_features, n_records : int
        Number of attacked records, of features, and of records in the whole data.
    samples : Samples or None
        Records and reconstructions, for the report. They are not part of `to_dict` and not saved.
    """

    _format: ClassVar[str] = "fedwad audit 3"
    _noun: ClassVar[str] = "audit"  # in errors about files

    rows: tuple[Row, ...]
    baseline: Score
    policy: str
    n_attacked: int
    n_features: int
    n_records: int
    seed: int
    samples: Samples | None = None

    def __repr__(self) -> str:
        recovered = f"{self.recovered} reconstructed exactly"
        return f"<audit of {self.n_attacked} records under {self.policy}: {recovered}>"

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.method for row in self.rows))

    @property
    def recovered(self) -> int:
        """The largest number of records that one attack reconstructed exactly, beyond chance."""
        records = [row.score.exact for row in self.rows if row.leaks and not row.words]
        return max(records, default=0)

    @property
    def leaks(self) -> bool:
        """Whether any attack got more than a fresh sample would give, or told too many members."""
        return any(row.leaks for row in self.rows)

    def verdict(self, method: str) -> str:
        """One sentence about a method under this policy."""
        rows = [row for row in self.rows if row.method == method]
        if not rows:
            raise InputError(
                f"There is no method {method!r} in this audit; it has {', '.join(self.methods)}.",
                "unknown-method",
            )
        return f"Method {method} under {self.policy}: {_verdict(rows, self.n_attacked)}"

    def _content(self) -> dict[str, Any]:
        names = ("policy", "n_attacked", "n_features", "n_records", "seed", "recovered", "leaks")
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        content["baseline"] = _score_dict(self.baseline)
        content["rows"] = [
            asdict(row) | {"score": _score_dict(row.score), "verdict": row.verdict(self.n_attacked)}
            for row in self.rows
        ]
        content["verdicts"] = {method: self.verdict(method) for method in self.methods}
        return content

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> AuditResult:
        rows = [dict(row) for row in content["rows"]]
        for row in rows:
            row.pop("verdict")
            row["score"] = _score(row["score"])
        names = ("policy", "n_attacked", "n_features", "n_records", "seed")
        return cls(
            rows=tuple(Row(**row) for row in rows),
            baseline=_score(content["baseline"]),
            **{name: content[name] for name in names},
        )


def _verdict(rows: list[Row], n_attacked: int) -> str:
    """The end of the sentence about a method, given the attacks on it."""
    if all(row.skipped_reason for row in rows):
        return f"nothing was tried, so nothing is known. {rows[0].skipped_reason}"
    played = [row for row in rows if row.is_played]
    if not played:
        refused = sum(not row.skipped_reason for row in rows)
        return f"{'the one attack was' if refused == 1 else f'all {refused} attacks were'} refused."
    told = [
        f"'{row.attack}' tells members better than chance, {row.words}"
        for row in played
        if row.tells_members
    ]
    others = [row for row in played if not row.tells_members]
    if not others:
        return "; ".join(told) + "."
    worst = max(others, key=lambda row: (row.leaks, row.score.exact, row.score.near))
    is_alone, none = len(others) == 1, f"none of {len(others)} attacks that were played"
    if worst.leaks and worst.words:
        found = f"'{worst.attack}' succeeded, {worst.words}"
    elif worst.leaks:
        found = f"records were reconstructed, {worst.verdict(n_attacked)} by '{worst.attack}'"
    elif any(math.isfinite(row.score.closest) for row in others):
        who = "the one attack that was played got no" if is_alone else f"{none} got"
        found = f"{who} more than a fresh sample would give; that is no proof"
    else:
        who = "the one attack that was played" if is_alone else none
        found = f"{who} found {'nothing' if is_alone else 'anything'} to reconstruct from"
    return "; ".join([*told, found]) + "."


def _score_dict(score: Score) -> dict[str, Any]:
    closest = score.closest if math.isfinite(score.closest) else None  # JSON has no infinity
    return {"exact": score.exact, "near": score.near, "closest": closest}


def _score(content: Mapping[str, Any]) -> Score:
    closest = content["closest"]
    return Score(
        int(content["exact"]), int(content["near"]), math.inf if closest is None else float(closest)
    )
