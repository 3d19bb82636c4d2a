"""FLARE's simulator on this machine: every site a file here, every client a process."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedwad.engines.flare._folder import write_folder
from fedwad.engines.flare._names import CONDUCTOR, NODE, OUTCOME, SITE_VARIABLE, TOLD
from fedwad.engines.flare._processes import end_all
from fedwad.engines.flare.site import read, toml
from fedwad.engines.flare.submit import need_flare, raised
from fedwad.engines.job import Job
from fedwad.errors import FederationError, InputError
from fedwad.federation import KINDS, Columns

__all__ = ["simulate"]

_STARTS = 120.0  # seconds that all sites' processes may take to start
_OPEN = {  # the same as Policy.open(), in words of TOML
    "allow": list(KINDS.values()),
    "min_cell_size": 1,
    "max_support": 10**9,
    "exact_interpolant": True,
    "uniform_support": False,
    "max_p": 100.0,
    "classes": True,
    "epsilon": math.inf,
    "models": ["*"],
}


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
    """Run a job in FLARE's simulator, with the files of `data` as sites, and return its result.

    Parameters
    ----------
    job : what to compute, on which of the sites
    data : file of each site; names are letters, digits, hyphens and underscores
    policy : TOML file with the policy of all sites; open when left out, as the data are on this
        machine anyway
    label_column : column of tables that is a label and not a feature
    drop : column or columns of tables that are not read
    timeout, round_timeout, on_line : as for `submit`
    """
    need_flare()
    names = list(job.clients) or list(data)
    unknown = [name for name in names if name not in data]
    if unknown or not names:
        raise InputError(
            f"There is no file for {', '.join(unknown) or 'any site'}; name one for each."
        )
    odd = [
        name
        for name in names
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) or name == "server"
    ]
    if odd:  # FLARE joins names by dots
        raise InputError(
            f"FLARE cannot call a site {odd[0]!r}; take letters, digits, hyphens and underscores."
        )
    columns = Columns.of(label_column, drop)
    with TemporaryDirectory(prefix="fedwad-flare-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        for name in names:
            written = _write_site(folder / "sites", name, data[name], policy, columns)
            read(written).open()  # what cannot be opened is told here, in full
        workspace = folder / "workspace"
        _write_resources(workspace / "local")
        settings = {"timeout": float(round_timeout), "start": _STARTS, "collect": False}
        app = write_folder(folder / f"fedwad-{job.algorithm}", job, names, **settings)
        command = [sys.executable, "-m", "nvflare.cli", "simulator", str(app), "-w", str(workspace)]
        command += ["-c", ",".join(names), "-t", str(len(names))]
        variables = {**os.environ, SITE_VARIABLE: str(folder / "sites" / "{name}.toml")}
        outcome = workspace / "server" / "simulate_job" / OUTCOME
        in_time = _run(command, variables, timeout, on_line, outcome)
        if outcome.is_file():
            return raised(json.loads(outcome.read_text(encoding="utf-8")))
    if not in_time:
        raise FederationError(
            f"No result came within {timeout:g} seconds; the simulation was ended."
        )
    raise FederationError(
        "FLARE's simulator ended without a result; run it with fewer or smaller sites."
    )


def _write_site(
    folder: Path, name: str, data: str | Path, policy: str | Path | None, columns: Columns
) -> Path:
    """The site's own file, and a policy if none is given. JSON's words and lists are TOML's too."""
    whole = Path(data).expanduser().resolve()
    if not whole.is_file():
        raise InputError(f"There is no readable file at {data}; check the path.")
    folder.mkdir(exist_ok=True)
    rules = (
        folder / f"{name}.policy.toml" if policy is None else Path(policy).expanduser().resolve()
    )
    if policy is None:
        rules.write_text(toml({"name": name, **_OPEN}), encoding="utf-8")
    words = {
        "data": str(whole),
        "policy": str(rules),
        "ledger": str(folder / f"{name}.ledger.jsonl"),
    }
    place = folder / f"{name}.toml"
    place.write_text(toml(words | columns.words()), encoding="utf-8")
    return place


def _write_resources(local: Path) -> None:
    """FLARE starts none but listed classes in a job, in the simulator as at a site."""
    local.mkdir(parents=True)
    resources = {
        "format_version": 2,
        "class_allow_list": [CONDUCTOR, NODE],
        "allow_log_streaming": False,
    }
    (local / "resources.json").write_text(json.dumps(resources), encoding="utf-8")


def _run(
    command: list[str],
    variables: Mapping[str, str],
    timeout: float,
    on_line: Callable[[str], None] | None,
    outcome: Path,
) -> bool:
    """Run the simulator until the outcome is there, passing on the lines about progress; whether it
    ended in time."""
    process = subprocess.Popen(  # noqa: S603 - words of our own, no shell
        command,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = threading.Event()

    def end_late() -> None:
        late.set()
        end_all(process)

    clock = threading.Timer(timeout, end_late)
    clock.start()
    try:
        if process.stdout is not None:
            with process.stdout as out:
                for line in out:
                    if TOLD in line and on_line is not None:
                        on_line(line.rstrip().partition(TOLD)[2])
                    if outcome.exists():  # FLARE takes seconds more to say good-bye
                        break
    finally:
        clock.cancel()
        end_all(process)
    return not late.is_set()
