"""Sites behind Flower's Grid as a federation: who is there, and one letter to each of them in a
round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from flwr.app import Message
from flwr.serverapp import Grid

from fedwad.engines.flower._messages import KIND, opened, packed
from fedwad.errors import FederationError, FedwadError
from fedwad.federation import Failure, RemoteFederation, describe_message, site_name

__all__ = ["GridFederation", "find_sites"]

T = TypeVar("T")

_QUICK, _SLOW = (
    0.05,
    0.5,
)  # seconds between two looks for replies: quick at first, then more patient
_LONGEST = 300  # letters of what a node says that are passed on
# seconds for further nodes to answer once all wanted ones have: one of them may use a name twice
_GRACE = 8.0


class GridFederation(RemoteFederation):
    """The sites of a Flower run. All letters of a round go out at once; whoever is late is
    silent."""

    def __init__(
        self,
        grid: Grid,
        nodes: Mapping[str, int],
        timeout: float = 600.0,
        callback: Callable[[int, int, float], None] | None = None,
    ) -> None:
        super().__init__(tuple(nodes), timeout)
        self._grid, self._nodes, self._on_round = grid, dict(nodes), callback
        self._rounds = 0

    def exchange(self, letters: Mapping[str, bytes], timeout: float) -> dict[str, bytes | Failure]:
        started = time.monotonic()
        deadline = started + timeout
        self._rounds += 1
        names = {self._nodes[name]: name for name in letters if name in self._nodes}
        post = MessageQueue(self._grid, f"round {self._rounds}")
        post.send({node: letters[name] for node, name in names.items()}, deadline)
        answers: dict[str, bytes | Failure] = {}
        pause = _QUICK
        while post.waiting and time.monotonic() < deadline:
            answers |= {names[node]: answer for node, answer in post.collect(deadline).items()}
            if post.waiting:
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(_SLOW, 1.2 * pause)
        silent = Failure(
            "silent", f"no answer came within {timeout:g} seconds; see whether its node is running."
        )
        if self._on_round is not None:
            kept = sum(isinstance(answer, bytes) for answer in answers.values())
            self._on_round(kept, len(letters), time.monotonic() - started)
        return {name: answers.get(name, silent) for name in letters}


def find_sites(
    grid: Grid,
    wanted: Iterable[str] = (),
    timeout: float = 60.0,
    say: Callable[[str], None] | None = None,
) -> dict[str, int]:
    """Ask every node who it is; the node of each `wanted` site, or of all sites when none are
    named.

    `say` is called once with a sentence if some take their time.

    FederationError when one is missing after `timeout` seconds, and when two nodes go by one name:
    one of them is not who it says. A node that goes by another name than it was registered under
    does not count.
    """
    wanted, deadline = tuple(wanted), time.monotonic() + timeout
    post, found, settled = MessageQueue(grid, "who"), dict[str, int](), None
    registered, refused = dict[int, str](), dict[int, str]()
    while time.monotonic() < deadline:
        new = {
            info.node_id: info.name
            for info in _nodes(grid, deadline)
            if info.node_id not in registered
        }
        registered |= new
        post.send(dict.fromkeys(new, describe_message()), deadline)
        for node, answer in post.collect(deadline).items():
            name = _name(answer)
            if isinstance(name, Failure):
                refused[node] = name.sentence
            elif registered[node] not in ("", name):  # it cannot take another's place
                refused[node] = (
                    f"it calls itself '{name}'; make its policy's name and the registered one agree."
                )
            elif name in found and (name in wanted or not wanted):
                raise FederationError(
                    f"Two nodes call themselves '{name}'; give each site's policy its own name."
                )
            else:
                found[name] = node
        if any(registered[node] in wanted for node in refused):
            break  # a wanted site is there and cannot answer: waiting does not help
        if (
            all(name in found for name in wanted)
            if wanted
            else registered and not post.waiting and not refused
        ):
            settled = settled or time.monotonic()
            if not post.waiting or time.monotonic() > settled + _GRACE:
                return {name: found[name] for name in wanted or sorted(found)}
        lost = [name for name in wanted if name not in found]
        if say is not None and lost and found and time.monotonic() > deadline - timeout + _GRACE:
            say(f"Waiting for {' and '.join(lost)}; answers came from {', '.join(sorted(found))}.")
            say = None
        time.sleep(_QUICK if post.waiting else _SLOW)
    if wanted and all(name in found for name in wanted):
        return {name: found[name] for name in wanted}
    raise FederationError(_missing(wanted, found, refused, registered))


class MessageQueue:
    """Letters on their way. Grid calls run on threads of their own: they may retry for ever, a
    round may not."""

    def __init__(self, grid: Grid, group: str) -> None:
        self._grid, self._group = grid, group
        self._failed: dict[int, Failure] = {}
        self._waiting: dict[str, int] = {}

    @property
    def waiting(self) -> bool:
        """Whether an answer may still come."""
        return bool(self._waiting or self._failed)

    def send(self, letters: Mapping[int, bytes], deadline: float) -> None:
        """Send these letters in one go; what the SuperLink does not take fails at the next
        `collect`."""
        seconds = deadline - time.monotonic()
        if not letters or seconds <= 0:
            return
        messages = {
            node: Message(packed(letter), node, KIND, ttl=seconds, group_id=self._group)
            for node, letter in letters.items()
        }
        try:
            accepted = set(
                _within(deadline, lambda: self._grid.push_messages(list(messages.values())))
            )
        except Exception:
            accepted = set()
        for node, message in messages.items():
            if message.metadata.message_id in accepted:
                self._waiting[message.metadata.message_id] = node
            else:
                self._failed[node] = Failure("silent", "the SuperLink did not take the letter.")

    def collect(self, deadline: float) -> dict[int, bytes | Failure]:
        """What has come back since the last look. A second answer to a letter is dropped, and so
        are strays."""
        answers: dict[int, bytes | Failure] = dict(self._failed)
        self._failed = {}
        if not self._waiting:
            return answers
        sites = list(self._waiting)
        try:
            replies = list(_within(deadline, lambda: self._grid.pull_messages(sites)))
        except TimeoutError:
            return answers
        except (
            Exception
        ):  # the run was stopped, or the SuperLink is in trouble: nobody will answer any more
            lost = Failure("silent", "the SuperLink stopped passing on replies.")
            answers |= dict.fromkeys(self._waiting.values(), lost)
            self._waiting = {}
            return answers
        for reply in replies:
            node = self._waiting.get(reply.metadata.reply_to_message_id)
            if node is None or (not reply.has_error() and reply.metadata.src_node_id != node):
                continue
            del self._waiting[reply.metadata.reply_to_message_id]
            answers[node] = opened(reply)
        return answers


def _within(deadline: float, call: Callable[[], T]) -> T:
    """The result of a call, or TimeoutError at the deadline, even where the call itself never
    ends."""
    box: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            box.put((call(), None))
        except BaseException as error:
            box.put((None, error))

    Thread(target=work, daemon=True).start()
    while True:
        left = deadline - time.monotonic()
        try:
            value, error = box.get(
                timeout=min(_SLOW, max(0.0, left))
            )  # Flower's signal to end gets in between
        except Empty:
            if left <= 0:
                raise TimeoutError from None
            continue
        if error is not None:
            raise error
        return value  # type: ignore[return-value]


def _nodes(grid: Grid, deadline: float) -> list[Any]:
    try:
        return list(_within(deadline, grid.get_nodes))
    except TimeoutError:
        return []


def _name(answer: bytes | Failure) -> str | Failure:
    if isinstance(answer, Failure):
        return answer
    try:
        return site_name(answer)
    except FedwadError as error:  # in words that the node may have chosen
        return Failure(
            "garbage", "".join(letter for letter in str(error) if letter.isprintable())[:_LONGEST]
        )


def _missing(
    wanted: tuple[str, ...],
    found: Mapping[str, int],
    refused: Mapping[int, str],
    registered: Mapping[int, str],
) -> str:
    """One sentence about sites that did not show up, and about those that did."""
    lost = [name for name in wanted if name not in found]
    silent = [node for node in registered if node not in refused and node not in found.values()]
    known = [f"node '{registered[node]}': {text.rstrip('.')}" for node, text in refused.items()]
    if found:
        known.append(f"answers came from {', '.join(sorted(found))}")
    if silent:
        known.append(f"{len(silent)} node{'s' * (len(silent) > 1)} said nothing in time")
    what = (
        f"No node named {' or '.join(lost)} answered" if lost else "Not every node said who it is"
    )
    return (
        f"{what} ({'; '.join(known) or 'no node is connected'}); see whether all nodes are running."
    )
