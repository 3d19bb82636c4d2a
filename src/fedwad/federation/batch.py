"""Several clients of one process that execute their requests together."""

from __future__ import annotations

from collections.abc import Mapping

from fedwad._blas import single_threaded_blas
from fedwad.errors import FedwadError
from fedwad.federation.client import AdmittedRequest, Client
from fedwad.federation.failures import Failure, failure_of
from fedwad.federation.ledger import lock_all
from fedwad.federation.message import Reply, Request

__all__ = ["answer_batch"]


def answer_batch(
    clients: Mapping[str, Client], requests: Mapping[str, Request]
) -> dict[str, Reply | Failure]:
    """Answers of several clients of this process to requests of one class, executed together.

    Each client checks and records its own request and reply, as in `Client.answer`.
    """
    answers: dict[str, Reply | Failure] = {}
    admitted: dict[str, AdmittedRequest] = {}
    with lock_all(clients[name].ledger for name in requests), single_threaded_blas():
        for name, request in requests.items():
            try:
                admitted[name] = clients[name]._admit(request)
            except FedwadError as error:
                answers[name] = failure_of(error)
        results = dict(zip(admitted, _execute_batch(clients, admitted), strict=False))
        for name, one in admitted.items():
            client = clients[name]
            try:
                with client._record_if_withheld(one):
                    reply, samples = results.get(name) or type(one.request).execute(
                        one.request, client._context
                    )
                    answers[name] = client._check_and_record(one, reply, samples)
            except FedwadError as error:
                answers[name] = failure_of(error)
    return {name: answers[name] for name in requests}


def _execute_batch(
    clients: Mapping[str, Client], admitted: Mapping[str, AdmittedRequest]
) -> list[tuple[Reply, int | None]]:
    """The results of these requests; an empty list if one fails, so that each is executed alone."""
    if not admitted:
        return []
    requests = [one.request for one in admitted.values()]
    try:
        return list(
            type(requests[0]).execute_batch(requests, [clients[name]._context for name in admitted])
        )
    except FedwadError:
        return []
