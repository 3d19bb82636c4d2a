"""Flower's simulation on this machine: every site a file here, every client an actor of Ray."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedwad.engines.flower._control import Control, environment, need_flower
from fedwad.engines.flower._processes import free_port, running
from fedwad.engines.flower.submit import follow, write_app
from fedwad.engines.job import Job
from fedwad.errors import FederationError, InputError
from fedwad.federation import Columns

__all__ = ["SITES", "simulate"]

#: The variable that names the listing of simulated sites.
SITES = "FEDWAD_FLOWER_SIMULATION"
_PATIENCE = 120.0  # seconds for Ray to start
_APP = "fedwad.engines.flower.simulated:app"


def simulate(
    job: Job,
    data: Mapping[str, str | Path],
    policy: str | Path | None = None,
    *,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
    timeout: float = 3600.0,
    round_timeout: float = 600.0,
    on_line: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run a job in Flower's simulation, with the files of `data` as sites, and return its result.

    Parameters
    ----------
    job : what to compute, on which of the sites
    data : file of each site
    policy : TOML file with the policy of all sites; open when left out, as the data are on this
        machine anyway
    label_column : column of tables that is a label and not a feature
    drop : column or columns of tables that are not read
    timeout, round_timeout, on_line : as for `submit`
    """
    need_flower("ray")
    from fedwad.engines.flower.simulated import client_of

    unknown = [name for name in job.clients if name not in data]
    if unknown or not data:
        raise InputError(
            f"There is no file for {', '.join(unknown) or 'any site'}; name one for each."
        )
    columns = Columns.of(label_column, drop)
    with TemporaryDirectory(prefix="fedwad-flower-") as name:
        folder = Path(name)
        sites = [
            _site(str(site), path, policy, columns, folder / f"{number}.jsonl")
            for number, (site, path) in enumerate(data.items())
        ]
        for site in sites:  # what cannot be opened is told here, in full
            client_of(site)
        listing = folder / "sites.json"
        listing.write_text(json.dumps(sites), encoding="utf-8")
        settings = {"round-timeout": float(round_timeout), "patience": _PATIENCE, "resume": False}
        app = write_app(folder, job, job.clients or tuple(map(str, data)), settings, _APP)
        port = free_port()
        command = [
            "flower-superlink",
            "--insecure",
            "--simulation",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        command += ["--disable-runtime-dependency-installation"]
        variables = environment(folder / "superlink", **{SITES: str(listing)})
        with running(command, variables, folder / "superlink.log", port) as up:
            if not up:
                raise FederationError(
                    "Flower's simulation did not start; see whether flower-superlink runs here."
                )
            control = Control(folder, f"127.0.0.1:{port}", None, insecure=True)
            return follow(
                control,
                app,
                timeout,
                on_line,
                ["--federation-config", f"num-supernodes={len(sites)}"],
            )


def _site(
    name: str, path: str | Path, policy: str | Path | None, columns: Columns, ledger: Path
) -> dict[str, Any]:
    """One site as the simulated app reads it."""
    whole = Path(path).expanduser().resolve()
    rules = None if policy is None else str(Path(policy).expanduser().resolve())
    return {
        "name": name,
        "data": str(whole),
        "policy": rules,
        "ledger": str(ledger),
        **columns.words(),
    }
