"""The ClientApp of a simulated node. The files of all sites are on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedwad.engines.flower._messages import failure_reply
from fedwad.engines.flower._simulation_folder import SimulationFolder
from fedwad.engines.flower.client_app import CANNOT_OPEN, answer
from fedwad.errors import FederationError
from fedwad.federation import Client, Columns, FileLedger, Policy, load_site_data

__all__ = ["app", "client_of"]

app = ClientApp()


@app.query()
def handle(message: Message, context: Context) -> Message:
    """Answer one message as the site with the number of this node.

    Outside a simulation this app opens no file.
    """
    try:
        folder = SimulationFolder.current()
        if folder is None:
            raise FederationError("This node is not part of a simulation; use the other app.")
        client = _kept_client(folder.sites()[int(context.node_config["partition-id"])])
    except Exception as error:
        print(f"fedwad cannot open this site: {error!r}", file=sys.stderr, flush=True)
        return failure_reply(message, CANNOT_OPEN)
    return answer(client, message)


def client_of(site: Mapping[str, Any]) -> Client:
    """Open the client of one simulated site."""
    policy = Policy.open() if site["policy"] is None else Policy.load(site["policy"])
    columns = Columns.of(
        site.get("label_column"),
        site.get("drop"),
        site.get("missing"),
        site.get("schema", "auto"),
    )
    held = load_site_data(site["data"], policy, columns)
    return Client(held, replace(policy, name=site["name"]), FileLedger(site["ledger"]))


def _kept_client(site: Mapping[str, Any]) -> Client:
    """The client of one simulated site, which this process opens again only if the data change."""
    return _opened_once(json.dumps(site), Path(site["data"]).stat().st_mtime_ns)


@lru_cache(maxsize=128)
def _opened_once(site: str, modified: int) -> Client:  # noqa: ARG001 - a part of the cache's key
    return client_of(json.loads(site))
