"""A client holds data and answers requests about them."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fedwad._blas import single_threaded_blas
from fedwad.errors import FederationError, FedwadError, InputError, PolicyError
from fedwad.federation._ledger_lines import Entry, Outcome
from fedwad.federation.bundle import MAX_BUNDLE, Bundle, BundleReply
from fedwad.federation.codec import Envelope, VersionError, pack, unpack
from fedwad.federation.context import ClientContext
from fedwad.federation.data import Dataset
from fedwad.federation.failures import Failure, failure_of
from fedwad.federation.ledger import Ledger
from fedwad.federation.message import Reply, Request
from fedwad.federation.policy import Policy
from fedwad.federation.raw import RawTable
from fedwad.federation.replies import payload_bytes
from fedwad.federation.requests import kind_of
from fedwad.federation.sent_replies import SentReplies

__all__ = ["AdmittedRequest", "Client"]

_BUNDLE_SECONDS = 600.0  # of work on one bundle; a server waits no longer
_BUSY = Failure("busy", "the bundle took too long; send the rest again, in smaller bundles.")
_RELEASE_FAILED = "The site could not make this release; its operator finds why in its log."
_log = logging.getLogger("fedwad.client")


@dataclass(frozen=True, eq=False)
class AdmittedRequest:
    """A request that may be executed.

    `key` is the digest by which the ledger recognises it, empty if the next reply may differ.
    `first_entry` is the ledger's entry of the first time that it was executed, and `sent_reply` the
    packed reply that was sent then, if the site still has it.
    """

    request: Request
    kind: str
    key: str
    first_entry: Entry | None
    sent_reply: bytes | None


class Client:
    """The data of one site behind its policy and its ledger.

    `answer` is the only way to anything computed from the data. It checks the request against the
    policy, then the reply, and records every request in the ledger, whatever its outcome. `respond`
    does the same for packed messages.
    """

    def __init__(
        self, data: Dataset | RawTable, policy: Policy | None = None, ledger: Ledger | None = None
    ) -> None:
        self.ledger = Ledger() if ledger is None else ledger
        self._context = ClientContext(data, Policy() if policy is None else policy, self.ledger)
        self._sent_replies = SentReplies(self._context)
        self._check_data_version()

    @property
    def data(self) -> Dataset:
        """The data in canonical order, for the site itself; a server has only `answer`."""
        return self._context.data

    @property
    def table(self) -> RawTable | None:
        """The table that an agreed schema encodes, for the site itself; None for other data."""
        return self._context.table

    @property
    def _features_digest(self) -> str:
        """A digest of the schema, or else of the names of the features; empty without names."""
        data = self._context.data if self._context.is_encoded else None
        if data is None or data.features is None:
            return ""
        names = repr(data.features) if data.schema is None else data.schema.to_toml()
        return hashlib.sha256(names.encode()).hexdigest()[:16]

    def with_empty_ledger(self) -> Client:
        """A client with the same data and policy and a new ledger in memory, for audits and
        checks."""
        context = self._context
        copy = Client(context.data if context.table is None else context.table, self.policy)
        if context.table is not None and context.is_encoded and context.data.schema is not None:
            copy._context.adopt(context.data.schema)
        return copy

    @property
    def policy(self) -> Policy:
        return self._context.policy

    @property
    def fingerprint(self) -> str:
        """A string that changes when the data or the names of their features change.

        It never leaves the site.
        """
        return f"{self._context.digest} {self._features_digest}"

    def respond(self, message: bytes) -> bytes:
        """The answer to a packed message, packed.

        An error becomes a Failure whose sentence fedwad wrote; it holds no traceback and no data.
        """
        request_id = ""
        answer: Reply | BundleReply | Failure
        try:
            envelope = self._unpack(message)
            request_id = envelope.request_id
            request = envelope.content
            answer = (
                self.answer_all(request) if isinstance(request, Bundle) else self.answer(request)
            )
        except VersionError as error:
            answer = Failure("version", str(error))
        except FedwadError as error:
            answer = failure_of(error)
        except Exception:
            _log.exception("a request failed")  # this log stays with the client
            answer = Failure("internal", "The site could not execute this request; see its log.")
        features = "" if isinstance(answer, Failure) else self._features_digest
        return pack(Envelope(answer, request_id, features))

    def _unpack(self, message: bytes) -> Envelope:
        try:
            return unpack(message)
        except FedwadError:
            with self.ledger.lock():
                self.ledger.record("unreadable", "refused")
            raise

    def answer_all(self, bundle: Bundle) -> BundleReply:
        """Answer each request of a bundle with a reply or a failure.

        After ten minutes of work the remaining requests are not executed.
        """
        if len(bundle.requests) > MAX_BUNDLE:
            raise FederationError(
                f"A bundle of {len(bundle.requests)} requests came; send up to {MAX_BUNDLE}."
            )
        end = time.monotonic() + _BUNDLE_SECONDS
        replies: list[Reply | Failure] = []
        for request in bundle.requests:
            if time.monotonic() > end:
                replies.append(_BUSY)
                continue
            try:
                replies.append(self.answer(request))
            except FedwadError as error:
                replies.append(failure_of(error))
        return BundleReply(tuple(replies))

    def answer(self, request: Request) -> Reply:
        """Reply to one request, or raise the error that refuses it. Threads take turns.

        A request that was answered before gets the same reply again, and nothing is computed.
        """
        with self.ledger.lock(), single_threaded_blas():
            admitted = self._admit(request)
            if admitted.sent_reply is not None:
                return self._repeat(admitted, admitted.sent_reply)
            with self._record_if_withheld(admitted):
                reply, samples = type(admitted.request).execute(admitted.request, self._context)
                return self._check_and_record(admitted, reply, samples)

    def _check_data_version(self) -> None:
        """Raise FederationError if the ledger is about a different version of the data.

        Whoever compared replies about two versions would learn about the records that joined or
        left.
        """
        if self.ledger.data_version not in ("", self._context.digest):
            raise FederationError(
                "The data changed since the first query in this site's ledger; its operator decides"
                " with `fedwad node accept-data` whether they are asked about."
            )

    def _admit(self, request: Request) -> AdmittedRequest:
        """Check a request against the policy; a refusal is recorded and raised.

        A request whose reply was withheld is not executed again, since it would be withheld again.
        """
        kind, context = kind_of(request), self._context
        try:
            self._check_data_version()
            request = _validate(request, kind)
            key = self._sent_replies.key(request)
            first_entry = self.ledger.first_entry(key)
            sent_reply = self._sent_replies.find(request, key, first_entry)
            needs = type(request).needs(request)
            # A repeat is no query: it passes however many there were, unless max_queries is 0.
            is_new = first_entry is None and sent_reply is None
            context.policy.admit(kind, needs, self.ledger.queries if is_new else 0)
            if kind == "evaluate":
                context.policy.check_evaluations(self.ledger.queries_of(kind))
            if type(request).needs_encoding:
                context.check_encoded()
            type(request).check_shape(request, context)
            if first_entry is not None and first_entry.outcome == "withheld":
                raise PolicyError(first_entry.reason)
            if needs.mu and sent_reply is None:
                context.accountant.check(needs.mu)
                self._sent_replies.reserve(request)
        except BaseException as error:
            self.ledger.record(kind, "refused", data=context.digest, reason=_reason(error))
            raise
        return AdmittedRequest(request, kind, key, first_entry, sent_reply)

    def _repeat(self, admitted: AdmittedRequest, packed: bytes) -> Reply:
        """Send a reply again. It reveals nothing new, so it is no query."""
        reply: Reply = unpack(packed).content
        first = admitted.first_entry
        outcome: Outcome = "answered" if first is None else "repeated"
        samples = 0 if first is None else first.min_cell_size
        self._record_sent(admitted, outcome, reply, packed, samples)
        return reply

    def _record_sent(
        self, admitted: AdmittedRequest, outcome: Outcome, reply: Reply, packed: bytes, samples: int
    ) -> None:
        self.ledger.record(
            admitted.kind,
            outcome,
            payload_bytes(reply),
            samples,
            hashlib.sha256(packed).hexdigest(),
            self._context.digest,
            request=admitted.key,
        )

    @contextmanager
    def _record_if_withheld(self, admitted: AdmittedRequest) -> Iterator[None]:
        """Record an error that withholds a reply after the data were read; this counts as a
        query."""
        try:
            yield
        except BaseException as error:
            # Errors of these two types are about the budget and the ledger, not about the data.
            without_data = isinstance(error, PolicyError | FederationError)
            if self.policy.is_private and isinstance(error, Exception) and not without_data:
                _log.exception("a private release failed")  # this log stays with the client
                error = FederationError(_RELEASE_FAILED)
            # With its key in the ledger, the same request is refused from now on.
            lasting = admitted.first_entry is None and isinstance(error, PolicyError)
            self.ledger.record(
                admitted.kind,
                "withheld",
                data=self._context.digest,
                request=admitted.key if lasting else "",
                reason=_reason(error),
            )
            raise error from None

    def _check_and_record(
        self, admitted: AdmittedRequest, reply: Reply, samples: int | None
    ) -> Reply:
        """Check a reply against the policy, record it and return it.

        The same reply to the same request reveals nothing new: it is "repeated" and no query.
        """
        policy, first, packed = self._context.policy, admitted.first_entry, pack(Envelope(reply))
        digest = hashlib.sha256(packed).hexdigest()
        if samples is not None:
            policy.check_cell_size(samples)
            policy.check_distinct(admitted.kind, digest, self.ledger.sent_digests(admitted.kind))
        repeated = first is not None and first.digest == digest
        if first is not None and not repeated:  # it was admitted as a repeat, and is none
            policy.check_queries(self.ledger.queries)
        self._sent_replies.store_release(admitted.request, packed)
        outcome: Outcome = "repeated" if repeated else "answered"
        self._record_sent(admitted, outcome, reply, packed, samples or 0)
        if admitted.key:
            self._sent_replies.cache.put(admitted.key, packed)
        return reply


def _validate(request: Request, kind: str) -> Request:
    """A copy of plain values; InputError unless each makes sense by itself."""
    try:
        return type(request).validate(request)
    except FedwadError:
        raise
    except Exception:  # fields that are missing or of a different type
        raise InputError(f"A request of kind '{kind}' has fields that cannot be read.") from None


def _reason(error: BaseException) -> str:
    """The sentence of a fedwad error; of others only the type, since their text may hold data."""
    return str(error) if isinstance(error, FedwadError) else type(error).__name__
