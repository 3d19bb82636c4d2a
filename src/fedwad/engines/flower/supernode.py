"""A Flower node that runs fedwad and nothing else, and that stays in memory between messages.

A stock SuperNode installs and runs whatever app an analyst submits. This node fetches messages from
the SuperLink in the same way, with the same key and certificate, but it never fetches the submitted
app. One client, opened at the start, answers each message within its policy and records it in its
ledger. Because the process stays, a round neither starts Python nor reads the data again.

    fedwad node flower --superlink superlink.example.org:443 --ca ca.crt --key paris \\
        --data paris.csv --policy paris.toml
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

from fedwad.engines._operation import Monitor, log_to_stderr
from fedwad.engines.flower._control import QUIET, parse_address
from fedwad.engines.job import need_engine
from fedwad.errors import FederationError
from fedwad.federation import Client, open_client

if TYPE_CHECKING:
    from fedwad.engines.flower._internals import SuperLinkClient

_log = logging.getLogger("fedwad.node")


def run(
    data: str | Path,
    policy: str | Path,
    ledger: str | Path | None = None,
    *,
    superlink: str,
    root_certificates: str | Path | None = None,
    key: str | Path,
    patience: float = 120.0,
    log_format: Literal["text", "json"] = "text",
    metrics: int | None = None,
    **columns: Any,
) -> None:
    """Open the data and answer messages until Ctrl-C or SIGTERM; the log goes to standard error.

    Parameters
    ----------
    data, policy, ledger, columns : as for `open_client`
    superlink : address of the SuperLink as host:port
    root_certificates : file with the CA certificate of the SuperLink; the system's
        certificates when left out
    key : file with this node's private key, whose public key is registered with the SuperLink
    patience : seconds to keep trying while the SuperLink does not answer or refuses this node
    log_format : lines of the log are texts or JSON objects
    metrics : port of this machine at which /healthz and /metrics are answered
    """
    need_engine("flower")
    parse_address(superlink)
    os.environ.update(QUIET)
    try:
        from fedwad.engines.flower._internals import LostError, RefusedError, SuperLinkClient
    except ImportError as error:
        raise FederationError(
            f"This version of Flower lacks {error.name or 'parts of 1.41'} that this node needs;"
            " run: pip install 'flwr==1.41.*', or use flower-supernode.",
            "wrong-version",
        ) from None

    stop, retry = Event(), 5.0  # seconds between two tries to connect
    for number in (signal.SIGINT, signal.SIGTERM):  # the first process of a container has no others
        signal.signal(number, lambda *_: stop.set())
    client = open_client(data, policy, ledger, **columns)
    log_to_stderr(log_format, client.policy.name)
    monitor = Monitor(client, data)
    deadline = time.monotonic() + patience
    with monitor.serve(metrics):
        while not stop.is_set():
            try:
                with SuperLinkClient(superlink, root_certificates, key) as link:
                    _log.info("Connected to %s as '%s'.", superlink, client.policy.name)
                    deadline = float("inf")
                    _answer_messages(client, link, stop, monitor.seen)
            except LostError as error:
                _log.warning("The connection to the SuperLink at %s was lost: %s", superlink, error)
                deadline = time.monotonic() + patience
            except RefusedError as error:
                if time.monotonic() + retry > deadline:
                    raise FederationError(
                        f"The SuperLink at {superlink} does not accept this node: {error}",
                        "cannot-connect",
                    ) from None
                _log.warning("Not connected yet: %s", error)
            stop.wait(retry)
    _log.info("The node has stopped.")


def _answer_messages(
    client: Client,
    superlink: SuperLinkClient,
    stop: Event,
    on_contact: Callable[[], None],
    pauses: tuple[float, float, float] = (0.02, 0.2, 2.0),
    idle_after: float = 120.0,
) -> None:
    """Poll for messages and answer them, until the connection is lost or `stop` is set.

    `pauses` are the seconds between two polls: the first after a message, the longest during a run,
    and that of a node to which no message came for `idle_after` seconds. The next round's message
    often comes within milliseconds.
    """
    from fedwad.engines.flower._messages import MESSAGE_TYPE, failure_reply
    from fedwad.engines.flower.client_app import NOT_A_MESSAGE, answer

    first, longest, idle = pauses
    last_reply, pause = float("-inf"), first
    while not stop.is_set():
        received = superlink.receive()
        on_contact()
        if received is None:
            stop.wait(pause if time.monotonic() < last_reply + idle_after else idle)
            pause = min(longest, 1.5 * pause)
            continue
        started = time.monotonic()
        header, tree = received
        has_our_type = header.metadata.message_type == MESSAGE_TYPE
        message = superlink.fetch(header, tree) if has_our_type else None
        reply = failure_reply(header, NOT_A_MESSAGE) if message is None else answer(client, message)
        if not superlink.send(reply, time.monotonic() - started):
            _log.warning("Run %s: a reply came too late.", reply.metadata.run_id)
        last_reply, pause = time.monotonic(), first
