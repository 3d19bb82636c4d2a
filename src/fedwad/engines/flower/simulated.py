"""The app of a simulated node: the files of all sites are on this machine; a node's number tells
which is its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedwad.engines.flower._messages import refusal
from fedwad.engines.flower.node import CLOSED, answer
from fedwad.engines.flower.simulate import SITES
from fedwad.federation import Client, Columns, FileLedger, Policy, read

__all__ = ["app", "client_of"]

app = ClientApp()


@app.query()
def once(message: Message, context: Context) -> Message:
    """Open the simulated site and answer one letter. Where nobody simulates, nothing is listed and
    nothing opened."""
    try:
        sites = json.loads(Path(os.environ[SITES]).read_text(encoding="utf-8"))
        client = client_of(sites[int(context.node_config["partition-id"])])
    except Exception as error:
        print(f"fedwad cannot open this site: {error!r}", file=sys.stderr, flush=True)
        return refusal(message, CLOSED)
    return answer(client, message)


def client_of(site: Mapping[str, Any]) -> Client:
    """The client of one simulated site."""
    rules = Policy.open() if site["policy"] is None else Policy.load(site["policy"])
    dataset = read(
        site["data"], columns=Columns.of(site.get("label_column"), site.get("drop"))
    ).by_name()
    return Client(
        dataset, replace(rules, name=site["name"] or ""), FileLedger(site["ledger"] or "")
    )
