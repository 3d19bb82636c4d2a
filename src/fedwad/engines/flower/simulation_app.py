"""The ClientApp of a simulated node. In a simulation the files of all sites are on one machine."""

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

from fedwad.engines._site_files import parse_columns
from fedwad.engines.flower._messages import failure_reply
from fedwad.engines.flower._simulation_folder import SimulationFolder
from fedwad.engines.flower.client_app import CANNOT_OPEN, answer
from fedwad.errors import FederationError
from fedwad.federation import Client, FileLedger, Policy, load_site_data

__all__ = ["app", "open_site"]

_CACHED_BYTES = 1 << 29  # most bytes of data files whose clients one process keeps

app = ClientApp()


@app.query()
def handle(message: Message, context: Context) -> Message:
    """Answer one message for the site whose number is this node's partition-id.

    Outside a simulation this app opens no file.
    """
    try:
        folder = SimulationFolder.current()
        if folder is None:
            raise FederationError(
                "This node is not part of a simulation; use fedwad.engines.flower.client_app."
            )
        client = _clients.get(folder.sites()[int(context.node_config["partition-id"])])
    except Exception as error:
        print(f"fedwad cannot open this site: {error!r}", file=sys.stderr, flush=True)
        return failure_reply(message, CANNOT_OPEN)
    return answer(client, message)


def open_site(site: Mapping[str, Any]) -> Client:
    """Open the client of one simulated site, from its settings in the `SimulationFolder`."""
    columns = dict(site)
    name, data_path, ledger_path, policy_path = (
        columns.pop(key) for key in ("name", "data", "ledger", "policy")
    )
    policy = Policy.open() if policy_path is None else Policy.load(policy_path)
    data = load_site_data(data_path, policy, parse_columns(columns))
    return Client(data, replace(policy, name=name), FileLedger(ledger_path))


class _ClientCache:
    """Clients that this process has opened.

    The key of a client is the settings of its site, and the modification time and size of its data
    file; so a file that changed is read again. When the files together exceed `limit` bytes, the
    clients that were not used for the longest time are dropped.
    """

    def __init__(self, limit: int = _CACHED_BYTES) -> None:
        self._limit, self._total = limit, 0  # bytes
        self._clients: OrderedDict[tuple[str, int, int], Client] = OrderedDict()

    def get(self, site: Mapping[str, Any]) -> Client:
        """The client of one simulated site."""
        stat = Path(site["data"]).stat()
        key = (json.dumps(site), stat.st_mtime_ns, stat.st_size)
        if key not in self._clients:
            self._clients[key] = open_site(site)
            self._total += stat.st_size
            while self._total > self._limit and len(self._clients) > 1:
                (_, _, dropped_size), _ = self._clients.popitem(last=False)
                self._total -= dropped_size
        self._clients.move_to_end(key)
        return self._clients[key]


_clients = _ClientCache()
