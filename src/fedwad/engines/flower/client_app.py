"""The ClientApp that a node runs: it answers one message from the site's data, within its policy.

The operator of a site names the files in the node's own configuration, which no analyst can change.
A stock SuperNode takes

    --node-config 'data="/srv/paris.csv" policy="/etc/fedwad/paris.toml"
    ledger="/var/lib/fedwad/paris.jsonl"'

and also `label-column`, `drop` (names of columns, separated by commas), `missing` (texts, separated
by commas) and `schema` (the path of the site's own schema, or none). It starts a new process
for each message, and it runs any other app that an analyst submits. The node in
`fedwad.engines.flower.supernode` runs this app only.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedwad.engines.flower._messages import failure_reply, unwrap, wrap
from fedwad.errors import InputError
from fedwad.federation import Client, Failure, open_client

__all__ = ["CANNOT_OPEN", "NOT_A_MESSAGE", "answer", "app", "open_site"]

CANNOT_OPEN = Failure(
    "federation",
    "the node cannot open its data, policy or ledger; its operator finds the reason in its log.",
)
NOT_A_MESSAGE = Failure(
    "invalid_request", "the node received something that is not a fedwad message."
)
_INTERNAL = Failure(
    "internal", "the node could not answer; its operator finds the reason in its log."
)
_KEYS = ("data", "policy", "ledger", "label-column", "drop", "missing", "schema")
_SIMULATION_KEYS = ("partition-id", "num-partitions")

app = ClientApp()


@app.query()
def handle(message: Message, context: Context) -> Message:
    """Open the client and answer one message."""
    try:
        client = open_site(context.node_config)
    except Exception as error:  # its text names paths and stays on this machine
        print(f"fedwad cannot open this site: {error}", file=sys.stderr, flush=True)
        return failure_reply(message, CANNOT_OPEN)
    return answer(client, message)


def answer(client: Client, message: Message) -> Message:
    """The reply to one message. It raises nothing, because Flower sends the text of exceptions."""
    try:
        payload = unwrap(message)
        if isinstance(payload, Failure):
            return failure_reply(message, NOT_A_MESSAGE)
        return Message(wrap(client.respond(payload)), reply_to=message)
    except Exception as error:
        print(
            f"fedwad could not answer: {type(error).__name__}: {error}", file=sys.stderr, flush=True
        )
        return failure_reply(message, _INTERNAL)


def open_site(config: Mapping[str, Any]) -> Client:
    """Open the client that a node's configuration describes.

    Unknown keys are refused: if a misspelt `drop` were ignored, an identifier would become a
    feature.
    """
    unknown = sorted(str(key) for key in config if key not in _KEYS + _SIMULATION_KEYS)
    if unknown:
        raise InputError(
            f"The node's configuration has an unknown key '{unknown[0]}';"
            f" its keys are {', '.join(_KEYS)}."
        )
    values = {key: config[key] for key in _KEYS if key in config}
    _check_texts(values)
    if "data" not in values or "policy" not in values:
        raise InputError(
            "The node's configuration names no data or no policy; give both in --node-config."
        )
    lists = {key: _split_words(key, values[key]) for key in ("drop", "missing") if key in values}
    return open_client(
        values["data"],
        values["policy"],
        values.get("ledger"),
        values.get("label-column"),
        **lists,
        schema=values.get("schema", "auto"),
    )


def _check_texts(values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if not isinstance(value, str):
            raise InputError(
                f"{key} in the node's configuration is {value!r}, not text; put it in quotes."
            )
        if not value.strip():
            raise InputError(
                f"{key} in the node's configuration is empty; give a value or leave it out."
            )


def _split_words(key: str, text: str) -> list[str]:
    """Words separated by commas, since Flower's configuration has no lists; quotes are allowed."""
    try:
        return next(csv.reader([text], skipinitialspace=True))
    except csv.Error:
        raise InputError(
            f"{key} in the node's configuration is {text!r};"
            " give words in one line, separated by commas."
        ) from None
