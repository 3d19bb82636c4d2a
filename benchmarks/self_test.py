"""The audit audited: for each example policy and kind of data, what it finds with a fix on and off.

`python -m benchmarks self_test` prints the table. A fix is switched off as an attacker would wish
it; the audit must then find what the attack gets, and nothing when the fix is on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from fedwad.audit.api import ATTACKS, REQUEST_KINDS
from fedwad.audit.score import ReconstructionScorer
from fedwad.audit.session import AttackSession
from fedwad.federation import Client, Dataset, Policy
from fedwad.privacy import _mechanism, _release
from fedwad.site import answers
from fedwad.transport import Measure

__all__ = ["CASES", "DATA", "POLICIES", "measure", "played"]

POLICIES = Path(__file__).parents[1] / "docs" / "policies"
Floats = NDArray[np.float64]
Switch = Callable[[Policy], tuple[Policy, AbstractContextManager[Any]]]


def _flagged(count: int) -> Floats:
    X = np.random.default_rng(1).standard_normal((count, 6))
    X[:, 5] = 0.0
    X[count // 3, 5] = 1.0
    return X


#: The kinds of data in which attacks differ; all have labels, which most methods ignore.
DATA: dict[str, Callable[[], Floats]] = {
    "a rare flag": lambda: _flagged(500),
    "one column": lambda: np.random.default_rng(0).lognormal(size=(300, 1)),
    "5000 records": lambda: _flagged(5000),
    "labels": lambda: np.random.default_rng(2).standard_normal((400, 4)),
}


def _any_version(policy: Policy) -> tuple[Policy, AbstractContextManager[Any]]:
    """A node whose data changed goes on answering, with exact sums."""
    several = replace(policy, max_distinct_replies=1000, rounding=0.0)
    return several, patch.object(Client, "_check_data_version", lambda _: None)


def _all_orders(policy: Policy) -> tuple[Policy, AbstractContextManager[Any]]:
    """Distances of any order are answered, and not rounded."""
    return replace(policy, supports="any", rounding=0.0), nullcontext()


def _random_rows(policy: Policy) -> tuple[Policy, AbstractContextManager[Any]]:
    """Rounds about random rows are answered, with exact sums."""
    return replace(policy, supports="any", rounding=0.0), nullcontext()


def _exact_sums(policy: Policy) -> tuple[Policy, AbstractContextManager[Any]]:
    """Sums over the cells of a support are exact."""
    return replace(policy, rounding=0.0), nullcontext()


def _full_covariance(policy: Policy) -> tuple[Policy, AbstractContextManager[Any]]:
    """The whole covariance is sent."""
    return replace(policy, covariance_type="full"), nullcontext()


def _no_noise(policy: Policy) -> tuple[Policy, AbstractContextManager[Any]]:
    """Releases have no noise."""

    def exact(sums: NDArray[np.int64], *_: Any) -> tuple[Floats, float]:
        return sums * _mechanism.SUM_UNIT, 1e-9

    return policy, patch.object(_release, "add_noise", exact)


def _whole_dual(policy: Policy) -> tuple[Policy, AbstractContextManager[Any]]:
    """The dual value of a coreset is summed before small cells are closed, and not rounded."""
    return replace(policy, rounding=0.0), _without_floor_on_duals()


@contextmanager
def _without_floor_on_duals() -> Iterator[None]:
    kept = answers._fractions

    def fractions(*given: Any) -> Any:
        return *kept(*given)[:2], np.arange(given[0].shape[1])

    def dual(reduced: Floats, _: Any, weights: Floats, *__: Any) -> float:
        return float(weights @ reduced.min(axis=1))

    with patch.object(answers, "_fractions", fractions), patch.object(answers, "_dual", dual):
        yield


def _records_in_place(policy: Policy) -> tuple[Policy, AbstractContextManager[Any]]:
    """Records count to the cells of a coreset in which they lie, to the last digit."""
    return policy, patch.multiple(
        answers,
        _blurred=lambda measure, _: measure.points,
        _miscounted=lambda cost, request, _: cost - request.potentials,
    )


class Case(NamedTuple):
    """An attack on a example policy, and the fix that stops it."""

    policy: str
    data: str
    method: str
    attack: str
    switch: Switch


_METHODS = {
    "summary": "summary",
    "classes": "summary",
    "training": "summary",
    "classifier": "classifier",
    "coreset": "coreset",
    "hub": "hub",
    "rounds": "fedwad",
}


def _cases() -> Iterator[Case]:
    versions, known = "differences of versions", "all other records known"
    for data in DATA:
        for policy, method in _METHODS.items():
            yield Case(policy, data, method, versions, _any_version)
        yield Case("private", data, "private", known, _no_noise)
        yield Case("summary", data, "test", versions, _any_version)
    for data in ("a rare flag", "5000 records"):
        for policy in ("hub", "rounds"):
            yield Case(policy, data, _METHODS[policy], "moments by distances", _all_orders)
        for policy in ("summary", "classes", "training"):
            yield Case(policy, data, "summary", "rare features", _full_covariance)
    for policy in ("hub", "rounds"):
        yield Case(policy, "a rare flag", _METHODS[policy], "swap of a rare record", _exact_sums)
        yield Case(policy, "one column", _METHODS[policy], "sums of tails", _all_orders)
    yield Case("rounds", "labels", "fedwad", "differencing of draws", _random_rows)
    yield Case("coreset", "a rare flag", "coreset", "swap between two atoms", _exact_sums)
    for data in ("one column", "labels"):
        yield Case("coreset", data, "coreset", "outermost by dual values", _whole_dual)
    yield Case("coreset", "one column", "coreset", "bisecting of cells", _records_in_place)


#: Each example policy on each kind of data, by at least one attack.
CASES: tuple[Case, ...] = tuple(_cases())


def played(case: Case, switched_off: bool) -> int:
    """How many records the attack reconstructs, exactly or nearly."""
    rules = Policy.load(POLICIES / f"{case.policy}.toml")
    policy, broken = case.switch(rules) if switched_off else (rules, nullcontext())
    X = DATA[case.data]()
    attack = next(a for a in ATTACKS[case.method] if a.name == case.attack)
    with broken:
        labels = np.arange(len(X)) % 2
        session = AttackSession(Dataset(Measure(X), labels), policy, REQUEST_KINDS[case.method])
        found = attack.run(session, np.random.default_rng(0))
    return int(ReconstructionScorer(X).score(found).near)


def measure() -> list[dict[str, Any]]:
    """One row for each case: records that come back with the fix on and off, and seconds."""
    rows = []
    for case in CASES:
        started = time.process_time()
        on, off = (played(case, switched) for switched in (False, True))
        rows.append(
            {
                "policy": f"{case.policy}.toml",
                "data": case.data,
                "attack": f"{case.attack} ({case.method})",
                "switched off": (case.switch.__doc__ or "").rstrip("."),
                "with the fix": on,
                "without": off,
                "s": time.process_time() - started,
            }
        )
    return rows
