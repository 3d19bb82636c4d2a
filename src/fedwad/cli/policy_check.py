"""Which requests a client would answer under its policy, found by trying them on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedwad.errors import FedwadError
from fedwad.federation import (
    AdoptSchemaRequest,
    AtomsRequest,
    BlocksRequest,
    CellsRequest,
    Client,
    DescribeRequest,
    LabelsRequest,
    MomentsRequest,
    Policy,
    PrivateRequest,
    ProfileRequest,
    PrototypesRequest,
    Request,
    SummaryRequest,
    TransportRequest,
)
from fedwad.ot import Measure
from fedwad.privacy import DP
from fedwad.tables import agree

__all__ = ["TRAINING_WARNING", "Trial", "reply_limits", "try_requests", "untried_kinds"]

TRAINING_WARNING = (
    "What the weights of a trained network reveal about your records is not limited: a server that"
    " chooses the weights can read records from one update, or by counting right answers. Allow it"
    " only to a server to which you would show your data; fedwad audit --method training shows"
    " what comes back."
)
_SIZES = (1, 10, 100)  # cells or support points that the tried requests ask for


@dataclass(frozen=True)
class Trial:
    """One request, and what the client would do with it.

    `request` describes it for the reader. `reason` says why it was refused, and is empty otherwise.
    The other fields are those of the client's ledger entry.
    """

    request: str
    kind: str
    outcome: str
    min_cell_size: int
    bytes: int
    reason: str


def try_requests(client: Client) -> list[Trial]:
    """Try one request of each kind except training, and several of some kinds that are allowed.

    Some are requests that no policy should allow. Each is tried with an empty ledger, as if it were
    the first. A schema is handed only to a client whose table waits for one.
    """
    before_schema = [("describe", DescribeRequest()), ("schema", ProfileRequest())]
    trials = [_try(client, name, request) for name, request in before_schema]
    if client.table is not None:  # as if the other sites had the same table
        schema = agree({"this site": client.table.profile(client.policy.min_cell_size)})
        trials.append(_try(client, "encode", AdoptSchemaRequest(schema.to_toml())))
        client = Client(client.table.encode(schema, client.policy.min_level_size), client.policy)
    features = client.data.measure.dimension
    requests = [*_requests_for_summaries(client.policy), *_requests_for_rounds(client, features)]
    return trials + [_try(client, name, request) for name, request in requests]


def untried_kinds(policy: Policy) -> list[str]:
    """The kinds of requests that a policy allows and that `try_requests` does not try."""
    return [kind for kind in ("train", "evaluate") if kind in policy.allow]


def reply_limits(policy: Policy) -> Mapping[str, int]:
    """How many distinct replies may leave the client, for each kind; keys are for printing."""
    limit = policy.max_distinct_replies
    if limit is None:
        return {}
    if isinstance(limit, Mapping):
        return {f"kind '{kind}'": number for kind, number in limit.items()}
    return {"each kind except describe and private": limit}


def _sizes(policy: Policy, kind: str) -> tuple[int, ...]:
    """The sizes to try: all of them if the policy allows the kind, otherwise one."""
    return _SIZES if kind in policy.allow else (10,)


def _requests_for_summaries(policy: Policy) -> Iterator[tuple[str, Request]]:
    """Requests for statistics of the data, which need no support."""
    yield "moments", MomentsRequest()
    for size in _sizes(policy, "summary"):
        yield f"summary, {size} cell{'s' if size > 1 else ''}", SummaryRequest(size, "auto", 2.0, 0)
    if "summary" in policy.allow:
        yield "summary by class", SummaryRequest(1, "auto", 2.0, 0, "diag")
        yield "summary of order 10", SummaryRequest(1, "auto", 10.0, 0)
    yield "blocks of rows", BlocksRequest()
    epsilon = min(1.0, policy.epsilon or 1.0)
    yield (
        f"private, epsilon {epsilon:g}",
        PrivateRequest.of(DP(epsilon, delta=policy.delta, clip_norm=1.0)),
    )


def _requests_for_rounds(client: Client, features: int) -> Iterator[tuple[str, Request]]:
    """Requests with a support, and those for labels and prototypes."""
    policy, rng = client.policy, np.random.default_rng(0)
    supports = {size: Measure(rng.standard_normal((size, features))) for size in _SIZES}
    unequal = Measure(supports[10].points, np.arange(1, 11))

    def transport(
        support: Measure, interpolant: Literal["barycentric", "exact"]
    ) -> TransportRequest:
        return TransportRequest("check", support, 0.5, 2.0, interpolant, False)

    for size in _sizes(policy, "transport"):
        yield f"round, {size} points", transport(supports[size], "barycentric")
    if "transport" in policy.allow:
        yield "round, unequal weights", transport(unequal, "barycentric")
        yield "round, exact interpolant", transport(supports[1], "exact")
    for size in _sizes(policy, "cells"):
        yield f"cells, {size} points", CellsRequest("check", supports[size], 2.0, "auto")
    yield "sums of cells, 10 atoms", AtomsRequest(supports[10].points, np.zeros(10), 0.0)
    yield "names of labels", LabelsRequest()
    yield "10 prototypes", PrototypesRequest(10, "class", "equal", 0)


def _try(client: Client, name: str, request: Request) -> Trial:
    """Let the client answer the request, and read from its ledger what became of it."""
    reason, client = "", client.with_empty_ledger()
    try:
        client.answer(request)
    except FedwadError as error:
        reason = str(error)
    entry = client.ledger.entries[-1]
    return Trial(name, entry.kind, entry.outcome, entry.min_cell_size, entry.bytes, reason)
