"""What Flower waits for, and what a simulation reads again."""

import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")

from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.supercore.inflatable import inflatable_object, inflatable_utils
from flwr.superlink.grid import http_grid

from fedwad.engines import _simulation
from fedwad.engines.flower import _internals, _messages


class Pauses:
    """The seconds that Flower would wait between two tries."""

    def __init__(self):
        self.seconds = []

    def wait(self, seconds):
        self.seconds.append(seconds)

    def is_set(self):
        return False

    def set(self):
        pass


def unavailable_at_first(tries):
    left = [tries]

    def pull(object_id):
        left[0] -= 1
        if left[0] >= 0:
            raise inflatable_utils.ObjectUnavailableError(object_id)
        return b"content"

    return pull


def test_the_grid_tries_again_soon(monkeypatch):
    pauses = Pauses()
    monkeypatch.setattr(http_grid, "pull_objects", http_grid.pull_objects)  # restored afterwards
    threads = SimpleNamespace(Event=lambda: pauses, Lock=threading.Lock)
    monkeypatch.setattr(inflatable_utils, "threading", threads)
    _internals.shorten_pauses()
    once = http_grid.pull_objects
    _internals.shorten_pauses()
    assert http_grid.pull_objects is once
    assert isinstance(once, partial)
    found = once(["one"], unavailable_at_first(8))
    assert found == {"one": b"content"}
    assert len(pauses.seconds) == 8
    assert pauses.seconds[0] <= 1.2 * _internals.SHORTEST_PAUSE
    assert max(pauses.seconds) <= 1.2 * _internals.LONGEST_PAUSE
    clock = SimpleNamespace(monotonic=lambda: sum(pauses.seconds))
    monkeypatch.setattr(inflatable_utils, "time", clock)
    with pytest.raises(inflatable_utils.ObjectPullError):  # its node was killed
        once(["one"], unavailable_at_first(10_000))
    assert sum(pauses.seconds) < 90


def test_the_node_tries_again_soon(monkeypatch):
    asked = {}
    monkeypatch.setattr(
        _internals,
        "pull_and_inflate_object_from_tree",
        lambda *_, **options: asked.update(options) or SimpleNamespace(metadata=SimpleNamespace()),
    )
    link = object.__new__(_internals.SuperLinkClient)
    link._client, link._node = SimpleNamespace(PullObject=0, ConfirmMessageReceived=0), None
    header = SimpleNamespace(metadata=SimpleNamespace(run_id=1))
    assert link.fetch(header, _internals.ObjectTree(object_id="one")) is not None
    assert asked["initial_backoff"] == _internals.SHORTEST_PAUSE
    assert asked["backoff_cap"] == _internals.LONGEST_PAUSE


def test_a_reply_is_hashed_once(monkeypatch):
    hashed = []
    plain = inflatable_object.get_object_id
    monkeypatch.setattr(
        inflatable_object, "get_object_id", lambda content: hashed.append(content) or plain(content)
    )
    pushed = {}

    def take(request):
        pushed[request.object_id] = request.object_content
        return SimpleNamespace(stored=True)

    def announce(request):
        tree = request.message_object_trees[0]
        ids = [one.object_id for one in inflatable_object.iterate_object_tree(tree)]
        return SimpleNamespace(session_id="session", objects_to_push=ids)

    link = object.__new__(_internals.SuperLinkClient)
    link._client = SimpleNamespace(PushMessages=announce, PushObject=take)
    link._node = _internals.Node(node_id=1)
    payload = bytes(10_000)
    metadata = Metadata(1, "", 1, 2, "", "group", 0.0, 60.0, "query")
    reply = make_message(metadata=metadata, content=_messages.wrap(payload))
    assert link.send(reply, 0.1)
    assert sum(len(content) > len(payload) for content in hashed) == 1
    message = inflatable_utils.inflate_object_from_contents(reply.metadata.message_id, pushed)
    assert _messages.unwrap(message) == payload


def test_a_simulation_searches_only_nodes_with_a_message():
    messages, searched = [], []

    def search(node_id, limit):
        searched.append(node_id)
        found = [one for one in messages if one.metadata.dst_node_id == node_id][:limit]
        for one in found:
            messages.remove(one)
        return found

    grid = SimpleNamespace(
        state=SimpleNamespace(store_message_ins=messages.append, get_message_ins=search)
    )
    _internals.search_only_addressed_nodes(grid)
    sent = [SimpleNamespace(metadata=SimpleNamespace(dst_node_id=node)) for node in (7, 9, 7)]
    for message in sent:
        grid.state.store_message_ins(message)
    found = [
        one
        for _ in range(4)
        for node in range(1000)
        for one in grid.state.get_message_ins(node_id=node, limit=1)
    ]
    assert found == [sent[0], sent[1], sent[2]]
    assert sorted(searched) == [7, 7, 7, 9, 9]


class TestClientCache:
    @pytest.fixture
    def site(self, tmp_path, monkeypatch):
        path = tmp_path / "paris.npy"
        np.save(path, np.zeros((3, 2)))
        opened = []
        monkeypatch.setattr(
            _simulation, "open_site", lambda _, site: opened.append(site["data"]) or object()
        )
        return {"data": str(path)}, opened

    def test_a_file_is_read_once_and_again_after_a_change(self, site):
        settings, opened = site
        cache = _simulation._ClientCache()
        first = cache.get("paris", settings)
        assert cache.get("paris", dict(settings)) is first
        np.save(settings["data"], np.zeros((4, 2)))
        assert cache.get("paris", settings) is not first
        assert len(opened) == 2

    def test_the_oldest_make_room(self, site):
        settings, opened = site
        size = 128 + 3 * 2 * 8  # of the file
        cache = _simulation._ClientCache(limit=2 * size)
        for name in ("a", "b", "a", "c", "a", "b"):
            cache.get(name, settings)
        assert len(opened) == 4  # a, b, c, and b again
