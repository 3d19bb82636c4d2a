"""Health and metrics of a FLARE node, in its main process, which lives as long as the node.

FLARE starts `NodeMonitor` there if the kit's `local` folder has `fedwad__p_resources.json`. The
requests of a job are answered in another process, so they are counted by the ledger, not here. The
data are not opened here: each job reads them anew.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey

from fedwad.engines._operation import Monitor
from fedwad.engines.flare.startup_kit import config_path
from fedwad.engines.site_file import read_site_file
from fedwad.errors import FedwadError, PolicyError
from fedwad.federation import FileLedger, Policy
from fedwad.site.client import check_open, ledger_beside


class _Site:
    """What a site's file names, without its data."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.data, self._policy = settings["data"], settings["policy"]
        self._ledger = settings.get("ledger") or ledger_beside(self._policy)

    @property
    def policy(self) -> Policy:
        return Policy.load(self._policy)

    @cached_property
    def ledger(self) -> FileLedger:
        return FileLedger(self._ledger)

    def problem(self) -> str:
        try:
            check_open(self.policy, self.ledger)
        except PolicyError as error:
            return str(error)
        except FedwadError as error:  # its sentence names paths
            return f"the policy or the ledger cannot be used ({error.code})"
        return ""


class NodeMonitor(FLComponent):  # type: ignore[misc]
    """Answers /healthz and /metrics at a port of this machine; each heartbeat is a contact."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port, self._stack = port, ExitStack()
        self._monitor: Monitor | None = None

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.SYSTEM_START:
            folder = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_site_config_dir()
            site = _Site(read_site_file(config_path(folder, fl_ctx.get_identity_name())))
            self._monitor = Monitor(site, site.data)
            self._monitor.seen()  # the node has registered
            self._stack.enter_context(self._monitor.serve(self._port))
        elif event_type == EventType.AFTER_CLIENT_HEARTBEAT and self._monitor is not None:
            self._monitor.seen()
        elif event_type == EventType.SYSTEM_END:
            self._stack.close()
