"""A fault drill: nodes run as processes, which are killed, stopped and flooded; their disk fills
up, and their ledger is rotated. The drill prints what happened, and exits with 1 if that is not
what docs/nodes.md says.

    python scripts/drill.py [SECONDS]

It takes about a minute, and ends after SECONDS, 120 by default, in any case. Nothing outside a
temporary folder changes.
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
    RemoteFederation,
    SummaryRequest,
    open_view,
    pack,
    unpack,
)

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 120
NAMES = ("oslo", "paris", "rome")
MAX_QUERIES = 60
POLICY = 'name = "{name}"\nallow = ["describe", "summary"]\nmax_queries = {max_queries}\n'
FLOOD = 3000  # messages


class Node:
    """A site's node as a process of its own, which runs drill_node.py."""

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
        """The reply or the failure, or None if no answer arrives in time."""
        self.send(pack(Envelope(request)))
        answer = self.receive(timeout)
        return None if answer is None else unpack(answer).content

    def first_message(self) -> str:
        """What the node says when it starts: "ready", or why it does not start."""
        return (self.receive(60.0) or b"nothing").decode()

    @property
    def ledger(self) -> Path:
        return self.folder / "policy.ledger.sqlite"

    def query_count(self) -> int:
        """How many queries the ledger counts."""
        return open_view(self.ledger).queries

    def restart(self) -> str:
        """Kill the process and start it again; returns its first message."""
        self.kill()
        self.start()
        return self.first_message()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


class ProcessFederation(RemoteFederation):
    """A federation of nodes as processes."""

    def __init__(self, nodes: Mapping[str, Node], timeout: float) -> None:
        super().__init__(tuple(nodes), timeout)
        self.nodes = dict(nodes)

    def exchange(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes | Failure]:
        for name, message in messages.items():
            self.nodes[name].send(message)
        end = time.monotonic() + timeout
        answers = {
            name: self.nodes[name].receive(max(0.0, end - time.monotonic())) for name in messages
        }
        return {name: answer for name, answer in answers.items() if answer is not None}


@dataclass
class Row:
    """A fault, what happened, and whether that is what docs/nodes.md says."""

    fault: str
    happened: str
    passed: bool


def summary_request(seed: int) -> SummaryRequest:
    """A request that differs for each seed, so that it counts as a new query."""
    return SummaryRequest(1, "diag", 2.0, seed, calibration=False)


def in_words(answer: Any) -> str:
    return answer.sentence if isinstance(answer, Failure) else f"a {type(answer).__name__}"


def kill_and_restart(node: Node) -> Row:
    before = node.query_count()
    for seed in range(5):
        node.ask(summary_request(seed))
    node.send(pack(Envelope(summary_request(5))))
    ready = node.restart()
    again = node.ask(summary_request(0))
    count = node.query_count()
    happened = f"{ready}; the first request gets {in_words(again)} again; {count} counted"
    passed = before + 5 <= count <= before + 6 and ready == "ready"
    return Row("killed while it answers, started again", happened, passed)


def stop_and_continue(fed: ProcessFederation) -> Iterator[Row]:
    rome = fed.nodes["rome"]
    rome.process.send_signal(signal.SIGSTOP)
    m = fedwad.matrix(fed, cells=1)
    yield Row("stopped", f"left out: {m.failed.get('rome')}", set(m.failed) == {"rome"})
    rome.process.send_signal(signal.SIGCONT)
    late = fedwad.matrix(fed, cells=1)
    reason = late.failed.get("rome", "in time")
    yield Row("answers a round late", reason, "late" in reason)
    while rome.receive(0.5) is not None:  # drop its late answers
        pass
    m = fedwad.matrix(fed, cells=1)
    yield Row("runs on", f"all {len(m.sites)} sites take part", not m.failed)


def fill_disk(node: Node) -> Row:
    before = node.query_count()
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (40, resource.RLIM_INFINITY))
    refused = node.ask(summary_request(100))
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    after = node.ask(summary_request(101))
    count = node.query_count() - before
    happened = f"{in_words(refused)} Later {in_words(after)}; {count} counted"
    passed = isinstance(refused, Failure) and not isinstance(after, Failure) and count == 1
    return Row("the disk is full, and then not", happened, passed)


def rotate_ledger(node: Node) -> Row:
    moved = node.ledger.with_suffix(".1")
    node.ledger.rename(moved)
    refused = node.ask(summary_request(200))
    node.ledger.unlink(missing_ok=True)
    moved.rename(node.ledger)
    node.restart()
    after = node.ask(summary_request(201))
    happened = f"{in_words(refused)} Put back and started again: {in_words(after)}"
    passed = isinstance(refused, Failure) and not isinstance(after, Failure)
    return Row("the ledger is rotated, and put back", happened, passed)


def cut_ledger(node: Node) -> Row:
    whole = node.ledger.read_bytes()
    with node.ledger.open("r+b") as file:
        file.truncate(len(whole) // 2)
    refused = node.ask(summary_request(300))
    node.ledger.write_bytes(whole)
    return Row("the ledger is cut", in_words(refused), isinstance(refused, Failure))


def flood(node: Node) -> Row:
    before, entries = node.query_count(), len(open_view(node.ledger))
    for _ in range(FLOOD):
        node.send(b"garbage")
    for _ in range(FLOOD):
        node.receive(30.0)
    after, grown = node.ask(summary_request(400)), len(open_view(node.ledger)) - entries
    happened = f"{grown} entries in the ledger; then {in_words(after)}"
    count = node.query_count() - before
    passed = not isinstance(after, Failure) and count == 1 and grown < 20
    return Row(f"{FLOOD} messages of garbage", happened, passed)


def repeat_request(node: Node) -> Row:
    before = node.query_count()
    answer = node.ask(Bundle((summary_request(500),) * 256))
    count = node.query_count() - before
    happened = f"{len(getattr(answer, 'replies', ()))} replies, {count} query counted"
    return Row("256 repeats in one message", happened, count == 1)


def share_ledger(node: Node, other: Node) -> Row:
    """Ask two processes with one ledger for more than the limit of queries."""
    for seed in range(1000, 1000 + MAX_QUERIES):
        for one in (node, other):
            one.send(pack(Envelope(summary_request(2 * seed + (one is other)))))
    answers = [one.receive(30.0) for _ in range(MAX_QUERIES) for one in (node, other)]
    contents = [unpack(answer).content for answer in answers if answer is not None]
    replies = sum(not isinstance(content, Failure) for content in contents)
    count = node.query_count()
    happened = f"{count} of {MAX_QUERIES} queries, {replies} new replies"
    passed = count <= MAX_QUERIES and replies <= MAX_QUERIES
    return Row("two processes on one ledger", happened, passed)


def remove_record(node: Node) -> Row:
    node.kill()
    np.save(node.folder / "data.npy", np.load(node.folder / "data.npy")[1:])
    reason = Node(node.folder).first_message()
    return Row("a record is removed from the data", reason, "accept-data" in reason)


def make_folders(root: Path) -> dict[str, Path]:
    """The folder of each site, with its data and its policy."""
    rng, folders = np.random.default_rng(0), {name: root / name for name in NAMES}
    for k, (name, folder) in enumerate(folders.items()):
        folder.mkdir()
        np.save(folder / "data.npy", rng.standard_normal((60, 3)) + k)
        policy = POLICY.format(name=name, max_queries=MAX_QUERIES)
        (folder / "policy.toml").write_text(policy)
    return folders


def drill(root: Path, report: Callable[[Row], None]) -> None:
    folders = make_folders(root)
    nodes = {name: Node(folder) for name, folder in folders.items()}
    second_oslo = Node(folders["oslo"])
    try:
        messages = [node.first_message() for node in (*nodes.values(), second_oslo)]
        report(Row("started", ", ".join(messages), set(messages) == {"ready"}))
        m = fedwad.matrix(ProcessFederation(nodes, 60.0), cells=1)
        report(Row("answers", f"a matrix of {len(m.sites)} sites", not m.failed))
        for row in stop_and_continue(ProcessFederation(nodes, 4.0)):
            report(row)
        for fault in (kill_and_restart, fill_disk, rotate_ledger, flood, repeat_request):
            report(fault(nodes["paris"]))
        report(share_ledger(nodes["oslo"], second_oslo))
        report(cut_ledger(nodes["paris"]))
        report(remove_record(nodes["rome"]))
    finally:
        for node in (*nodes.values(), second_oslo):
            node.kill()


def main() -> None:
    rows: list[Row] = []
    table = Table("the site ...", "what happened", "", title="Fault drill", title_justify="left")

    def stop_drill(*_: object) -> None:
        raise TimeoutError(f"the drill took longer than {SECONDS} s")

    signal.signal(signal.SIGALRM, stop_drill)
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
