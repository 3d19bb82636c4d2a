"""The app that a node runs: answers one letter a message, out of the site's data and past its
policy.

A site's operator names the files in the node's own configuration, which no analyst can change. A
stock SuperNode takes

    --node-config 'data="/srv/paris.csv" policy="/etc/fedwad/paris.toml"
    ledger="/var/lib/fedwad/paris.jsonl"'

and `label-column` and `drop` (names of columns with commas between), and starts a new process for
each message. It also runs any other app that an analyst submits: `fedwad.engines.flower.resident`
is a node that runs this one only.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedwad.engines.flower._messages import opened, packed, refusal
from fedwad.errors import InputError
from fedwad.federation import Client, Failure, open_client

__all__ = ["CLOSED", "NO_LETTER", "answer", "app", "client_of", "refusal"]

CLOSED = Failure(
    "federation",
    "the node cannot open its data, policy or ledger; its operator finds why in its log.",
)
NO_LETTER = Failure("garbage", "what arrived is no letter.")
_BROKEN = Failure("internal", "the node could not answer; its operator finds why in its log.")
_KEYS = ("data", "policy", "ledger", "label-column", "drop")
_FLOWERS = ("partition-id", "num-partitions")  # a simulation's own

app = ClientApp()


@app.query()
def once(message: Message, context: Context) -> Message:
    """Open the site and answer one letter."""
    try:
        client = client_of(context.node_config)
    except Exception as error:  # its text names paths, and stays on this machine
        print(f"fedwad cannot open this site: {error}", file=sys.stderr, flush=True)
        return refusal(message, CLOSED)
    return answer(client, message)


def answer(client: Client, message: Message) -> Message:
    """The reply to one message. Whatever goes wrong, Flower gets no exception: it would send its
    text away."""
    try:
        letter = opened(message)
        if isinstance(letter, Failure):
            return refusal(message, NO_LETTER)
        return Message(packed(client.respond(letter)), reply_to=message)
    except Exception as error:
        print(
            f"fedwad could not answer: {type(error).__name__}: {error}", file=sys.stderr, flush=True
        )
        return refusal(message, _BROKEN)


def client_of(config: Mapping[str, Any]) -> Client:
    """The client that a node's configuration describes.

    Whatever is not understood is refused: a `drop` that is passed over would make a patient's
    number a feature.
    """
    unknown = sorted(str(key) for key in config if key not in _KEYS + _FLOWERS)
    if unknown:
        raise InputError(
            f"The node's configuration has no use for '{unknown[0]}'; its keys are {', '.join(_KEYS)}."
        )
    words = {key: config[key] for key in _KEYS if key in config}
    for key, word in words.items():
        if not isinstance(word, str):
            raise InputError(
                f"{key} in the node's configuration is {word!r} and no text; put it in quotes."
            )
        if not word.strip():
            raise InputError(
                f"{key} in the node's configuration names nothing; fill it, or leave it out."
            )
    if "data" not in words or "policy" not in words:
        raise InputError(
            "The node's configuration names no data or no policy; give both in --node-config."
        )
    drop = _listed(words["drop"]) if "drop" in words else ()
    return open_client(
        words["data"], words["policy"], words.get("ledger"), words.get("label-column"), drop
    )


def _listed(names: str) -> list[str]:
    """Names with commas between, since Flower's configuration has no lists; in quotes where they
    hold commas."""
    try:
        return next(csv.reader([names], skipinitialspace=True))
    except csv.Error:
        raise InputError(
            f"drop in the node's configuration is {names!r}; give names of columns with commas between, in one line."
        ) from None
