"""Faults between real processes on both engines: a node that is stopped for 40 s, or killed and
started again, and a file that changes under a running node."""

import re
import threading
import time

import numpy as np
import pytest

import fedwad
from engines.deployments import SITES
from failing import fails
from fedwad.engines.job import Job, run
from fedwad.errors import FederationError

slow = pytest.mark.slow
POLICY = """\
name = "{name}"
allow = ["describe", "columns", "summary", "transport", "cells"]
min_cell_size = 1
rounding = 0.0
"""
NAMES = ("oslo", "paris")
JOB = Job("distance", NAMES, {"method": "fedwad", "support": 6, "rounds": 40})


def write_sites(folder):
    rng = np.random.default_rng(5)
    data, policies = {}, {}
    for shift, name in enumerate(NAMES):
        data[name], policies[name] = folder / f"{name}.npy", folder / f"{name}.toml"
        np.save(data[name], rng.normal(shift, 1.0, (80, 3)))
        policies[name].write_text(POLICY.format(name=name))
    return data, policies


@pytest.fixture(scope="module", params=["flower", "flare"])
def sites(request, tmp_path_factory):
    module = {"flower": "flwr", "flare": "nvflare"}[request.param]
    pytest.importorskip(module, reason=f"pip install 'fedwad[{request.param}]'")
    folder = tmp_path_factory.mktemp(request.param)
    with SITES[request.param](folder / "engine", *write_sites(folder)) as sites:
        yield sites


@pytest.fixture(scope="module")
def value(sites):
    return run(JOB, fedwad.local(sites.data))["value"]


def disturbed(sites, disturb, seed):
    """Run the job, and disturb it in its third round; the seconds of the slowest."""
    lines, found = [], {}
    job = Job(JOB.algorithm, JOB.clients, {**JOB.options, "reveal": "every", "seed": seed})

    def go():
        try:
            found["result"] = sites.submit(
                job, timeout=500.0, round_timeout=200.0, on_progress=lines.append
            )
        except FederationError as error:
            found["error"] = error

    started = time.monotonic()
    thread = threading.Thread(target=go)
    thread.start()
    while sum("answered" in line for line in lines) < 3 and thread.is_alive():
        time.sleep(0.05)
    disturb()
    thread.join(500.0)
    assert "result" in found, (found, lines[-5:])
    expected = run(job, fedwad.local(sites.data))
    assert found["result"]["value"] == expected["value"]
    print(f"{time.monotonic() - started:.0f} s: {lines}")
    return max(map(float, re.findall(r"answered in ([\d.]+) s", " ".join(lines))))


@slow
def test_a_node_that_is_stopped_for_40_seconds_goes_on(sites):
    def stop():
        stopped = sites.processes("oslo")
        for process in stopped:
            process.suspend()
        time.sleep(40)
        for process in stopped:
            process.resume()

    disturbed(sites, stop, seed=1)


@slow
def test_a_node_that_is_killed_and_comes_back_goes_on(sites):
    def restart():
        sites.kill("oslo")
        time.sleep(3)
        sites.start("oslo")

    disturbed(sites, restart, seed=2)


#: A node that is killed with the sixth message in its hands.
CRASH = """
import os, signal, sys
from itertools import count
from fedwad_command import main
from fedwad.engines.flower import _internals

owner, name = {
    "taken": (_internals.SuperLinkClient, "fetch"),
    "answered": (_internals.SuperLinkClient, "send"),
    "announced": (_internals, "push_objects"),
}[sys.argv.pop(1)]
plain, calls = getattr(owner, name), count(1)


def crash(*arguments, **options):
    if next(calls) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(*arguments, **options)


setattr(owner, name, crash)
main()
"""


@slow
@pytest.mark.parametrize("sites", ["flower"], indirect=True)
@pytest.mark.parametrize("moment", ["taken", "answered", "announced"])
def test_a_node_that_is_killed_with_a_message_in_its_hands_gets_it_again(sites, moment):
    sites.stop("oslo")
    sites.start("oslo", program=("-c", CRASH, moment))

    def restart():
        sites.wait("oslo")
        time.sleep(3)
        sites.start("oslo")

    seed = ["taken", "answered", "announced"].index(moment) + 10
    assert disturbed(sites, restart, seed) < 100


@slow
def test_data_that_changed_under_a_running_node_are_not_answered_about(sites):
    """The last test of the file: the data stay changed."""
    job = Job("distance", NAMES, {"cells": 5, "seed": 7})
    sites.submit(job)
    rng = np.random.default_rng(6)
    np.save(sites.data["oslo"], rng.normal(0.0, 1.0, (81, 3)))
    with pytest.raises(FederationError, match="oslo"):
        sites.submit(job)


def test_a_file_that_changed_is_noticed_and_one_that_was_touched_is_read_again(tmp_path):
    from fedwad.federation import DescribeRequest, open_client

    data, policies = write_sites(tmp_path)
    client = open_client(data["oslo"], policies["oslo"])
    client.answer(DescribeRequest())
    np.save(data["oslo"], np.load(data["oslo"]))  # the same content at another time
    client.answer(DescribeRequest())
    np.save(data["oslo"], np.load(data["oslo"])[1:])
    with fails(FederationError, "changed-data"):
        client.answer(DescribeRequest())
    data["oslo"].unlink()
    with fails(FederationError, "changed-data"):
        client.answer(DescribeRequest())
