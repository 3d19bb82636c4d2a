"""The answer to `fedwad.audit`: one row for each attack, and a verdict for each method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from fedwad._audit._score import Score
from fedwad._files import SavedResult
from fedwad.errors import InputError
from fedwad.ot import Floats
from fedwad.tables import Schema

__all__ = ["AuditResult", "Row", "Samples"]


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

    def verdict(self, n_attacked: int) -> str:
        """The outcome in a few words. `n_attacked` is used if the row has no number of its own."""
        count = self.n_attacked or n_attacked
        if self.skipped_reason:
            return f"not tried: {self.skipped_reason}"
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

    _format: ClassVar[str] = "fedwad audit 2"
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
        return max((row.score.exact for row in self.rows if row.leaks), default=0)

    @property
    def leaks(self) -> bool:
        """Whether any attack reconstructed more than a fresh sample would give."""
        return any(row.leaks for row in self.rows)

    def verdict(self, method: str) -> str:
        """One sentence about a method under this policy."""
        rows = [row for row in self.rows if row.method == method]
        if not rows:
            raise InputError(
                f"There is no method {method!r} in this audit; it has {', '.join(self.methods)}."
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
    worst = max(rows, key=lambda row: (row.leaks, row.score.exact, row.score.near))
    if worst.leaks:
        return f"records were reconstructed, {worst.verdict(n_attacked)} by '{worst.attack}'."
    if all(row.skipped_reason for row in rows):
        return f"nothing was tried, so nothing is known. {rows[0].skipped_reason}"
    is_alone, none = len(rows) == 1, f"none of {len(rows)} attacks"
    if any(math.isfinite(row.score.closest) for row in rows):
        who = "the one attack got no" if is_alone else f"{none} got"
        return f"{who} more than a fresh sample would give; that is no proof."
    if any(row.refused for row in rows):
        return f"{'the one attack was' if is_alone else f'all {len(rows)} attacks were'} refused."
    who = "the one attack found nothing" if is_alone else f"{none} found anything"
    return f"{who} to reconstruct from."


def _score_dict(score: Score) -> dict[str, Any]:
    closest = score.closest if math.isfinite(score.closest) else None  # JSON has no infinity
    return {"exact": score.exact, "near": score.near, "closest": closest}


def _score(content: Mapping[str, Any]) -> Score:
    closest = content["closest"]
    return Score(
        int(content["exact"]), int(content["near"]), math.inf if closest is None else float(closest)
    )
