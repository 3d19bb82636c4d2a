"""The one door: a client holds data and answers requests about it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad.errors import FederationError, FedwadError, PolicyError
from fedwad.federation.accountant import BudgetAccountant
from fedwad.federation.bundle import Bundle, kind_of, validate
from fedwad.federation.codec import Envelope, VersionError, digest, pack, unpack
from fedwad.federation.context import ClientContext
from fedwad.federation.data import Dataset
from fedwad.federation.ledger import FileLedger, Ledger, Outcome
from fedwad.federation.message import Reply, Request
from fedwad.federation.policy import Policy
from fedwad.federation.replies import BundleReply, Failure, failure_of, payload
from fedwad.federation.requests.train import TrainRequest, train_together

__all__ = ["Client", "answer_together"]

_LARGEST_BUNDLE = 10_000
_log = logging.getLogger("fedwad.client")


class Client:
    """One party's data behind its policy and its ledger.

    `answer` is the only way to anything computed from the data: it asks the policy before the work
    and before the reply leaves, and writes every request into the ledger, whatever became of it.
    `respond` is the same door for letters that came over a wire.
    """

    def __init__(
        self, data: Dataset, policy: Policy | None = None, ledger: Ledger | None = None
    ) -> None:
        self.ledger = Ledger() if ledger is None else ledger
        beside = (
            self.ledger.path.with_suffix(".layers") if isinstance(self.ledger, FileLedger) else None
        )
        self._context = ClientContext(data, Policy() if policy is None else policy, folder=beside)
        self._digest = _digest(self._context.data)
        self._context.accountant = BudgetAccountant(self.ledger, self._context.policy, self._digest)
        self._features = (
            ""
            if data.features is None
            else hashlib.sha256(repr(data.features).encode()).hexdigest()[:16]
        )

    @property
    def policy(self) -> Policy:
        return self._context.policy

    @property
    def fingerprint(self) -> str:
        """A word that changes when the data or the names of their features do; it stays with the
        client."""
        return f"{self._digest} {self._features}"

    def respond(self, letter: bytes) -> bytes:
        """The answer to a letter, as a letter. Errors become a Failure: our sentence, never a
        traceback or data."""
        request_id = ""
        message: Reply | BundleReply | Failure
        try:
            asked = self._opened(letter)
            request_id = asked.request_id
            message = (
                self.answer_all(asked.content)
                if isinstance(asked.content, Bundle)
                else self.answer(asked.content)
            )
        except VersionError as error:
            message = Failure("version", str(error))
        except FedwadError as error:
            message = failure_of(error)
        except Exception:
            _log.exception("a request failed")  # stays here, beside the data
            message = Failure(
                "internal", "The client could not work on this request; its own log tells why."
            )
        return pack(Envelope(message, request_id, self._features))

    def _opened(self, letter: bytes) -> Envelope:
        try:
            return unpack(letter)
        except FedwadError:
            with self.ledger.turn():
                self.ledger.record("unreadable", "refused")
            raise

    def answer_all(self, bundle: Bundle) -> BundleReply:
        """Reply to each request of a bundle, or say why not."""
        if len(bundle.requests) > _LARGEST_BUNDLE:
            raise FederationError(
                f"A bundle of {len(bundle.requests)} requests came; send up to {_LARGEST_BUNDLE}."
            )
        replies: list[Reply | Failure] = []
        for request in bundle.requests:
            try:
                replies.append(self.answer(request))
            except FedwadError as error:
                replies.append(failure_of(error))
        return BundleReply(tuple(replies))

    def answer(self, request: Request) -> Reply:
        """Reply to one request, or raise PolicyError. Requests of several threads take turns."""
        with self.ledger.turn(), single_threaded_blas():
            request, question = self._admitted(request)
            return self._released(
                request, question, lambda: type(request).execute(request, self._context)
            )

    def _admitted(self, request: Request) -> tuple[Request, str]:
        """The request as it may be worked on, and its `_question`, or PolicyError and a line in the
        ledger.

        A question whose reply was withheld is not worked on again: it would be withheld again.
        Within a ledger's turn.
        """
        kind = kind_of(request)
        try:
            request = validate(request)
            question = self._question(request)
            known = self.ledger.known(question)
            self.policy.admit(request, self.ledger.queries if known is None else 0)
            type(request).check_shape(request, self._context)
            if known is not None and known.outcome == "withheld":
                raise PolicyError(known.reason)
        except BaseException as error:
            self.ledger.record(kind, "refused", data=self._digest, reason=_reason(error))
            raise
        return request, question

    def _released(
        self, request: Request, question: str, execute: Callable[[], tuple[Reply, int | None]]
    ) -> Reply:
        """The reply that `execute` gives, past the policy and into the ledger. Within the ledger's
        turn.

        The same reply to the same question tells nothing new, so it is "repeated" and does not
        count; any other does.
        """
        kind, known = kind_of(request), self.ledger.known(question)
        try:
            reply, min_cell_size = execute()
            told = digest(reply)
            if (
                min_cell_size is not None
            ):  # else it averages no samples: a description, or noise that has its own budget
                self.policy.release(min_cell_size)
                self.policy.check_new(kind, told, self.ledger.released_digests(kind))
            again = known is not None and known.digest == told
            if known is not None and not again:  # it was let in as a repetition, and is none
                self.policy.check_queries(self.ledger.queries)
        except BaseException as error:  # whatever it was, the data were looked at
            lasting = question if known is None and isinstance(error, PolicyError) else ""
            self.ledger.record(
                kind, "withheld", data=self._digest, question=lasting, reason=_reason(error)
            )
            raise
        outcome: Outcome = "repeated" if again else "answered"
        self.ledger.record(
            kind, outcome, payload(reply), min_cell_size or 0, told, self._digest, question=question
        )
        return reply

    def _question(self, request: Request) -> str:
        """SHA-256 of what a reply depends on: the question without the name of its run, the rules,
        and the data.

        Empty for questions whose reply depends on more, on chance or on what was trained before.
        """
        if not type(request).lasting:
            return ""
        plain = replace(request, run="") if hasattr(request, "run") else request  # type: ignore[type-var]
        rules = replace(self.policy, max_queries=None, name="", contact="")
        return hashlib.sha256(f"{digest(plain)} {rules!r} {self._digest}".encode()).hexdigest()


def _reason(error: BaseException) -> str:
    """Why something was not told, for the ledger: our own sentences, and no words of other
    errors."""
    return str(error) if isinstance(error, FedwadError) else type(error).__name__


def answer_together(
    clients: Mapping[str, Client], requests: Mapping[str, TrainRequest]
) -> dict[str, Reply | Failure]:
    """Replies of several clients of this process to trainings of one network, which are worked on
    as one stack.

    Each client admits, releases and records its own, as in `answer`.
    """
    answers: dict[str, Reply | Failure] = {}
    admitted: dict[str, TrainRequest] = {}
    with ExitStack() as turns:
        for name in sorted(requests):  # one order for all threads, so that none waits for the other
            turns.enter_context(clients[name].ledger.turn())
        turns.enter_context(single_threaded_blas())
        for name, request in requests.items():
            try:
                admitted[name] = clients[name]._admitted(request)[0]  # type: ignore[assignment]
            except FedwadError as error:
                answers[name] = failure_of(error)
        try:
            done = train_together(
                list(admitted.values()), [clients[name]._context for name in admitted]
            )
        except FedwadError:  # one of them is to blame: each works by itself and tells
            done = []
        for place, (name, request) in enumerate(admitted.items()):
            execute = (
                partial(done.__getitem__, place)
                if done
                else partial(request.execute, clients[name]._context)
            )
            try:
                answers[name] = clients[name]._released(
                    request, "", execute
                )  # trainings are never the same
            except FedwadError as error:
                answers[name] = failure_of(error)
    return {name: answers[name] for name in requests}


def _digest(data: Dataset) -> str:
    """SHA-256 of the samples, their weights and labels: what the ledger calls the data by."""
    sha = hashlib.sha256(str(data.measure.points.shape).encode())
    sha.update(data.measure.points.data)
    sha.update(data.measure.weights.data)
    if data.labels is not None:
        sha.update(np.ascontiguousarray(data.labels).data)
    return sha.hexdigest()
