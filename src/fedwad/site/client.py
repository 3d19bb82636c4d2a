"""A client holds data and answers requests about them; a node opens one beside its data."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedwad._blas import single_threaded_blas
from fedwad._checks import format_value
from fedwad._words import to_printable
from fedwad.errors import FederationError, FedwadError, InputError, PolicyError
from fedwad.messages.codec import (
    Envelope,
    digest,
    kind_of,
    pack,
    payload_bytes,
    plain,
    unpack,
)
from fedwad.messages.columns import schema_digest
from fedwad.messages.message import (
    MAX_BUNDLE,
    NON_QUERY_KINDS,
    Bundle,
    BundleReply,
    Failure,
    Reply,
    Request,
    failure_of,
    without_run,
)
from fedwad.site import answers
from fedwad.site.columns import Columns
from fedwad.site.context import ClientContext
from fedwad.site.data import Dataset
from fedwad.site.policy import Policy
from fedwad.site.raw import RawTable, as_dataset
from fedwad.site.reading import read_raw
from fedwad.site.store import Entry, FileLedger, Ledger, describe_reply, guarantee_warning
from fedwad.tables import Schema, is_database

_log = logging.getLogger("fedwad.client")


@dataclass(frozen=True, eq=False)
class AdmittedRequest:
    """A request that may be executed.

    `key` is the digest by which the ledger recognises it, empty if the next reply may differ.
    `reply_key` is the one under which its reply is stored, if it may be sent again. `context` has
    the data, encoded by the schema of the request. `first_entry` is the ledger's entry of the first
    time that it was executed, and `sent_reply` the packed reply that was sent then, if the site
    still has it.
    """

    request: Request
    kind: str
    key: str
    reply_key: str
    context: ClientContext
    first_entry: Entry | None
    sent_reply: bytes | None


@dataclass(frozen=True)
class SiteFile:
    """The file, or the folder of files, from which a node reads its data.

    `first` is its stamp before that, so that a change while a large file is read is noticed.
    """

    path: Path
    policy: Policy
    columns: Columns
    first: tuple[tuple[str, int, int], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.stamp())

    def stamp(self) -> tuple[tuple[str, int, int], ...]:
        """Name, time of the last change and size of each file."""
        files = sorted(self.path.rglob("*")) if self.path.is_dir() else [self.path]
        found = [(str(file), file.stat()) for file in files if file.is_file()]
        return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)

    def read(self) -> Dataset | RawTable:
        return load_site_data(self.path, self.policy, self.columns)


class Client:
    """The data of one site behind its policy and its ledger.

    `answer` is the only way to anything computed from the data. It checks the request against the
    policy, then the reply, and records every request in the ledger, whatever its outcome. `respond`
    does the same for packed messages. If the policy was read from `policy_file`, a change of that
    file holds from the next request on. If the data were read from a `source`, nothing is answered
    once it holds other data.
    """

    def __init__(
        self,
        data: Dataset | RawTable,
        policy: Policy | None = None,
        ledger: Ledger | None = None,
        policy_file: Path | None = None,
        source: SiteFile | None = None,
    ) -> None:
        if not isinstance(data, Dataset | RawTable):
            raise InputError(
                f"data is {format_value(data)}; give fedwad.federation.read(...) of it.",
                "bad-option",
            )
        self.ledger = Ledger() if ledger is None else ledger
        self._source, self._stamp = source, None if source is None else source.first
        self._stamps: dict[object, str] = {}  # the digest of what the source held by another stamp
        self._policy_file = policy_file
        self._policy_text: bytes | None = None  # what the file held when it was last applied
        self._context = ClientContext(data, Policy() if policy is None else policy, self.ledger)
        self._check_data_version()

    @property
    def data(self) -> Dataset:
        """The data in canonical order, for the site itself; PolicyError for a table, which each
        request encodes by its own schema."""
        return self._context.data

    def dataset(self, schema: str = "") -> Dataset:
        """The data, for the site itself, with a table encoded by the text of a schema."""
        with self.ledger.lock():
            return self._context.for_schema(schema).data

    @property
    def table(self) -> RawTable | None:
        """The table that requests encode, for the site itself; None for other data."""
        return self._context.table

    @property
    def _features_digest(self) -> str:
        """A digest of the site's own schema, or else of the names of its features; empty without
        names, and for a table, which is encoded by the schema of a request."""
        if self._context.table is not None or self._context.data.features is None:
            return ""
        data = self._context.data
        names = repr(data.features) if data.schema is None else schema_digest(data.schema)
        return _sha256(names.encode())[:16]

    def with_copied_ledger(self) -> Client:
        """A client with the same data and policy and a copy of its ledger in memory: it answers as
        this one would, and nothing of it is recorded here."""
        context = self._context
        data = context.data if context.table is None else context.table
        return Client(data, self.policy, self.ledger.copy())

    @property
    def policy(self) -> Policy:
        return self._context.policy

    @property
    def fingerprint(self) -> str:
        """A string that changes when the data or the names of their features change.

        It never leaves the site.
        """
        return f"{self._context.digest} {self._features_digest}"

    @property
    def data_version(self) -> str:
        """The digest by which the ledger names the data."""
        return self._context.digest

    def respond(self, message: bytes, requester: str = "", purpose: str = "") -> bytes:
        """The answer to a packed message, packed; the ledger names who asked, and what for.

        An error becomes a Failure whose sentence fedwad wrote; it holds no traceback and no data.
        """
        request_id = ""
        answer: Reply | BundleReply | Failure
        try:
            try:
                envelope = unpack(message)
                request_id, request = envelope.request_id, envelope.content
                if not isinstance(request, Request | Bundle):
                    raise InputError("A message came that is no request.", "bad-request")
            except FedwadError:
                with self.ledger.lock(requester, purpose):
                    self.ledger.record("unreadable", "refused")
                raise
            ask: Any = self.answer_all if isinstance(request, Bundle) else self.answer
            answer = ask(request, requester, purpose)
        except FedwadError as error:
            answer = failure_of(error)
        except Exception:
            _log.exception("a request failed")  # this log stays with the client
            answer = Failure("internal", "The site could not execute this request; see its log.")
        features = "" if isinstance(answer, Failure) else self._features_digest
        return pack(Envelope(answer, request_id, features))

    def answer_all(
        self, bundle: Bundle, requester: str = "", purpose: str = "", most_seconds: float = 600.0
    ) -> BundleReply:
        """Answer each request of a bundle with a reply or a failure.

        After ten minutes of work, as long as a server waits, the remaining requests are not
        executed.
        """
        if len(bundle.requests) > MAX_BUNDLE:
            raise FederationError(
                f"A bundle of {len(bundle.requests)} requests came; send up to {MAX_BUNDLE}.",
                "too-large",
            )
        end = time.monotonic() + most_seconds
        replies: list[Reply | Failure] = []
        for request in bundle.requests:
            if bundle.schema and isinstance(request, Request) and not request.schema:
                request = replace(request, schema=bundle.schema)
            if time.monotonic() > end:
                late = "the bundle took too long; send the rest again, in smaller bundles."
                replies.append(Failure("busy", late))
                continue
            try:
                replies.append(self.answer(request, requester, purpose))
            except FedwadError as error:
                replies.append(failure_of(error))
        return BundleReply(tuple(replies))

    def answer(self, request: Request, requester: str = "", purpose: str = "") -> Reply:
        """Reply to one request, or raise the error that refuses it. Threads take turns.

        A request that was answered before gets the same reply again, and nothing is computed.
        """
        started, outcome = time.monotonic(), "failed"
        try:
            with self.ledger.lock(requester, purpose), single_threaded_blas():
                admitted = self._admit(request)
                if (sent := admitted.sent_reply) is not None:  # it reveals nothing new
                    outcome, first, reply = "repeated", admitted.first_entry, unpack(sent).content
                    fewest = 0 if first is None else first.min_cell_size
                    return self._send(admitted, reply, sent, fewest, first is not None)
                try:
                    if type(admitted.request).uses_budget:  # on disk before the noise is drawn
                        admitted.context.spend(admitted.request.needs().mu)
                    reply, samples = answers.execute(admitted.request, admitted.context)
                    outcome = "answered"
                    return self._check_and_record(admitted, reply, samples)
                except BaseException as error:
                    raise self._record_withheld(admitted, error) from None
        except FedwadError as error:
            outcome = error.code
            raise
        finally:
            seconds, kind = time.monotonic() - started, kind_of(request)
            extra = {"run": requester, "kind": kind, "outcome": outcome, "seconds": seconds}
            fields = to_printable(requester) or "a request", kind, outcome, seconds
            _log.info("%s: %s, %s in %.3f s", *fields, extra=extra)

    def _check_data_version(self) -> None:
        """Raise FederationError if the ledger is about a different version of the data, or if they
        changed since they were read.

        Whoever compared replies about two versions would learn about the records that joined or
        left.
        """
        if self._source is not None and (stamp := self._source.stamp()) != self._stamp:
            found = self._stamps.get(stamp, "")  # each version is read once
            if not found:
                try:
                    found = ClientContext(self._source.read(), self.policy, Ledger()).digest
                    self._stamps = {stamp: found}
                except (FedwadError, OSError) as error:  # its text has a path of this site
                    _log.warning("%s", error)
            if found != self._context.digest:
                raise FederationError(
                    "The data changed under this site's running node; its operator restarts the"
                    " node, and decides with `fedwad node accept-data` whether they are asked"
                    " about.",
                    "changed-data",
                )
            self._stamp = stamp
        if self.ledger.totals.data_version not in ("", self._context.digest):
            raise FederationError(
                "The data changed since the first query in this site's ledger; its operator decides"
                " with `fedwad node accept-data` whether they are asked about.",
                "changed-data",
            )

    def problem(self) -> str:
        """The sentence with which every request would be refused now; empty if there is none.

        Nothing is locked, so a request that takes long does not delay the answer.
        """
        try:
            changed = self._changed_policy()
            check_open(self.policy if changed is None else changed[0], self.ledger)
            self._check_data_version()
        except FedwadError as error:
            return str(error)
        return ""

    def _changed_policy(self) -> tuple[Policy, bytes] | None:
        """The policy in its file and the file's bytes, unless it is the one that was applied."""
        if self._policy_file is None:
            return None
        try:
            text = self._policy_file.read_bytes()
            if text == self._policy_text:
                return None
            policy = Policy.load(self._policy_file)
            self._context.check_policy(policy)
        except (InputError, OSError) as error:  # its text has a path of this site
            _log.warning("%s", error)
            raise PolicyError(
                "The policy of this site was changed and cannot be used as it is; its operator"
                " finds why in its log.",
                "changed-policy",
            ) from None
        return policy, text

    def _request_key(self, request: Request) -> str:
        """SHA-256 of everything that the reply depends on: the request without the name of its run,
        the policy and the data.

        Empty if the reply depends on anything else, such as chance or earlier training.
        """
        if not type(request).repeatable:
            return ""
        context = self._context
        parts = digest(without_run(request)), context.policy_digest, context.digest
        return _sha256(" ".join(parts).encode())

    def _release_key(self, request: Request) -> str:
        """SHA-256 of the request and the data. The policy is left out: under any policy a release
        that was paid for may be sent again."""
        return _sha256(pack(Envelope(request)) + self._context.digest.encode())

    def _sent_reply(self, request: Request, key: str, first_entry: Entry | None) -> bytes | None:
        """The reply that was stored for this request under this key, packed, if it is undamaged."""
        packed = self.ledger.stored_reply(key)
        if packed is None or not type(request).uses_budget:
            same = packed and first_entry and _sha256(packed) == first_entry.digest
            return packed if same else None
        try:
            fits = type(unpack(packed).content) is type(request).reply_type
        except FedwadError:
            return None
        return packed if fits else None

    def _admit(self, request: Request) -> AdmittedRequest:
        """Check a request against the policy; a refusal is recorded and raised.

        A request whose reply was withheld is not executed again, since it would be withheld again.
        A schema that the site does not take counts as a query, like a reply that is withheld.
        """
        kind, context, key = kind_of(request), self._context, ""
        try:
            changed = self._changed_policy()
            if changed is not None:
                policy, self._policy_text = changed
                context.set_policy(policy)
            check_open(self.policy, self.ledger)
            self._check_data_version()
            request = plain(request)
            request.check_values()
            key = self._request_key(request)
            first_entry = self.ledger.first_entry(key)
            reply_key = self._release_key(request) if type(request).uses_budget else key
            sent_reply = self._sent_reply(request, reply_key, first_entry)
            needs = request.needs()
            # A repeat is no query: it passes however many there were, unless max_queries is 0.
            is_new = first_entry is None and sent_reply is None
            context.policy.admit(kind, needs, self.ledger.queries if is_new else 0)
            if kind == "evaluate":
                context.policy.check_distinct(kind, self.ledger.totals.queries.get(kind, 0))
            if first_entry is not None and first_entry.outcome == "withheld":
                raise PolicyError(first_entry.reason, "withheld")
            if type(request).needs_encoding:
                context = context.for_schema(request.schema)
            answers.check_shape(request, context)
            if needs.mu and sent_reply is None:
                context.check_budget(needs.mu)
                # Room for four moments, classes (or 64 cells) and a header.
                d, cells = context.data.measure.dimension, len(getattr(request, "labels", ()))
                size = 8 * (4 * d * (d + 1) + 2 * max(cells, 64) * (d + 1)) + 8192
                self.ledger.reserve(reply_key, size)
                # Meanwhile other processes may have answered.
                context.policy.admit(kind, needs, self.ledger.queries)
        except BaseException as error:
            refused_schema = getattr(error, "code", "") == "schema-refused"
            self.ledger.record(
                kind,
                "withheld" if refused_schema else "refused",
                data=context.digest,
                request=key if refused_schema else "",
                reason=_reason(error),
            )
            raise
        return AdmittedRequest(request, kind, key, reply_key, context, first_entry, sent_reply)

    def _send(
        self,
        admitted: AdmittedRequest,
        reply: Reply,
        packed: bytes,
        samples: int,
        again: bool,
    ) -> Reply:
        """Record a reply and return it. The same one `again` is no query."""
        values, content = describe_reply(reply)
        if admitted.request.needs().subset:
            content = f"about random rows; {content}"
        self.ledger.record(
            admitted.kind,
            "repeated" if again else "answered",
            payload_bytes(reply),
            samples,
            _sha256(packed),
            self._context.digest,
            request=admitted.key,
            values=values,
            content=content,
        )
        return reply

    def _record_withheld(self, admitted: AdmittedRequest, error: BaseException) -> BaseException:
        """Record an error that withholds a reply after the data were read, which counts as a query,
        and return the one that may leave."""
        # Errors of these two types are about the budget and the ledger, not about the data.
        without_data = isinstance(error, PolicyError | FederationError)
        if self.policy.is_private and isinstance(error, Exception) and not without_data:
            _log.exception("a private release failed")  # this log stays with the client
            error = FederationError(
                "The site could not make this release; its operator finds why in its log.",
                "no-release",
            )
        # With its key in the ledger, the same request is refused from now on.
        lasting = admitted.first_entry is None and isinstance(error, PolicyError)
        self.ledger.record(
            admitted.kind,
            "withheld",
            data=self._context.digest,
            request=admitted.key if lasting else "",
            reason=_reason(error),
        )
        return error

    def _check_and_record(
        self, admitted: AdmittedRequest, reply: Reply, samples: int | None
    ) -> Reply:
        """Check a reply against the policy, record it and return it.

        The same reply to the same request reveals nothing new: it is "repeated" and no query.
        """
        policy, first, packed = self._context.policy, admitted.first_entry, pack(Envelope(reply))
        reply_digest = _sha256(packed)
        if samples is not None:
            policy.check_cell_size(samples)
            if not self.ledger.was_sent(admitted.kind, reply_digest):
                policy.check_distinct(
                    admitted.kind, self.ledger.totals.distinct.get(admitted.kind, 0)
                )
        repeated = first is not None and first.digest == reply_digest
        is_query = admitted.kind not in NON_QUERY_KINDS
        if first is not None and not repeated and is_query:  # admitted as a repeat, and is none
            policy.check_queries(self.ledger.queries)
        if admitted.reply_key:
            is_release = type(admitted.request).uses_budget
            self.ledger.store_reply(admitted.reply_key, packed, is_release=is_release)
        return self._send(admitted, reply, packed, samples or 0, repeated)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _reason(error: BaseException) -> str:
    """The sentence of a fedwad error; of others only the type, since their text may hold data."""
    return str(error) if isinstance(error, FedwadError) else type(error).__name__


def open_client(
    data: str | Path,
    policy: str | Path,
    ledger: str | Path | None = None,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    missing: str | Iterable[str] = (),
    schema: str | Path | None = "auto",
    **more: Any,
) -> Client:
    """A client for the data in a file or a database, with its policy and its ledger in two files.

    Parameters
    ----------
    data : path of a .npy, .npz, .csv, .tsv, .parquet or .xlsx file, or of a folder whose files are
        one table, or the address of a database
    policy : path of a TOML file, see `Policy.load`
    ledger : path of the ledger; by default beside the policy: `paris.toml` has
        `paris.ledger.sqlite`
    label_column : column of a table that is a label and not a feature
    drop : column or columns of a table that are not read
    missing : text or texts that stand for a missing value, in all columns or in one ("chol=0")
    schema : path of the site's own schema file, which is trusted; "none" for columns of numbers as
        they are. By default a table is encoded by the schema that a request brings, if the policy
        allows "columns" and the schema follows from these, and is otherwise read as numbers
    more : unit, where, keep, category, number, weights, query, header, encoding, sheet and
        max_rows of `fedwad.local`
    """
    loaded_policy = Policy.load(policy)
    path = ledger_beside(Path(policy)) if ledger is None else Path(ledger)
    columns = Columns.of(label_column, drop, missing, schema, **more)
    source = None if is_database(data) else SiteFile(Path(data), loaded_policy, columns)
    site_data = load_site_data(data, loaded_policy, columns)
    file_ledger = FileLedger(path)
    if warning := guarantee_warning(file_ledger, loaded_policy):
        _log.warning("%s", warning)
    return Client(site_data, loaded_policy, file_ledger, Path(policy), source)


def check_open(policy: Policy, ledger: Ledger) -> None:
    """Raise PolicyError if the operator stopped all answers, or if the policy expired."""
    if ledger.totals.revoked:
        raise PolicyError("The operator of this site has stopped all its answers.", "revoked")
    policy.check_date()


def ledger_beside(policy: Path) -> Path:
    """The path of the ledger of a node with this policy: `paris.toml` has `paris.ledger.sqlite`."""
    return policy.with_suffix(".ledger.sqlite")


def accept_data(data: Dataset | RawTable, policy: Policy, ledger: Ledger) -> bool:
    """Let these data be asked about under a ledger with replies about an earlier version.

    Return whether they are a new version. Whoever has replies about both versions can subtract
    them: the difference reveals the sum of the records that joined or left, and a single such
    record exactly.
    """
    digest = ClientContext(data, policy, Ledger()).digest
    with ledger.lock():
        if ledger.totals.data_version in ("", digest):
            return False
        ledger.record("data", "accepted", data=digest)
    return True


def load_site_data(source: str | Path, policy: Policy, columns: Columns) -> Dataset | RawTable:
    """The data of a node: a table if requests bring its schema, otherwise encoded data."""
    data = read_raw(source, columns=replace(columns, elementwise=policy.is_private))
    takes_schema = columns.schema == "auto" and "columns" in policy.allow
    if isinstance(data, RawTable) and takes_schema:
        return data
    own_schema = columns.schema if isinstance(columns.schema, Schema) else None
    return as_dataset(data, own_schema, policy.min_level_size).sort_features()
