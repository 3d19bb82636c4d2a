"""Two nodes on one ledger, killed at random moments, on a disk that fills and empties again, while
somebody rotates the ledger every second.

Each node is a process of its own, forked from this one. It writes down each reply as soon as it has
it, which is later than the reply could have left. Prints what was answered and what the ledger
counts.
"""

import contextlib
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np

from fedwad.errors import FedwadError
from fedwad.federation import (
    Client,
    FileLedger,
    Policy,
    PrivateRequest,
    SummaryRequest,
    open_view,
    read,
)
from fedwad.privacy import DP, compose

DATA = np.random.default_rng(0).standard_normal((30, 2))
#: Noisy releases of one node, summaries of another: budgets and numbers of queries are both kept.
POLICIES = {
    "private": Policy(("private",), epsilon=50.0),
    "summary": Policy(("summary",), min_cell_size=1),
}


def opened(kind, folder):
    """A client on the ledger, as soon as that is where it should be."""
    while True:
        with contextlib.suppress(FedwadError):
            return Client(read(DATA), POLICIES[kind], FileLedger(folder / f"{kind}.sqlite"))
        time.sleep(0.002)


def serve(kind, folder, number):
    client = opened(kind, folder)
    note = os.open(folder / f"{kind}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(note, b"start\n")
    for turn in range(100_000):
        guarantee = DP(0.05, clip_norm=1.0 + number + turn / 1e5)
        asked = {
            "private": PrivateRequest.of(guarantee),
            "summary": SummaryRequest(1, "diag", 2.0, 100_000 * number + turn, calibration=False),
        }[kind]
        try:
            client.answer(asked)
        except FedwadError:  # the disk is full, or the ledger is elsewhere
            time.sleep(0.002)
            continue
        os.write(note, f"{guarantee.mu}\n".encode())


def started(kind, folder, number):
    child = os.fork()
    if child == 0:
        try:
            serve(kind, folder, number)
        finally:
            os._exit(0)
    return child


def notes(kind, folder):
    with contextlib.suppress(FileNotFoundError):
        return (folder / f"{kind}.txt").read_text().split("\n")
    return []


def answered(kind, folder):
    return [float(line) for line in notes(kind, folder) if line and line != "start"]


def fill_disk(children, path):
    """From now on these processes can write to the log of the ledger up to some place in it, or
    nothing at all."""
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    limit = random.choice([0, random.randint(0, size + 10_000)])  # noqa: S311
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(child, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def empty_disk(children):
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(child, resource.RLIMIT_FSIZE, unlimited)


def rotate(path):
    """As a tool for logs does, and then its operator puts the file back."""
    if path.exists():
        moved = path.with_suffix(".1")
        path.rename(moved)
        time.sleep(0.01)
        moved.rename(path)


def counted(kind, path):
    """How many replies the ledger counts, and the mu of what was spent."""
    entries = open_view(path).entries
    spent = [entry.mu for entry in entries if entry.outcome == "spent"]
    left = len(spent) if kind == "private" else sum(e.outcome == "answered" for e in entries)
    return left, spent


def main(folder, kind, kills):
    random.seed(0)
    folder, path = Path(folder), Path(folder) / f"{kind}.sqlite"
    Client(read(DATA), Policy.open()).answer(PrivateRequest.of(DP(1, clip_norm=1)))  # loads late
    Client(read(DATA), Policy.open()).answer(SummaryRequest(1, "diag", 2.0, 0))
    children = [started(kind, folder, number) for number in range(2)]
    rotated, number, under, full = time.monotonic(), 2, 0, 0
    for _ in range(kills):
        before = len(answered(kind, folder))
        end = time.monotonic() + 2.0
        while len(answered(kind, folder)) < before + 2 and time.monotonic() < end:
            time.sleep(0.001)
        if random.random() < 0.3:  # noqa: S311
            fill_disk(children, path)
            full += 1
            time.sleep(0.02)
            if random.random() < 0.5:  # noqa: S311
                empty_disk(children)
        if time.monotonic() - rotated > 1.0:
            rotate(path)
            rotated = time.monotonic()
        time.sleep(random.uniform(0, 0.02))  # noqa: S311
        victim = children.pop(random.randrange(2))  # noqa: S311
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        empty_disk(children)
        replies = answered(kind, folder)  # before the ledger is read: it may only grow
        left, spent = counted(kind, path)
        under += left < len(replies)
        if kind == "private":
            under += compose(spent) < compose(replies) * (1 - 1e-12)
        children.append(started(kind, folder, number))
        number += 1
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    left, spent = counted(kind, path)
    last = opened(kind, folder)
    last.answer(
        PrivateRequest.of(DP(0.05, clip_norm=0.5))
        if kind == "private"
        else SummaryRequest(1, "diag", 2.0, 10**9, calibration=False)
    )
    found = {"kills": kills, "under": under, "full": full, "counted": left}
    found |= {"answered": len(answered(kind, folder)), "queries": last.ledger.queries}
    json.dump(found | {"spent": last.ledger.spent if kind == "private" else 0.0}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
