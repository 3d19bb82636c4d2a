"""The app that a node runs: answers one letter a message, out of the site's data and past its policy.

A site's operator names the files in the node's own configuration, which no analyst can change. A stock SuperNode takes

    --node-config 'data="/srv/paris.csv" policy="/etc/fedwad/paris.toml" ledger="/var/lib/fedwad/paris.jsonl"'

and `label-column` and `drop` (names of columns with commas between), and starts a new process for each message. It also
runs any other app that an analyst submits: `fedwad.engines.flower.resident` is a node that runs this one only.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedwad.engines.flower._letters import opened, packed, refusal
from fedwad.errors import InputError
from fedwad.federation import Client, Failure, open_client

__all__ = ["CLOSED", "NO_LETTER", "answer", "app", "client_of", "refusal"]

CLOSED = Failure("federation", "the node cannot open its data, policy or ledger; its operator finds why in its log.")
NO_LETTER = Failure("garbage", "what arrived is no letter.")
_BROKEN = Failure("internal", "the node could not answer; its operator finds why in its log.")

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
    """The reply to one message. Whatever goes wrong, Flower gets no exception: it would send its text away."""
    try:
        letter = opened(message)
        if isinstance(letter, Failure):
            return refusal(message, NO_LETTER)
        return Message(packed(client.respond(letter)), reply_to=message)
    except Exception as error:
        print(f"fedwad could not answer: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return refusal(message, _BROKEN)


def client_of(config: Mapping[str, Any]) -> Client:
    """The client that a node's configuration describes."""
    words = {key: str(config[key]) for key in ("data", "policy", "ledger", "label-column", "drop") if config.get(key)}
    if "data" not in words or "policy" not in words:
        raise InputError("The node's configuration names no data or no policy; give both in --node-config.")
    drop = next(csv.reader([words["drop"]], skipinitialspace=True)) if "drop" in words else ()  # Flower has no lists
    return open_client(words["data"], words["policy"], words.get("ledger"), words.get("label-column"), drop)
