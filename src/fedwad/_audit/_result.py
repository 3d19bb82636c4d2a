"""The answer to `fedwad.audit`: one row for each attack, and a verdict for each method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from fedwad._audit._score import Score
from fedwad._files import Saved
from fedwad.errors import InputError
from fedwad.ot import Floats

__all__ = ["AuditResult", "Row", "Samples"]


@dataclass(frozen=True)
class Row:
    """What one attack on one method got.

    method : the method whose questions the attack may ask
    attack : its name
    asks : what it asks, in words
    answered : how many questions were answered
    refused : why it got no further, the client's own sentence; empty if nothing was refused
    score : how many records came back
    leaks : whether that is more than a fresh draw from the same law would give
    untried : why its question does not fit the data, so that nothing was tried; empty if it was
    """

    method: str
    attack: str
    asks: str
    answered: int
    refused: str
    score: Score
    leaks: bool
    untried: str = ""

    def verdict(self, count: int) -> str:
        """The outcome in a few words."""
        if self.untried:
            return f"not tried: {self.untried}"
        if not math.isfinite(self.score.closest):
            return f"refused: {self.refused}" if self.refused else "nothing to reconstruct from"
        if not self.leaks:
            return "nothing beyond a fresh draw"
        if self.score.exact:
            return f"{'all' if self.score.exact == count else self.score.exact} of {count} records exactly"
        return f"{self.score.near} of {count} records nearly"


@dataclass(frozen=True, eq=False)
class Samples:
    """A few records beside the closest guess of each attack: arrays (k, d). They are never saved
    with a result."""

    records: Floats
    guesses: Mapping[tuple[str, str], Floats]


@dataclass(frozen=True, eq=False)
class AuditResult(Saved):
    """What a curious server can reconstruct of these data under this policy.

    Attributes
    ----------
    rows : tuple of Row
    baseline : Score
        What a fresh draw of as many records from the same law would give.
    policy : str
        The name of the policy.
    count, features, of : int Records that were attacked, their features, and the records in the
        data they were drawn from.
    samples : Samples or None
        Records and reconstructions, for the page. They are not part of `to_dict` and not saved.
    """

    _format: ClassVar[str] = "fedwad audit 1"
    _noun: ClassVar[str] = "audit"

    rows: tuple[Row, ...]
    baseline: Score
    policy: str
    count: int
    features: int
    of: int
    seed: int
    samples: Samples | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AuditResult) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<audit of {self.count} records under {self.policy}: {self.recovered} came back exactly>"

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.method for row in self.rows))

    @property
    def recovered(self) -> int:
        """Most records that one attack got back exactly, beyond chance."""
        return max((row.score.exact for row in self.rows if row.leaks), default=0)

    @property
    def leaks(self) -> bool:
        """Whether any attack got more than a fresh draw would give."""
        return any(row.leaks for row in self.rows)

    def verdict(self, method: str) -> str:
        """One sentence about a method under this policy."""
        rows = [row for row in self.rows if row.method == method]
        if not rows:
            raise InputError(
                f"There is no method {method!r} in this audit; it has {', '.join(self.methods)}."
            )
        worst = max(rows, key=lambda row: (row.leaks, row.score.exact, row.score.near))
        under = f"Method {method} under {self.policy}:"
        if worst.leaks:
            return f"{under} records came back, {worst.verdict(self.count)} by '{worst.attack}'."
        untried = [row.untried for row in rows if row.untried]
        if len(untried) == len(rows):
            return f"{under} nothing was tried, so nothing is known. {untried[0]}"
        if not any(math.isfinite(row.score.closest) for row in rows):
            return f"{under} {'the one attack was' if len(rows) == 1 else f'all {len(rows)} attacks were'} refused."
        who = "the one attack got no" if len(rows) == 1 else f"none of {len(rows)} attacks got"
        return f"{under} {who} more than a fresh draw would give; that is no proof."

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, words and lists, without any record."""
        names = ("policy", "count", "features", "of", "seed", "recovered", "leaks")
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        content["baseline"] = _score_dict(self.baseline)
        content["rows"] = [
            asdict(row) | {"score": _score_dict(row.score), "verdict": row.verdict(self.count)}
            for row in self.rows
        ]
        content["verdicts"] = {method: self.verdict(method) for method in self.methods}
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> AuditResult:
        """What `to_dict` gave; InputError if it is something else."""
        try:
            rows = [dict(row) for row in content["rows"]]
            for row in rows:
                row.pop("verdict")
                row["score"] = _score(row["score"])
            names = ("policy", "count", "features", "of", "seed")
            found = {name: content[name] for name in names}
            return cls(
                rows=tuple(Row(**row) for row in rows),
                baseline=_score(content["baseline"]),
                **found,
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "These are not the parts of an audit; some are missing or were changed."
            ) from None


def _score_dict(score: Score) -> dict[str, Any]:
    closest = score.closest if math.isfinite(score.closest) else None  # JSON has no infinity
    return {"exact": score.exact, "near": score.near, "closest": closest}


def _score(content: Mapping[str, Any]) -> Score:
    closest = content["closest"]
    return Score(
        int(content["exact"]), int(content["near"]), math.inf if closest is None else float(closest)
    )
