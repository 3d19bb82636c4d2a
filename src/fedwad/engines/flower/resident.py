"""A Flower node that runs fedwad and nothing else, and that stays in memory between messages.

A stock SuperNode installs and runs whatever app an analyst submits. This one takes messages from
the SuperLink as a SuperNode does, with the same key and certificate, but never fetches the
submitted app: each letter goes to the one client that was opened at the start, past its policy and
into its ledger. And since the process stays, a round needs no new Python and no new reading of the
data.

    fedwad node flower --superlink hub.example.org:443 --ca ca.crt --key paris \\
        --data paris.csv --policy paris.toml
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from fedwad.engines.flower._control import QUIET, need_flower
from fedwad.engines.flower._ports import host_and_port
from fedwad.errors import FederationError
from fedwad.federation import Client, open_client

if TYPE_CHECKING:
    from fedwad.engines.flower._superlink import SuperLinkClient

__all__ = ["run", "serve"]

_BUSY, _IDLE = (
    0.2,
    2.0,
)  # seconds between two looks for letters: during a run, and when none has come for a while
_RUN = 120.0  # seconds without a letter after which no run is thought to go on
_RETRY = 5.0


def serve(
    client: Client,
    *,
    superlink: str,
    root_certificates: str | Path | None = None,
    key: str | Path,
    patience: float = 120.0,
    stop: Event | None = None,
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Answer letters until `stop` is set.

    Parameters
    ----------
    client : the opened client
    superlink : address of the SuperLink as host:port
    root_certificates : file with the certificate that signed the SuperLink's; the system's own when
        left out
    key : file with this node's private key, whose public half is registered with the SuperLink
    patience : seconds to go on trying when the SuperLink is away or refuses
    stop : set it to end
    on_line : called with a sentence when something happens
    """
    need_flower()
    host_and_port(superlink)
    os.environ.update(QUIET)
    try:
        from fedwad.engines.flower._superlink import LostError, RefusedError, SuperLinkClient
    except ImportError as error:
        missing = (
            f"This version of Flower lacks {error.name or 'parts of 1.41'} that this node needs"
        )
        raise FederationError(
            f"{missing}; run: pip install 'flwr==1.41.*', or use flower-supernode."
        ) from None

    stop, say = stop or Event(), on_line or (lambda _: None)
    deadline = time.monotonic() + patience
    while not stop.is_set():
        try:
            with SuperLinkClient(superlink, root_certificates, key) as link:
                say(f"Connected to {superlink} as '{client.policy.name}'.")
                deadline = float("inf")
                _loop(client, link, stop, say)
        except LostError as error:
            say(f"The SuperLink at {superlink} was lost: {error}")
            deadline = time.monotonic() + patience
        except RefusedError as error:
            if time.monotonic() + _RETRY > deadline:
                raise FederationError(
                    f"The SuperLink at {superlink} does not take this node: {error}"
                ) from None
            say(f"Not connected yet: {error}")
        stop.wait(_RETRY)


def _loop(
    client: Client, superlink: SuperLinkClient, stop: Event, say: Callable[[str], None]
) -> None:
    from fedwad.engines.flower._messages import KIND
    from fedwad.engines.flower.node import NO_LETTER, answer, refusal

    last = float("-inf")
    while not stop.is_set():
        arrived = superlink.receive()
        if arrived is None:
            stop.wait(_BUSY if time.monotonic() < last + _RUN else _IDLE)
            continue
        started = last = time.monotonic()
        message = superlink.fetch(*arrived) if arrived[0].metadata.message_type == KIND else None
        reply = refusal(arrived[0], NO_LETTER) if message is None else answer(client, message)
        seconds = time.monotonic() - started
        sent = superlink.send(reply, seconds)
        say(
            f"Run {reply.metadata.run_id}: one letter, {seconds:.2f} s{'' if sent else ', no longer wanted'}."
        )


def run(
    data: str | Path,
    policy: str | Path,
    ledger: str | Path | None = None,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    *,
    superlink: str,
    root_certificates: str | Path | None = None,
    key: str | Path,
    patience: float = 120.0,
) -> None:
    """Open the data and answer letters until Ctrl-C or SIGTERM, with a sentence on standard error
    now and then."""
    need_flower()
    host_and_port(superlink)
    stop = Event()
    client = open_client(data, policy, ledger, label_column, drop)
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
        on_line=say,
    )
    say("Stopped; nothing is answered any more.")
