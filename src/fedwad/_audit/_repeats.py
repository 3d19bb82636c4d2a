"""Averaging of repeats: the same request many times."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import SummaryRequest
from fedwad.ot import Floats, Measure

__all__ = ["average_rounds", "average_summaries"]

_REPEATS = 20


def average_rounds(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Ask for one round twenty times and average the cell means."""
    size = max(min(session.max_support, session.count // 10 or 1), session.policy.min_support)
    mean, scale = session.estimate_moments()
    support = Measure(mean + scale * rng.standard_normal((size, session.features)))
    return _average(session, (session.cell_means(support) for _ in range(_REPEATS)))


def average_summaries(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Ask for one summary twenty times and average the cell means."""
    request = SummaryRequest(session.max_support, "spherical", 2.0, 0)
    summaries = (session.ask_summary(request) for _ in range(_REPEATS))
    return _average(session, (None if summary is None else summary.means for summary in summaries))


def _average(session: AttackSession, replies: Iterable[Floats | None]) -> Floats:
    """The mean of the replies before the first refusal."""
    answers: list[Any] = list(takewhile(lambda means: means is not None, replies))
    return np.mean(answers, axis=0) if answers else session.no_guesses
