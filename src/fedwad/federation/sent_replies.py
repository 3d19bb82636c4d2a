"""Replies that a client has sent: a request that comes again gets the same reply again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from fedwad.errors import FedwadError
from fedwad.federation.codec import Envelope, digest, pack, unpack
from fedwad.federation.context import ClientContext
from fedwad.federation.ledger import Entry
from fedwad.federation.message import Request, without_run

__all__ = ["ReplyCache", "SentReplies"]

_CACHE_BYTES = 1 << 23
_MAX_CELLS = 64  # assumed for a request that lets the site choose the number of cells


class ReplyCache:
    """The last replies as they were sent, by the key of the request.

    The oldest are removed as soon as all together have more than `limit` bytes.
    """

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._replies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """The reply to the request of this key, if it is still here."""
        return self._replies.get(key)

    def put(self, key: str, reply: bytes) -> None:
        """Store a reply, unless it is larger than the whole cache."""
        if len(reply) > self._limit:
            return
        self._size += len(reply) - len(self._replies.pop(key, b""))
        self._replies[key] = reply
        while self._size > self._limit:
            self._size -= len(self._replies.popitem(last=False)[1])


class SentReplies:
    """The replies of one client as they were sent, packed.

    Private releases are stored for good, beside the ledger. Of other replies the last are cached.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self.cache = ReplyCache()

    def key(self, request: Request) -> str:
        """SHA-256 of everything that the reply depends on: the request without the name of its run,
        the policy and the data.

        Empty if the reply depends on anything else, such as chance or earlier training.
        """
        if not type(request).repeatable:
            return ""
        data = type(request).data_digest(request, self._context)
        parts = f"{digest(without_run(request))} {self._context.policy_digest} {data}"
        return hashlib.sha256(parts.encode()).hexdigest()

    def find(self, request: Request, key: str, first_entry: Entry | None) -> bytes | None:
        """The reply that was sent to this request, if it is still stored.

        `first_entry` is the ledger's entry of the first time that the request was executed.
        """
        if type(request).uses_budget:
            return _if_reply_to(
                request, self._context.ledger.stored_release(self._release_key(request))
            )
        packed = self.cache.get(key)
        if packed is None or first_entry is None:
            return None
        return packed if hashlib.sha256(packed).hexdigest() == first_entry.digest else None

    def reserve(self, request: Request) -> None:
        """Make room for a private release, which has four moments, cells and a header."""
        d = self._context.data.measure.dimension
        cells = max(getattr(request, "cells", 0), _MAX_CELLS)
        size = 8 * (4 * d * (d + 1) + 2 * cells * (d + 1)) + 8192
        self._context.ledger.reserve(self._release_key(request), size)

    def store_release(self, request: Request, packed: bytes) -> None:
        """Store the reply if it is a private release, so that it can be sent again at no cost."""
        if type(request).uses_budget:
            self._context.ledger.store_release(self._release_key(request), packed)

    def _release_key(self, request: Request) -> str:
        """SHA-256 of the request and the data. The policy is left out: under any policy a release
        that was paid for may be sent again."""
        content = pack(Envelope(request)) + self._context.digest.encode()
        return hashlib.sha256(content).hexdigest()


def _if_reply_to(request: Request, packed: bytes | None) -> bytes | None:
    """These bytes if they are a reply to the request; None if they are damaged."""
    try:
        fits = packed is not None and type(unpack(packed).content) is type(request).reply_type
    except FedwadError:
        return None
    return packed if fits else None
