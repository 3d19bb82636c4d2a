"""Find the node of each site among the nodes that are connected to a SuperLink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from flwr.serverapp import Grid

from fedwad._words import to_printable
from fedwad.engines.flower._queue import FAST_POLL, SLOW_POLL, MessageQueue, list_nodes
from fedwad.errors import FederationError, FedwadError
from fedwad.federation import Description, Failure, describe_message, unpack_description

__all__ = ["find_sites"]

_MAX_SENTENCE = 300  # characters of a node's own message that are passed on
# Seconds for further nodes to answer after all wanted sites have: another node may give a name that
# is already taken.
_DUPLICATE_NAME_SECONDS = 8.0
_MOST_NAMES = 20  # in one sentence
_LISTING_PAUSE_FACTOR = 10  # a pause is this many times as long as the last listing of nodes took
_NOTICE_SECONDS = 8.0  # until a sentence says which sites are still missing


def find_sites(
    grid: Grid,
    wanted: Iterable[str] = (),
    timeout: float = 60.0,
    on_progress: Callable[[str], None] | None = None,
    descriptions: dict[str, Description] | None = None,
    window: int | None = None,
) -> dict[str, int]:
    """Ask every node for the name of its site and return the node id of each wanted site.

    A node that was registered under a name counts only if it gives the same name.

    Parameters
    ----------
    grid : Flower's Grid
    wanted : names of the sites; all sites if empty
    timeout : seconds to wait for the sites
    on_progress : called once, with a sentence, if some sites take long
    descriptions : filled with what each site that answers says about itself
    window : the number of nodes that are asked at a time; all when left out

    Raises
    ------
    FederationError if a site is missing after `timeout` seconds, if the node of a wanted site says
    that it cannot take part or gives another name, or if two nodes give one name.
    """
    descriptions = {} if descriptions is None else descriptions
    discovery = _Discovery(grid, tuple(wanted), descriptions, window)
    started = time.monotonic()
    deadline, notice = started + timeout, started + _NOTICE_SECONDS
    while time.monotonic() < deadline and not discovery.has_failed:
        discovery.poll(deadline)
        if discovery.is_done:
            return discovery.nodes()
        if on_progress is not None and time.monotonic() > notice and discovery.is_partial:
            on_progress(discovery.waiting_sentence())
            on_progress = None
        discovery.pause()
    if discovery.wanted and not discovery.missing and not discovery.has_failed:
        return discovery.nodes()
    raise FederationError(discovery.error_sentence())


class _Discovery:
    """The answers of nodes so far."""

    def __init__(
        self,
        grid: Grid,
        wanted: tuple[str, ...],
        descriptions: dict[str, Description],
        window: int | None,
    ) -> None:
        self.wanted, self._descriptions = wanted, descriptions
        self._grid, self._queue = grid, MessageQueue(grid, "discovery", window)
        self._next_listing = 0.0
        self._registered: dict[int, str] = {}  # names of all connected nodes, may be ""
        self._nodes_by_site: dict[str, int] = {}
        self._rejected: dict[int, str] = {}  # why a node does not count
        self._complete_since: float | None = None

    def poll(self, deadline: float) -> None:
        """Ask the nodes that are new, and read the answers that have come."""
        new = self._new_nodes(deadline)
        self._registered |= new
        self._queue.send(dict.fromkeys(new, describe_message()), deadline)
        for node, answer in self._queue.collect(deadline).items():
            self._record(node, _read_description(answer))
        if self._is_complete and self._complete_since is None:
            self._complete_since = time.monotonic()

    def _new_nodes(self, deadline: float) -> dict[int, str]:
        """Registered names of the nodes that have connected since the last call.

        At most a tenth of the time is spent on listing nodes, of which there may be thousands.
        """
        started = time.monotonic()
        if started < self._next_listing:
            return {}
        names = {info.node_id: info.name for info in list_nodes(self._grid, deadline)}
        ended = time.monotonic()
        self._next_listing = ended + _LISTING_PAUSE_FACTOR * (ended - started)
        return {node: name for node, name in names.items() if node not in self._registered}

    def _record(self, node: int, answer: Description | Failure) -> None:
        if isinstance(answer, Failure):
            self._rejected[node] = to_printable(answer.sentence)
            return
        name = answer.name
        if self._registered[node] not in ("", name):  # it cannot take the place of another site
            self._rejected[node] = (
                f"it calls itself '{name}'; use one name in its policy and its registration."
            )
        elif name in self._nodes_by_site and (name in self.wanted or not self.wanted):
            raise FederationError(
                f"Two nodes call themselves '{name}'; give each site's policy its own name."
            )
        else:
            self._nodes_by_site[name] = node
            self._descriptions[name] = answer

    def pause(self) -> None:
        time.sleep(FAST_POLL if self._queue.has_pending else SLOW_POLL)

    @property
    def missing(self) -> list[str]:
        """Wanted sites whose nodes have not answered."""
        return [name for name in self.wanted if name not in self._nodes_by_site]

    @property
    def is_partial(self) -> bool:
        """Whether some sites have answered, and some wanted ones have not."""
        return bool(self.missing and self._nodes_by_site)

    @property
    def has_failed(self) -> bool:
        """Whether the node of a wanted site has answered that it cannot take part."""
        return any(self._registered[node] in self.wanted for node in self._rejected)

    @property
    def _is_complete(self) -> bool:
        """Whether all wanted sites have answered, or all nodes if no site is named."""
        if self.wanted:
            return not self.missing
        return bool(self._registered) and not self._queue.has_pending and not self._rejected

    @property
    def is_done(self) -> bool:
        """Whether all sites have answered, and the other nodes have too or have taken too long."""
        if self.has_failed or self._complete_since is None:
            return False
        latest = self._complete_since + _DUPLICATE_NAME_SECONDS
        return not self._queue.has_pending or time.monotonic() > latest

    def nodes(self) -> dict[str, int]:
        return {
            name: self._nodes_by_site[name] for name in self.wanted or sorted(self._nodes_by_site)
        }

    def waiting_sentence(self) -> str:
        return f"Waiting for {_join_names(self.missing, ' and ')}; {self._answered_clause()}."

    def error_sentence(self) -> str:
        """Which sites are missing, and which nodes have answered what."""
        missing, facts = self.missing, self._facts()
        problem = "Not every node gave its name"
        if missing:
            problem = f"No node named {_join_names(missing, ' or ')} answered"
        return f"{problem} ({'; '.join(facts)}); check that all nodes are running."

    def _facts(self) -> list[str]:
        named = set(self._nodes_by_site.values()) | set(self._rejected)
        silent = [node for node in self._registered if node not in named]
        facts = [
            f"node '{self._registered[node]}': {sentence.rstrip('.')}"
            for node, sentence in self._rejected.items()
        ]
        if self._nodes_by_site:
            facts.append(self._answered_clause())
        if silent:
            facts.append(f"{len(silent)} node{'s' * (len(silent) > 1)} did not answer in time")
        return facts or ["no node is connected"]

    def _answered_clause(self) -> str:
        return f"answers came from {_join_names(sorted(self._nodes_by_site), ', ')}"


def _join_names(names: list[str], word: str) -> str:
    """Names with a word between them; of very many, the first and a number."""
    some = names if len(names) <= _MOST_NAMES else names[:_MOST_NAMES]
    left = len(names) - len(some)
    return word.join([*some, f"{left:,} others"] if left else some)


def _read_description(answer: bytes | Failure) -> Description | Failure:
    """What a site says about itself, or a Failure if the node did not say it."""
    if isinstance(answer, Failure):
        return answer
    try:
        return unpack_description(answer)
    except FedwadError as error:  # untrusted text from the node
        sentence = "".join(character for character in str(error) if character.isprintable())
        return Failure("invalid_reply", sentence[:_MAX_SENTENCE])
