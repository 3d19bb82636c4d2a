"""The ClientApp of a simulated node. The files of all sites are on this machine."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
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

_CACHED_BYTES = 1 << 29  # of files whose clients one process keeps open

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
        client = _clients.get(folder.sites()[int(context.node_config["partition-id"])])
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


class _ClientCache:
    """Clients that this process has opened, by settings, time and size of the file.

    The oldest make room when the files together exceed a size. A file that changed is read again.
    """

    def __init__(self, limit: int = _CACHED_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._clients: OrderedDict[tuple[str, int, int], Client] = OrderedDict()

    def get(self, site: Mapping[str, Any]) -> Client:
        """The client of one simulated site."""
        stat = Path(site["data"]).stat()
        key = (json.dumps(site), stat.st_mtime_ns, stat.st_size)
        if key not in self._clients:
            self._clients[key] = client_of(site)
            self._size += stat.st_size
            while self._size > self._limit and len(self._clients) > 1:
                (_, _, freed), _ = self._clients.popitem(last=False)
                self._size -= freed
        self._clients.move_to_end(key)
        return self._clients[key]


_clients = _ClientCache()
