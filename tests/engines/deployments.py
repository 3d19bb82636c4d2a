"""Two or three sites behind a real server of either engine, which can be stopped, killed and
started again: for tests of faults and for benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedwad.engines.job import Job


class FlowerSites:
    """A SuperLink and our nodes."""

    def __init__(
        self, folder: Path, data: Mapping[str, Path], policies: Mapping[str, Path]
    ) -> None:
        from .flower_loopback import Loopback

        folder.mkdir()
        self.data, self.policies, self._nodes = data, policies, dict[str, Any]()
        self._link = Loopback(folder, {"FEDWAD_CHECKPOINTS": str(folder)}, database=True)

    def __enter__(self) -> FlowerSites:
        self._link.__enter__()
        self._keys = {name: self._link.key(name) for name in self.data}
        for name in self.data:
            self.start(name)
        return self

    def __exit__(self, *error: Any) -> None:
        self._link.__exit__(None, None, None)

    def start(self, name: str, **options: Any) -> None:
        files = self.data[name], self.policies[name], self._keys[name]
        self._nodes[name] = self._link.site(name, *files, **options)

    def stop(self, name: str) -> None:
        self._nodes[name].end()

    def wait(self, name: str) -> None:
        """Wait until a site has ended."""
        self._nodes[name].wait(300.0)

    def kill(self, name: str) -> None:
        """End the processes of a site at once, as a power cut would."""
        for process in self.processes(name):
            process.kill()
        self._nodes[name].end()

    def processes(self, name: str) -> list[Any]:
        """The processes of a site, the one that stays first."""
        return _with_children(self._nodes[name].pid)

    def server(self) -> list[Any]:
        return _with_children(self._link.superlink.pid)

    def kill_server(self) -> None:
        for process in self.server():
            process.kill()
        self._link.superlink.end()

    def start_server(self) -> None:
        self._link.start_superlink()

    def submit(self, job: Job, **options: Any) -> dict[str, Any]:
        return dict(self._link.submit(job, **options))


class FlareSites:
    """A FLARE server and its sites."""

    def __init__(
        self, folder: Path, data: Mapping[str, Path], policies: Mapping[str, Path]
    ) -> None:
        from .flare_loopback import Loopback

        folder.mkdir()
        self.data, self.policies = data, policies
        self._federation = Loopback(folder, data, policies)
        self.start, self.kill = self._federation.start, self._federation.kill

    def __enter__(self) -> FlareSites:
        self._federation.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._federation.__exit__(None, None, None)

    def processes(self, name: str) -> list[Any]:
        """The processes of a site, those that stay between jobs first."""
        found = self._federation.processes(name)
        return sorted(found, key=lambda one: (one.name() == "bash", one.create_time()))

    def server(self) -> list[Any]:
        return self.processes("localhost")

    def kill_server(self) -> None:
        self.kill("localhost")

    def start_server(self) -> None:
        self.start("localhost")
        self._federation.await_server()
        self._federation.await_sites(self._federation.names)

    def submit(self, job: Job, **options: Any) -> dict[str, Any]:
        from fedwad.engines.flare import submit

        return submit(job, connect=self._federation.connect, **options)


def _with_children(pid: int) -> list[Any]:
    import psutil

    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


SITES: dict[str, Any] = {"flower": FlowerSites, "flare": FlareSites}
