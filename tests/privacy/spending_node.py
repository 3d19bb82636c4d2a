"""A node that answers one private request after another, killed at random moments, again and again.

Each node is a process of its own, forked from this one, on one ledger. It writes down what it was
answered as soon as it has it, which is later than the reply could have left. Prints what was answered
and what the ledger says was spent.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from fedwad.federation import Client, FileLedger, Policy, PrivateRequest, open_view, read
from fedwad.privacy import DP, compose


def serve(folder, number):
    policy = Policy(allow=["private"], epsilon=8.0)
    client = Client(
        read(np.random.default_rng(0).standard_normal((30, 2))),
        policy,
        FileLedger(folder / "node.sqlite"),
    )
    answered = os.open(folder / "answered.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(answered, b"start\n")
    for turn in range(10_000):
        # Never the same, so that each is paid for.
        guarantee = DP(0.1, clip_norm=1.0 + number + turn / 10_000)
        client.answer(PrivateRequest.of(guarantee))
        os.write(answered, f"{guarantee.mu}\n".encode())


def main(folder, kills):
    random.seed(0)
    Client(read([[0.0, 1.0]]), Policy.open()).answer(
        PrivateRequest.of(DP(1, clip_norm=1))
    )  # loads what is loaded late
    folder = Path(folder)
    between = under = 0
    for number in range(kills):
        child = os.fork()
        if child == 0:
            try:
                serve(folder, number)
            finally:
                os._exit(0)
        starts = number + 1
        while lines(folder).count("start") < starts and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.15))  # noqa: S311
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        answered = [float(line) for line in lines(folder) if line and line != "start"]
        path = folder / "node.sqlite"
        spent = [entry.mu for entry in open_view(path).entries if entry.outcome == "spent"]
        under += compose(spent) < compose(answered) * (1 - 1e-12)
        between += len(spent) > len(answered) + between
    ledger = FileLedger(folder / "node.sqlite")
    found = {
        "kills": kills,
        "under": under,
        "between": between,
        "answered": len(answered),
        "paid": len(spent),
    }
    json.dump(found | {"spent": ledger.spent}, sys.stdout)


def lines(folder):
    try:
        return (folder / "answered.txt").read_text().split("\n")
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
