"""Helpers of test_flower.py: sites on disk, a Grid in this process that loses and garbles messages,
stray processes."""

import hashlib
import os
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedwad._files import to_toml

NAMES = ("oslo", "paris", "rome")
# Flower's messages need the identity of their author.
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
OPEN = '["describe", "columns", "summary", "transport", "cells"]'


def write_sites(folder: Path) -> dict[str, Path]:
    """Data and policy of three sites; the data files."""
    rng = np.random.default_rng(7)
    for number, name in enumerate(NAMES):
        np.save(folder / f"{name}.npy", rng.normal(number, 1.0, (60 + 20 * number, 3)))
        write_policy(folder, name)
    return {name: folder / f"{name}.npy" for name in NAMES}


def write_policy(folder: Path, name: str, allow: str = OPEN, more: str = "") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\nallow = {allow}\nmin_cell_size = 1\nrounding = 0.0\nmax_schemas = inf\n{more}\n'
    )
    return path


def node_config(folder: Path, name: str, **more) -> dict[str, str]:
    """The configuration of a node, which names a file of the site."""
    files = {"data": str(folder / f"{name}.npy"), "policy": str(folder / f"{name}.toml")}
    text = to_toml(files | more)
    path = folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.site.toml"
    path.write_text(text)
    return {"site": str(path)}


class InProcessGrid(Grid):
    """Nodes as functions in this process, from a message to its replies; a reply may carry a delay
    in seconds."""

    def __init__(self, nodes, names=None):
        self.nodes = dict(nodes)
        self.names = names or {}
        self.activated = dict.fromkeys(self.nodes, "at first")
        self.pushed = []
        self.queries = 0
        self._replies = []
        self._ids = count(1)

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        self.queries += 1
        return [
            SimpleNamespace(
                node_id=node, name=self.names.get(node, ""), last_activated_at=self.activated[node]
            )
            for node in self.nodes
        ]

    def push_messages(self, messages):
        messages = list(messages)
        self.pushed.append(len(messages))
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{next(self._ids)}"
            ids.append(message.metadata.message_id)
            for delay, reply in self.nodes[message.metadata.dst_node_id](message):
                self._replies.append((time.monotonic() + delay, reply))
        return ids

    def pull_messages(self, message_ids):
        wanted, now = set(message_ids), time.monotonic()
        ready = [
            reply
            for at, reply in self._replies
            if at <= now and reply.metadata.reply_to_message_id in wanted
        ]
        self._replies = [pair for pair in self._replies if pair[1] not in ready]
        return ready


def running(app, config):
    """A node that runs a ClientApp."""

    def node(message):
        context = Context(
            run_id=1,
            node_id=message.metadata.dst_node_id,
            node_config=config,
            state=RecordDict(),
            run_config={},
        )
        return [(0.0, app(message, context))]

    return node


def twice(node):
    return lambda message: node(message) * 2


def late(node, seconds):
    return lambda message: [(seconds, reply) for _, reply in node(message)]


def silent(message):  # noqa: ARG001
    return []


def saying(record):
    return lambda message: [(0.0, Message(record, reply_to=message))]


def failing(message):
    reason = "<class 'FileNotFoundError'>:<'/srv/patients/paris.csv'>"
    return [(0.0, Message(Error(code=2, reason=reason), reply_to=message))]


def content(value):
    """The content of a Flower message that carries `value`."""
    return RecordDict({"fedwad": ConfigRecord({"payload": value})})


def after_describe(first, then):
    """A node that gives its name as `first` does and behaves like `then` afterwards."""
    calls = count()
    return lambda message: (first if next(calls) == 0 else then)(message)


def strays(mark: str) -> list[str]:
    """Commands of processes that have this text among their environment variables."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                int(folder.name) != os.getpid()
                and mark.encode() in (folder / "environ").read_bytes()
            ):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found
