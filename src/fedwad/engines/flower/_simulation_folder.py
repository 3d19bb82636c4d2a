"""The folder that `simulate` shares with the processes of a simulation on this machine."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedwad._files import write_atomically

__all__ = ["FOLDER_VARIABLE", "SimulationFolder"]

#: The environment variable that names the folder in the processes of a simulation.
FOLDER_VARIABLE = "FEDWAD_FLOWER_SIMULATION"


class SimulationFolder:
    """The sites, the settings, the progress and the outcome of a simulation, as files."""

    def __init__(self, path: Path) -> None:
        self._sites = path / "sites.json"
        self._settings = path / "settings.json"
        self._progress = path / "progress.txt"
        self._outcome = path / "outcome.json"
        self._lines_read = 0

    @classmethod
    def current(cls) -> SimulationFolder | None:
        """The folder of the simulation of which this process is a part; None outside of one."""
        path = os.environ.get(FOLDER_VARIABLE)
        return cls(Path(path)) if path else None

    def write_sites(self, sites: list[dict[str, Any]]) -> None:
        self._sites.write_text(json.dumps(sites), encoding="utf-8")

    def sites(self) -> list[dict[str, Any]]:
        """The settings of all sites; a process reads the file once."""
        return list(_read_sites(self._sites, self._sites.stat().st_mtime_ns))

    def write_settings(self, settings: dict[str, str]) -> None:
        self._settings.write_text(json.dumps(settings), encoding="utf-8")

    def settings(self) -> dict[str, str]:
        """The settings of the run that are too long to be copied for each of many nodes."""
        return dict(json.loads(self._settings.read_text(encoding="utf-8")))

    def progress(self, sentence: str) -> None:
        """Report a sentence about the progress of the run."""
        with self._progress.open("a", encoding="utf-8") as file:
            file.write(" ".join(sentence.split()) + "\n")

    def finish(self, outcome: dict[str, Any]) -> None:
        """Report the outcome of the run."""
        write_atomically(self._outcome, json.dumps(outcome))

    def new_progress(self) -> list[str]:
        """The sentences that were reported since the last call."""
        if not self._progress.exists():
            return []
        *lines, _ = self._progress.read_text(encoding="utf-8").split("\n")
        new, self._lines_read = lines[self._lines_read :], len(lines)
        return new

    def outcome(self) -> dict[str, Any] | None:
        """The outcome of the run; None if it has not been reported."""
        if not self._outcome.exists():
            return None
        return dict(json.loads(self._outcome.read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _read_sites(path: Path, modified: int) -> list[dict[str, Any]]:  # noqa: ARG001
    """Read the settings of all sites, again if the file was `modified` at another time."""
    return list(json.loads(path.read_text(encoding="utf-8")))
