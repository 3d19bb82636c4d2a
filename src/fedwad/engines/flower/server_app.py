"""The ServerApp that a SuperLink runs: it finds the sites, runs the job, reports the outcome."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedwad._words import pluralize, to_printable
from fedwad.engines._simulation import Simulation
from fedwad.engines.flower._messages import LogReport
from fedwad.engines.flower.grid import (
    FAST_POLL,
    SLOW_POLL,
    GridFederation,
    MessageQueue,
    call_until,
    join_names,
)
from fedwad.engines.job import CHECKPOINTS_VARIABLE, Job, error_outcome, run_with_journal
from fedwad.errors import FederationError, FedwadError
from fedwad.federation import Description, Failure, describe_message, error_of, unpack_description

# Seconds for further nodes to answer after all wanted sites have: another node may give a name that
# is already taken.
_DUPLICATE_NAME_SECONDS = 8.0
_NOTICE_SECONDS = 8.0  # until a sentence says which sites are still missing


def find_sites(
    grid: Grid,
    wanted: Iterable[str] = (),
    timeout: float = 60.0,
    on_progress: Callable[[str], None] | None = None,
    descriptions: dict[str, Description] | None = None,
    window: int | None = None,
    with_others: bool = False,
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
    with_others : whether sites that answer in this time and are not wanted come too

    Raises
    ------
    FederationError if a site is missing after `timeout` seconds, if the node of a wanted site says
    that it cannot take part or gives another name, or if two nodes give one name.
    """
    wanted, descriptions = tuple(wanted), {} if descriptions is None else descriptions
    started = time.monotonic()
    deadline, notice, next_listing = started + timeout, started + _NOTICE_SECONDS, started
    # A node whose SuperLink was restarted counts as away until its next heartbeat.
    queue = MessageQueue(grid, "discovery", window, patience=0.8 * timeout)
    registered: dict[int, str] = {}  # names of all connected nodes, may be ""
    found: dict[str, int] = {}  # nodes by the name that they give
    rejected: dict[int, Failure] = {}  # why a node does not count
    twice: set[str] = set()  # names that two nodes give
    missing, is_complete, give_up = list(wanted), False, deadline
    while (now := time.monotonic()) < deadline:
        if now >= next_listing:
            nodes = call_until(deadline, grid.get_nodes, otherwise=[])
            names = {info.node_id: info.name for info in nodes}
            # At most a tenth of the time is spent on listing nodes; there may be thousands.
            next_listing = time.monotonic() + 10 * (time.monotonic() - now)
            new = [node for node in names if node not in registered]
            registered |= names
            queue.send(dict.fromkeys(new, describe_message()), deadline)
        for node, answer in queue.collect(deadline).items():
            description = _read_description(answer, registered[node])
            if isinstance(description, Failure):
                rejected[node] = description
                if registered[node] in wanted:
                    raise error_of(description, registered[node])
            elif description.name in found and (description.name in wanted or not wanted):
                raise FederationError(
                    f"Two nodes call themselves '{description.name}'; give each site's policy its"
                    " own name.",
                    "repeated-site",
                )
            elif description.name in found:  # nobody wants it, and it is not known which is meant
                twice.add(description.name)
            else:
                found[description.name] = node
                descriptions[description.name] = description
        missing = [name for name in wanted if name not in found]
        all_answered = bool(registered) and not queue.has_pending and not rejected
        if not is_complete and (not missing if wanted else all_answered):
            is_complete, give_up = True, time.monotonic() + _DUPLICATE_NAME_SECONDS
        if is_complete and (not queue.has_pending or time.monotonic() > give_up):
            break
        if on_progress and time.monotonic() > notice and missing and found:
            on_progress(f"Waiting for {join_names(missing, ' and ')}; {_who_answered(found)}.")
            on_progress = None
        time.sleep(FAST_POLL if queue.has_pending else SLOW_POLL)
    if is_complete:
        others = sorted(found.keys() - {*wanted, *twice}) if with_others or not wanted else ()
        return {name: found[name] for name in (*wanted, *others)}
    facts = [
        f"node '{registered[node]}': {to_printable(failure.sentence).rstrip('.')}"
        for node, failure in rejected.items()
    ]
    facts += [_who_answered(found)] if found else []
    silent = len(registered.keys() - {*found.values(), *rejected})
    facts += [f"{pluralize(silent, 'node')} did not answer in time"] if silent else []
    problem = "Not every node gave its name"
    if missing:
        problem = f"No node named {join_names(missing, ' or ')} answered"
    raise FederationError(
        f"{problem} ({'; '.join(facts) or 'no node is connected'}); check that all nodes are"
        " running.",
        "no-reply",
    )


def _who_answered(found: Iterable[str]) -> str:
    return f"answers came from {join_names(sorted(found))}"


def _read_description(answer: bytes | Failure, registered: str) -> Description | Failure:
    """What a node says about itself, or why it does not count."""
    if isinstance(answer, Failure):
        return answer
    try:
        description = unpack_description(answer)
    except FedwadError as error:  # untrusted text from the node
        return Failure("invalid_reply", to_printable(str(error)), error.code)
    if registered in ("", description.name):
        return description
    return Failure(  # it cannot take the place of another site
        "invalid_reply",
        f"it calls itself '{description.name}'; use one name in its policy and its registration.",
    )


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one job. The caller always receives a result or one sentence."""
    settings: dict[str, Any] = dict(context.run_config)
    simulation = Simulation.current()
    with suppress(ImportError, AttributeError):  # in another version of Flower a run takes longer
        from fedwad.engines.flower import _internals

        _internals.shorten_pauses()
        if simulation is not None:
            _internals.search_only_addressed_nodes(grid)
    report = simulation or LogReport(str(settings["marker"]))
    try:
        job = Job.from_json(str(settings["job"]))
        names = job.clients if simulation is None else simulation.names()
        window = None if simulation is None else 64  # it keeps all messages under way in memory
        descriptions: dict[str, Description] = {}
        patience, timeout = float(settings["patience"]), float(settings["round-timeout"])
        nodes = find_sites(
            grid, names, patience, report.progress, descriptions, window, job.needs_agreement
        )
        report.progress(f"Found {join_names([*nodes])}.")
        federation = GridFederation(grid, nodes, timeout, report.progress, window)
        federation.descriptions = descriptions
        folder, resume = os.environ.get(CHECKPOINTS_VARIABLE), bool(settings["resume"])
        outcome = run_with_journal(job, federation, folder, job.to_json(), resume)
    except Exception as error:
        outcome = error_outcome(error)
    report.finish(outcome)
    sys.stdout.flush()
