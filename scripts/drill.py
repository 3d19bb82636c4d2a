"""A fault drill: nodes as processes are killed, stopped and flooded, their disk fills, their ledger
is rotated. Prints what happened, and exits with 1 if it is not what docs/nodes.md says.

It takes about a minute, and ends after two in any case, or after as many seconds as its argument
says. Nothing outside a temporary folder changes.
"""

import contextlib
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import fedwad
from fedwad.federation import (
    Bundle,
    Envelope,
    Failure,
    FileLedger,
    RemoteFederation,
    SummaryRequest,
    pack,
    unpack,
)

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 120
NAMES = ("oslo", "paris", "rome")
POLICY = 'name = "{name}"\nallow = ["describe", "summary"]\nmax_queries = {cap}\n'
FLOOD = 3000


class Node:
    """A site's node, as a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        script = Path(__file__).with_name("drill_node.py")
        command = [sys.executable, str(script), str(self.folder)]
        self.process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answers = SimpleQueue[bytes]()
        Thread(target=self._read, args=(self.process, self._answers), daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[bytes], answers: SimpleQueue[bytes]) -> None:
        stream = process.stdout
        while stream is not None and (head := stream.read(4)):
            answers.put(stream.read(struct.unpack(">I", head)[0]))

    def send(self, message: bytes) -> None:
        stream = self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            if stream is not None:
                stream.write(struct.pack(">I", len(message)) + message)
                stream.flush()

    def receive(self, timeout: float) -> bytes | None:
        with contextlib.suppress(Empty):
            return self._answers.get(timeout=timeout)
        return None

    def ask(self, request: Any, timeout: float = 30.0) -> Any:
        """The reply or the failure, or None if there is no answer."""
        self.send(pack(Envelope(request)))
        answer = self.receive(timeout)
        return None if answer is None else unpack(answer).content

    def said(self) -> str:
        """What it says when it starts."""
        return (self.receive(60.0) or b"nothing").decode()

    @property
    def ledger(self) -> Path:
        return self.folder / "policy.ledger.jsonl"

    def counted(self) -> int:
        """How many queries its ledger counts."""
        return FileLedger(self.ledger).queries

    def restart(self) -> str:
        """Kill it and start it again; returns what it says."""
        self.stop()
        self.start()
        return self.said()

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


class Processes(RemoteFederation):
    """A federation of such nodes."""

    def __init__(self, nodes: Mapping[str, Node], timeout: float) -> None:
        super().__init__(tuple(nodes), timeout)
        self.nodes = dict(nodes)

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes | Failure]:
        for name, message in messages.items():
            self.nodes[name].send(message)
        end = time.monotonic() + timeout
        came = {}
        for name in messages:
            answer = self.nodes[name].receive(max(0.0, end - time.monotonic()))
            if answer is not None:
                came[name] = answer
        return came


@dataclass
class Row:
    fault: str
    happened: str
    passed: bool


def summary(seed: int) -> SummaryRequest:
    return SummaryRequest(1, "diag", 2.0, seed, calibration=False)


def sentence(answer: Any) -> str:
    return answer.sentence if isinstance(answer, Failure) else f"a {type(answer).__name__}"


def killed(node: Node) -> Row:
    before = node.counted()
    for seed in range(5):
        node.ask(summary(seed))
    node.send(pack(Envelope(summary(5))))
    ready = node.restart()
    again = node.ask(summary(0))
    counted = node.counted()
    happened = f"{ready}; the first question gets {sentence(again)} again; {counted} counted"
    passed = before + 5 <= counted <= before + 6 and ready == "ready"
    return Row("killed while it answers, started again", happened, passed)


def stopped(fed: Processes) -> Iterator[Row]:
    rome = fed.nodes["rome"]
    rome.process.send_signal(signal.SIGSTOP)
    m = fedwad.matrix(fed, cells=1)
    yield Row("stopped", f"left out: {m.failed.get('rome')}", set(m.failed) == {"rome"})
    rome.process.send_signal(signal.SIGCONT)
    late = fedwad.matrix(fed, cells=1)
    said = late.failed.get("rome", "in time")
    yield Row("answers a round late", said, "late" in said)
    while rome.receive(0.5) is not None:
        pass
    m = fedwad.matrix(fed, cells=1)
    yield Row("runs on", f"all {len(m.sites)} sites take part", not m.failed)


def full_disk(node: Node) -> Row:
    before, size = node.counted(), node.ledger.stat().st_size
    limit = (size + 40, resource.RLIM_INFINITY)
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, limit)
    refused = node.ask(summary(100))
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    after = node.ask(summary(101))
    counted = node.counted()
    happened = f"{sentence(refused)} Later {sentence(after)}; {counted - before} counted"
    passed = isinstance(refused, Failure) and not isinstance(after, Failure)
    return Row("the disk is full, and then not", happened, passed and counted == before + 1)


def rotated(node: Node) -> Row:
    moved = node.ledger.with_suffix(".1")
    node.ledger.rename(moved)
    closed = node.ask(summary(200))
    node.ledger.unlink(missing_ok=True)
    moved.rename(node.ledger)
    node.restart()
    opened = node.ask(summary(201))
    happened = f"{sentence(closed)} Put back and started again: {sentence(opened)}"
    passed = isinstance(closed, Failure) and not isinstance(opened, Failure)
    return Row("the ledger is rotated, and put back", happened, passed)


def cut(node: Node) -> Row:
    whole = node.ledger.read_bytes()
    with node.ledger.open("r+b") as file:
        file.truncate(len(whole) // 2)
    closed = node.ask(summary(300))
    node.ledger.write_bytes(whole)
    return Row("the ledger is cut", sentence(closed), isinstance(closed, Failure))


def flooded(node: Node) -> Row:
    before, size = node.counted(), node.ledger.stat().st_size
    for _ in range(FLOOD):
        node.send(b"garbage")
    for _ in range(FLOOD):
        node.receive(30.0)
    after, grown = node.ask(summary(400)), node.ledger.stat().st_size - size
    happened = f"{grown / FLOOD:.1f} bytes of ledger each; then {sentence(after)}"
    passed = not isinstance(after, Failure) and node.counted() == before + 1 and grown < 20 * FLOOD
    return Row(f"{FLOOD} messages of garbage", happened, passed)


def repeats(node: Node) -> Row:
    before = node.counted()
    answer = node.ask(Bundle((summary(500),) * 256))
    counted = node.counted() - before
    happened = f"{len(getattr(answer, 'replies', ()))} replies, {counted} query counted"
    return Row("256 repeats in one message", happened, counted == 1)


def shared(node: Node, other: Node, cap: int) -> Row:
    """Two processes on one ledger, until the cap."""
    for seed in range(1000, 1000 + cap):
        for one in (node, other):
            one.send(pack(Envelope(summary(2 * seed + (one is other)))))
    answers = [one.receive(30.0) for _ in range(cap) for one in (node, other)]
    came = [unpack(answer).content for answer in answers if answer is not None]
    left = sum(not isinstance(answer, Failure) for answer in came)
    counted = node.counted()
    happened = f"{counted} of {cap} queries, {left} new replies"
    return Row("two processes on one ledger", happened, counted <= cap and left <= cap)


def changed(node: Node) -> Row:
    node.stop()
    np.save(node.folder / "data.npy", np.load(node.folder / "data.npy")[1:])
    said = Node(node.folder).said()
    return Row("a record is removed from the data", said, "accept-data" in said)


def folders(root: Path, cap: int) -> dict[str, Path]:
    rng, found = np.random.default_rng(0), {}
    for k, name in enumerate(NAMES):
        found[name] = root / name
        found[name].mkdir()
        np.save(found[name] / "data.npy", rng.standard_normal((60, 3)) + k)
        (found[name] / "policy.toml").write_text(POLICY.format(name=name, cap=cap))
    return found


def drill(root: Path, add: Callable[[Row], None]) -> None:
    cap = 60
    places = folders(root, cap)
    nodes = {name: Node(place) for name, place in places.items()}
    second = Node(places["oslo"])
    try:
        ready = [node.said() for node in (*nodes.values(), second)]
        add(Row("started", ", ".join(ready), set(ready) == {"ready"}))
        paris, oslo = nodes["paris"], nodes["oslo"]
        m = fedwad.matrix(Processes(nodes, 60.0), cells=1)
        add(Row("answers", f"a matrix of {len(m.sites)} sites", not m.failed))
        for row in stopped(Processes(nodes, 4.0)):
            add(row)
        for step in (killed, full_disk, rotated, flooded, repeats):
            add(step(paris))
        add(shared(oslo, second, cap))
        add(cut(paris))
        add(changed(nodes["rome"]))
    finally:
        for node in (*nodes.values(), second):
            node.stop()


def main() -> None:
    rows: list[Row] = []
    table = Table("the site ...", "what happened", "", title="Fault drill", title_justify="left")

    def late(*_: object) -> None:
        raise TimeoutError(f"the drill took longer than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        with tempfile.TemporaryDirectory() as root:
            drill(Path(root), rows.append)
    except TimeoutError as error:
        rows.append(Row("the drill", str(error), passed=False))
    for row in rows:
        table.add_row(row.fault, row.happened, "ok" if row.passed else "NOT AS DOCUMENTED")
    Console(width=160).print(table)
    sys.exit(not all(row.passed for row in rows))


if __name__ == "__main__":
    main()
