"""A Flower node that runs fedwad and nothing else, and that stays in memory between messages.

A stock SuperNode installs and runs whatever app an analyst submits. This node fetches messages from
the SuperLink in the same way, with the same key and certificate, but it never fetches the submitted
app. One client, opened at the start, answers each message within its policy and records it in its
ledger. Because the process stays, a round neither starts Python nor reads the data again.

    fedwad node flower --superlink superlink.example.org:443 --ca ca.crt --key paris \\
        --data paris.csv --policy paris.toml
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from fedwad.engines.flower._connection import parse_address
from fedwad.engines.flower._control import QUIET, need_flower
from fedwad.errors import FederationError
from fedwad.federation import Client, open_client

if TYPE_CHECKING:
    from fedwad.engines.flower._superlink import SuperLinkClient

__all__ = ["run", "serve"]

# Seconds between two polls: at first after a message, later during a run, and otherwise. The next
# round's message often comes within milliseconds.
_FIRST_PAUSE, _LONGEST_PAUSE, _IDLE_PAUSE = 0.02, 0.2, 2.0
_PAUSE_FACTOR = 1.5  # each pause during a run is this much longer than the one before
_IDLE_SECONDS = 120.0  # without a message; after that, the pauses are those of an idle node
_RETRY_SECONDS = 5.0  # between two tries to connect


def serve(
    client: Client,
    *,
    superlink: str,
    root_certificates: str | Path | None = None,
    key: str | Path,
    patience: float = 120.0,
    stop: Event | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> None:
    """Answer messages until `stop` is set.

    Parameters
    ----------
    client : the opened client
    superlink : address of the SuperLink as host:port
    root_certificates : file with the CA certificate of the SuperLink; the system's
        certificates when left out
    key : file with this node's private key, whose public key is registered with the SuperLink
    patience : seconds to keep trying while the SuperLink does not answer or refuses this node
    stop : event that ends the node
    on_progress : called with a sentence about each event
    """
    need_flower()
    parse_address(superlink)
    os.environ.update(QUIET)
    try:
        from fedwad.engines.flower._superlink import LostError, RefusedError, SuperLinkClient
    except ImportError as error:
        raise FederationError(
            f"This version of Flower lacks {error.name or 'parts of 1.41'} that this node needs;"
            " run: pip install 'flwr==1.41.*', or use flower-supernode."
        ) from None

    stop, say = stop or Event(), on_progress or (lambda _: None)
    deadline = time.monotonic() + patience
    while not stop.is_set():
        try:
            with SuperLinkClient(superlink, root_certificates, key) as link:
                say(f"Connected to {superlink} as '{client.policy.name}'.")
                deadline = float("inf")
                _answer_messages(client, link, stop, say)
        except LostError as error:
            say(f"The connection to the SuperLink at {superlink} was lost: {error}")
            deadline = time.monotonic() + patience
        except RefusedError as error:
            if time.monotonic() + _RETRY_SECONDS > deadline:
                raise FederationError(
                    f"The SuperLink at {superlink} does not accept this node: {error}"
                ) from None
            say(f"Not connected yet: {error}")
        stop.wait(_RETRY_SECONDS)


def _answer_messages(
    client: Client, superlink: SuperLinkClient, stop: Event, say: Callable[[str], None]
) -> None:
    from fedwad.engines.flower._messages import MESSAGE_TYPE, failure_reply
    from fedwad.engines.flower.client_app import NOT_A_MESSAGE, answer

    last_reply, pause = float("-inf"), _FIRST_PAUSE
    while not stop.is_set():
        received = superlink.receive()
        if received is None:
            stop.wait(pause if time.monotonic() < last_reply + _IDLE_SECONDS else _IDLE_PAUSE)
            pause = min(_LONGEST_PAUSE, _PAUSE_FACTOR * pause)
            continue
        started = time.monotonic()
        header, tree = received
        has_our_type = header.metadata.message_type == MESSAGE_TYPE
        message = superlink.fetch(header, tree) if has_our_type else None
        reply = failure_reply(header, NOT_A_MESSAGE) if message is None else answer(client, message)
        seconds = time.monotonic() - started
        is_accepted = superlink.send(reply, seconds)
        late = "" if is_accepted else ", too late"
        say(f"Run {reply.metadata.run_id}: answered one message in {seconds:.2f} s{late}.")
        last_reply, pause = time.monotonic(), _FIRST_PAUSE


def run(
    data: str | Path,
    policy: str | Path,
    ledger: str | Path | None = None,
    *,
    superlink: str,
    root_certificates: str | Path | None = None,
    key: str | Path,
    patience: float = 120.0,
    **columns: Any,
) -> None:
    """Open the data and answer messages until Ctrl-C or SIGTERM; reports go to standard error.

    Data, policy, ledger and `columns` are those of `open_client`, other options those of `serve`.
    """
    need_flower()
    parse_address(superlink)
    stop = Event()
    client = open_client(data, policy, ledger, **columns)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    serve(
        client,
        superlink=superlink,
        root_certificates=root_certificates,
        key=key,
        patience=patience,
        stop=stop,
        on_progress=say,
    )
    say("The node has stopped.")
