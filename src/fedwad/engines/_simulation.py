"""A simulation on this machine: the sites are files, and processes of an engine answer for them."""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from fedwad._files import write_atomically
from fedwad.engines.job import SERVER_MODELS_VARIABLE, Job, need_engine, result_of
from fedwad.engines.site_file import absolute_path, parse_columns
from fedwad.errors import FederationError, InputError
from fedwad.federation import Client, FileLedger, Policy, load_site_data
from fedwad.tables import is_database

#: The environment variable that names the folder in the processes of a simulation.
FOLDER_VARIABLE = "FEDWAD_SIMULATION"


#: Starts an engine during a `with` block for a job, with the seconds that a site may take for one
#: reply. The block gets a function that says whether the run goes on.
Start = Callable[["Simulation", Job, float], AbstractContextManager[Callable[[], bool]]]


def simulator(start: Start, engine: str, *modules: str) -> Callable[..., dict[str, Any]]:
    """The function `simulate` of an engine, which needs these further modules."""

    def simulate(
        job: Job,
        data: Mapping[str, str | Path],
        policy: str | Path | None = None,
        *,
        timeout: float = 3600.0,
        round_timeout: float = 600.0,
        on_progress: Callable[[str], None] | None = None,
        **columns: Any,
    ) -> dict[str, Any]:
        """Run a job in the simulation of an engine, with the files of `data` as sites, and return
        its result.

        Parameters
        ----------
        job : the algorithm, its sites and its options
        data : file of each site
        policy : TOML file with the policy of all sites; when left out everything is allowed, since
            the data are on this machine
        timeout, round_timeout, on_progress : as for `submit`
        columns : label_column, drop, missing and schema of tables, as for `fedwad.local`, but a
            schema only as the path of its file
        """
        need_engine(engine, *modules)
        deadline, say = time.monotonic() + timeout, on_progress or (lambda _: None)
        with TemporaryDirectory(prefix="fedwad-", ignore_cleanup_errors=True) as name:
            simulation = Simulation(Path(name))
            simulation.prepare(job, data, policy, columns)
            # A few processes answer for all sites.
            seconds = round_timeout + 0.5 * len(simulation.names())
            try:
                with start(simulation, job, seconds) as is_running:
                    return result_of(simulation.follow(is_running, deadline, say))
            except TimeoutError:
                raise FederationError(
                    f"No result came within {timeout:g} seconds; the simulation was ended.",
                    "timed-out",
                ) from None

    return simulate


class Simulation:
    """The folder that `simulate` shares with the processes of a simulation.

    It has the sites, the progress and the outcome as files. `variables` are environment
    variables of its processes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._lines_read = folder, 0
        self._sites = folder / "sites.json"
        self._progress, self._outcome = folder / "progress.txt", folder / "outcome.json"
        # Whoever simulates operates the server.
        self.variables = {FOLDER_VARIABLE: str(folder), SERVER_MODELS_VARIABLE: "*"}

    @classmethod
    def current(cls) -> Simulation | None:
        """The simulation of which this process is a part; None outside of one."""
        path = os.environ.get(FOLDER_VARIABLE)
        return cls(Path(path)) if path else None

    def prepare(
        self,
        job: Job,
        data: Mapping[str, str | Path],
        policy: str | Path | None,
        columns: Mapping[str, Any],
    ) -> None:
        """Write the sites of the job, each with a ledger of its own."""
        names = job.clients or tuple(data)
        unknown = [name for name in names if name not in data]
        if unknown or not names:
            raise InputError(
                f"There is no file for {', '.join(unknown) or 'any site'}; give one for each site.",
                "no-such-file",
            )
        shared = parse_columns(columns).to_options()
        shared["policy"] = None if policy is None else absolute_path(policy)
        sites = {
            name: {
                "data": absolute_path(data[name]),
                "ledger": str(self.folder / f"{number}.sqlite"),
                **shared,
            }
            for number, name in enumerate(names)
        }
        for name, site in sites.items():  # in a node, the reason for a failure would be lost
            open_site(name, site)
        self._sites.write_text(json.dumps(sites), encoding="utf-8")

    def names(self) -> list[str]:
        """The names of the sites, in order."""
        return list(_read_sites(self._sites))

    def client(self, site: str | int) -> Client:
        """The client of a site, by its name or number."""
        settings = _read_sites(self._sites)
        name = site if isinstance(site, str) else list(settings)[site]
        return _clients.get(name, settings[name])

    def progress(self, sentence: str) -> None:
        """Report a sentence about the progress of the run."""
        with self._progress.open("a", encoding="utf-8") as file:
            file.write(" ".join(sentence.split()) + "\n")

    def finish(self, outcome: dict[str, Any]) -> None:
        """Report the outcome of the run."""
        write_atomically(self._outcome, json.dumps(outcome))

    def follow(
        self,
        is_running: Callable[[], bool],
        deadline: float,
        on_progress: Callable[[str], None],
        every: float = 5.0,
    ) -> dict[str, Any]:
        """Pass on the progress until there is an outcome; TimeoutError at the deadline.

        `is_running` is asked `every` so many seconds.
        """
        running, asked = True, time.monotonic()
        while time.monotonic() < deadline:
            for sentence in self.new_progress():
                on_progress(sentence)
            if self._outcome.exists():
                return dict(json.loads(self._outcome.read_text(encoding="utf-8")))
            if not running:
                raise FederationError(
                    "The simulation ended without a result; try fewer or smaller sites.",
                    "run-failed",
                )
            if time.monotonic() >= asked + every:
                running, asked = is_running(), time.monotonic()
            time.sleep(0.1)
        raise TimeoutError

    def new_progress(self) -> list[str]:
        """The sentences that were reported since the last call."""
        if not self._progress.exists():
            return []
        *lines, _ = self._progress.read_text(encoding="utf-8").split("\n")
        new, self._lines_read = lines[self._lines_read :], len(lines)
        return new


@lru_cache(maxsize=1)
def _read_sites(path: Path) -> dict[str, Any]:
    """The settings of all sites, which are read once: there may be thousands."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def open_site(name: str, settings: Mapping[str, Any]) -> Client:
    """Open the client of one simulated site."""
    columns = dict(settings)
    data_path, ledger_path, policy_path = (columns.pop(key) for key in ("data", "ledger", "policy"))
    policy = Policy.open() if policy_path is None else Policy.load(policy_path)
    data = load_site_data(data_path, policy, parse_columns(columns))
    return Client(data, replace(policy, name=name), FileLedger(ledger_path))


class _ClientCache:
    """Clients that this process has opened.

    The key of a client is its settings, and the modification time and size of its data file; so a
    file that changed is read again. When the files together exceed `limit` bytes, the clients that
    were not used for the longest time are dropped.
    """

    def __init__(self, limit: int = 1 << 29) -> None:
        self._limit, self._lock = limit, Lock()
        self._clients: OrderedDict[tuple[str, str, int, int], Client] = OrderedDict()

    def get(self, name: str, settings: Mapping[str, Any]) -> Client:
        """The client of one simulated site."""
        stat = None if is_database(settings["data"]) else Path(settings["data"]).stat()
        modified, size = (0, 0) if stat is None else (stat.st_mtime_ns, stat.st_size)
        key = (name, json.dumps(settings), modified, size)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = open_site(name, settings)
                while len(self._clients) > 1 and sum(k[-1] for k in self._clients) > self._limit:
                    self._clients.popitem(last=False)
            self._clients.move_to_end(key)
            return self._clients[key]


_clients = _ClientCache()
