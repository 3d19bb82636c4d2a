"""Flower: the same numbers as in process, in simulation and between processes; faults named;
nothing said too much."""

import contextlib
import io
import json
import logging
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import tomllib
import uuid
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from failing import fails

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")

from flwr.app import Error, Message

import fedwad
from command_line import run as command
from engines import flower_helpers as helpers
from engines.flower_loopback import Loopback, write_key
from fedwad.engines import _simulation, flower
from fedwad.engines._processes import Process
from fedwad.engines._simulation import FOLDER_VARIABLE, Simulation
from fedwad.engines.flower import _control, client_app, supernode
from fedwad.engines.flower import grid as grid_module
from fedwad.engines.flower._messages import LogReader, LogReport
from fedwad.engines.flower.grid import GridFederation
from fedwad.engines.flower.server_app import find_sites
from fedwad.engines.flower.submit import write_app
from fedwad.engines.job import Job, run
from fedwad.engines.site_file import parse_columns
from fedwad.errors import FederationError, FedwadError, InputError, PolicyError
from fedwad.federation import (
    Failure,
    Policy,
    describe_message,
    open_view,
    unpack,
    unpack_description,
)

DISTANCE = Job("distance", ("paris", "oslo"), {"method": "fedwad", "support": 5, "rounds": 3})
MATRIX = Job("matrix", ("paris", "oslo", "rome"), {"cells": 5})


def numbers(result):
    """A result without the seconds that it took and the replies that a policy lets a server keep."""
    content = {key: value for key, value in result.items() if key != "kept"}
    content["history"] = [
        {key: value for key, value in entry.items() if key != "seconds"}
        for entry in content["history"]
    ]
    return content


def explained(job, content):
    """Why the sites of a job differ, from what an engine returned."""
    if job.algorithm == "distance":
        return fedwad.DistanceResult.from_dict(content).explain().to_dict()
    found = fedwad.MatrixResult.from_dict(content).explain()
    return {pair: one.to_dict() for pair, one in found.items()}


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    helpers.write_sites(folder)
    return folder


@pytest.fixture(scope="module")
def expected(sites):
    """What the jobs give in this process."""
    found = {}
    for job in (DISTANCE, MATRIX):
        fed = fedwad.local({name: sites / f"{name}.npy" for name in job.clients})
        found[job.algorithm] = numbers(run(job, fed))
    return found


@pytest.fixture(scope="module")
def reasons(sites):
    """What explains them in this process."""
    fed = fedwad.local({name: sites / f"{name}.npy" for name in helpers.NAMES})
    return {job.algorithm: explained(job, run(job, fed)) for job in (DISTANCE, MATRIX)}


@pytest.fixture
def honest(sites):
    """Nodes that run our app, by number."""
    return {
        number: helpers.running(client_app.app, helpers.node_config(sites, name))
        for number, name in enumerate(helpers.NAMES, start=2)
    }


def federation(grid, wanted=helpers.NAMES, timeout=5.0):
    return GridFederation(grid, find_sites(grid, wanted, timeout), timeout)


# In this process: the real node app behind a Grid that misbehaves.


@pytest.mark.parametrize("job", [DISTANCE, MATRIX], ids=["distance", "matrix"])
def test_grid_gives_the_same_bits_as_in_process(honest, expected, reasons, job):
    result = run(job, federation(helpers.InProcessGrid(honest), job.clients))
    assert numbers(result) == expected[job.algorithm]
    assert explained(job, result) == reasons[job.algorithm]


def with_identifiers(folder, name):
    """A site's data as a table that also holds a number and a name of each person; the table."""
    path = folder / f"{name}.csv"
    rows = [
        f'{k},"Byron, Ada",{",".join(map(repr, row))}'
        for k, row in enumerate(np.load(folder / f"{name}.npy").tolist())
    ]
    path.write_text("\n".join(['id,"name, in full",u,v,w', *rows, ""]))
    return path


def test_columns_that_a_node_drops_are_as_if_they_were_not_there(sites, expected, tmp_path):
    drop = {"drop": ["id", "name, in full"], "schema": "none"}
    nodes = {
        number: helpers.running(
            client_app.app,
            helpers.node_config(sites, name, data=str(with_identifiers(sites, name)), **drop),
        )
        for number, name in enumerate(helpers.NAMES, start=2)
    }
    fed = federation(helpers.InProcessGrid(nodes), DISTANCE.clients)
    assert numbers(run(DISTANCE, fed)) == expected["distance"]
    site = {
        "data": str(sites / "oslo.csv"),
        "policy": None,
        "ledger": str(tmp_path / "ledger.sqlite"),
    }
    client = _simulation.open_site("oslo", site | {"drop": ["id", "name, in full"]})
    assert unpack(client.respond(describe_message())).content.schema == "wanted"
    assert {column.name for column in client.table.table.columns} == {"u", "v", "w"}
    with fails(InputError, "unknown-column", "paris.csv", "'ID'", "'id'"):
        flower.simulate(
            DISTANCE, {name: sites / f"{name}.csv" for name in DISTANCE.clients[::-1]}, drop="ID"
        )


def test_nodes_agree_on_a_schema(tmp_path):
    """Each message opens the node anew, and brings the schema."""
    rng = np.random.default_rng(0)
    nodes, frames = {}, {}
    kinds = ["describe", "columns", "summary"]
    for number, name in enumerate(helpers.NAMES, start=2):
        frame = {"age": rng.normal(60 + number, 9, 90), "sex": rng.choice(["f", "m"], 90)}
        frames[name] = pa.table(frame)
        (tmp_path / f"{name}.csv").write_text(
            "sex;age\n"
            + "".join(f"{s};{float(a)!r}\n" for a, s in zip(*frame.values(), strict=True))
        )
        Policy(kinds, name=name).save(tmp_path / f"{name}.toml")
        settings = helpers.node_config(tmp_path, name, data=f"{name}.csv")
        nodes[number] = helpers.running(client_app.app, settings)
    found = run(Job("matrix"), federation(helpers.InProcessGrid(nodes)))
    again = run(Job("matrix"), federation(helpers.InProcessGrid(nodes)))
    here = fedwad.matrix(fedwad.local(frames, policy=Policy(kinds)))
    agreed = fedwad.Schema.from_dict(found.pop("agreed_schema"))
    assert fedwad.Schema.from_dict(again.pop("agreed_schema")) == agreed
    assert numbers(found) == numbers(here.to_dict() | {"kind": "matrix"})
    assert numbers(again) == numbers(found) | {"traffic": again["traffic"]}
    assert (found["traffic"]["messages"], again["traffic"]["messages"]) == (6, 6)
    assert agreed.feature_names == ("age", "sex=f", "sex=m", "sex=other")


def test_a_pair_a_matrix_and_a_newcomer_are_asked_in_one_encoding(tmp_path):
    """Under the policy to start with, which answers about one schema and sends one summary. All
    connected sites agree, and a site that comes later is asked by the same."""
    rng = np.random.default_rng(0)
    policy = Path(__file__).parents[2] / "docs" / "policies" / "summary.toml"
    nodes, names = {}, (*helpers.NAMES, "wien")
    for number, name in enumerate(names, start=2):
        ages = [f"{age:.1f}" for age in rng.normal(60 + number, 9, 90)]
        sexes = rng.choice(["f", "m", "x"][: number - 1], 90)
        rows = "".join(f"{sex};{age}\n" for sex, age in zip(sexes, ages, strict=True))
        (tmp_path / f"{name}.csv").write_text(f"sex;age\n{rows}")
        (tmp_path / f"{name}.toml").write_text(policy.read_text().replace("paris", name))
        settings = helpers.node_config(tmp_path, name, data=f"{name}.csv")
        nodes[number] = helpers.running(client_app.app, settings)
    newcomer = nodes.pop(5)

    def ask(job):
        grid = helpers.InProcessGrid(nodes)
        found = find_sites(grid, job.clients, 5.0, with_others=job.needs_agreement)
        return run(job, GridFederation(grid, found, 5.0))

    first = ask(Job("distance", names[:2]))
    agreed = {"agreed": first["agreed_schema"]["schema"]}
    matrix = ask(Job("matrix", names[:3]))  # the same sites agree on the same
    assert matrix["agreed_schema"]["schema"] == agreed["agreed"]
    nodes[5] = newcomer
    wider = ask(Job("matrix", names, agreed))
    assert not matrix["failed"]
    assert not wider["failed"]
    assert wider["value"][0][1] == matrix["value"][0][1] == first["value"]
    assert wider["agreed_schema"]["schema"] == agreed["agreed"]
    with fails(FedwadError, "too-many-schemas"):  # a new agreement is a second schema
        ask(Job("distance", names[:2]))


def test_the_numbers_that_flower_adds_are_no_settings_of_a_site(sites):
    flowers = {"partition-id": 0, "num-partitions": 2}
    node = helpers.running(client_app.app, helpers.node_config(sites, "oslo") | flowers)
    ((_, reply),) = node(_asking())
    assert unpack_description(reply.content["fedwad"]["payload"]).name == "oslo"


def test_messages_of_a_round_go_out_in_one_send(honest):
    grid = helpers.InProcessGrid({node: helpers.late(one, 0.1) for node, one in honest.items()})
    fed, listed = federation(grid), grid.queries
    run(MATRIX, fed)
    assert grid.pushed[0] == 3  # who are you
    assert set(grid.pushed[1:]) == {3}
    assert grid.queries == listed + 1  # short rounds do not ask again who is online


def test_a_window_limits_the_messages_under_way(honest, expected):
    grid = helpers.InProcessGrid(honest)
    nodes = find_sites(grid, helpers.NAMES, 5.0, window=2)
    assert grid.pushed == [2, 1]
    wanted = {name: nodes[name] for name in DISTANCE.clients}
    fed = GridFederation(grid, wanted, 5.0, window=1)
    assert numbers(run(DISTANCE, fed)) == expected["distance"]
    assert set(grid.pushed[2:]) == {1}


def test_second_answers_are_dropped(honest, expected):
    grid = helpers.InProcessGrid({number: helpers.twice(one) for number, one in honest.items()})
    assert numbers(run(DISTANCE, federation(grid, DISTANCE.clients))) == expected["distance"]


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (helpers.silent, "silent", "no reply came within"),
        (helpers.failing, "silent", "its app failed"),
        (helpers.saying(helpers.content("a word")), "invalid_reply", "not a fedwad message"),
        (
            helpers.saying(helpers.RecordDict({"other": helpers.ConfigRecord({"payload": b"x"})})),
            "invalid_reply",
            "not a fedwad message",
        ),
        (helpers.saying(helpers.RecordDict()), "invalid_reply", "not a fedwad message"),
    ],
    ids=["missing", "error", "wrong type", "wrong record", "empty"],
)
def test_a_node_that_fails_has_a_failure_and_the_others_their_answer(honest, fault, code, words):
    nodes = {2: helpers.after_describe(honest[2], fault), 3: honest[3]}
    brought = federation(helpers.InProcessGrid(nodes), ("oslo", "paris")).exchange(
        {"oslo": describe_message(), "paris": describe_message()}, 0.5
    )
    assert isinstance(brought["paris"], bytes)
    assert isinstance(brought["oslo"], Failure)
    assert brought["oslo"].code == code
    assert words in brought["oslo"].sentence
    assert "patients" not in brought["oslo"].sentence  # Flower quotes the exception; we do not


def test_a_late_answer_is_silence_and_is_not_taken_for_the_next(honest, expected):
    slow = helpers.after_describe(
        honest[2], helpers.after_describe(helpers.late(honest[2], 0.6), honest[2])
    )
    fed = federation(helpers.InProcessGrid(honest | {2: slow}), DISTANCE.clients)
    first = fed.exchange({"oslo": describe_message(), "paris": describe_message()}, 0.3)
    assert first["oslo"] == Failure(
        "silent", "no reply came within 0.3 seconds; check that its node is running."
    )
    time.sleep(0.4)
    assert numbers(run(DISTANCE, fed)) == expected["distance"]


def test_bytes_that_are_not_a_message_are_invalid_by_name(honest):
    nodes = {2: helpers.after_describe(honest[2], helpers.saying(helpers.content(b"\x00\xff")))} | {
        3: honest[3]
    }
    with fails(FederationError, "bad-reply", "oslo"):
        run(DISTANCE, federation(helpers.InProcessGrid(nodes), ("oslo", "paris")))


def test_a_matrix_goes_on_without_a_node_that_dies_and_says_so(tmp_path, expected):
    """Units are those of the sites that answer, and a site answers in one system of units."""
    helpers.write_sites(tmp_path)
    nodes = {
        number: helpers.running(client_app.app, helpers.node_config(tmp_path, name))
        for number, name in enumerate(helpers.NAMES, start=2)
    }
    nodes[4] = helpers.after_describe(nodes[4], helpers.silent)
    result = run(MATRIX, federation(helpers.InProcessGrid(nodes), timeout=3.0))
    assert result["sites"] == ["paris", "oslo"]
    assert list(result["failed"]) == ["rome"]
    assert "no reply came within 3 seconds" in result["failed"]["rome"]
    assert result["value"][0][1] == expected["matrix"]["value"][0][1]


def test_a_reply_in_the_name_of_another_node_is_dropped(honest):
    def forged(message):
        (_, reply), *_ = honest[3](message)
        reply.metadata.__dict__["_src_node_id"] = 99
        return [(0.0, reply)]

    fed = federation(
        helpers.InProcessGrid({2: honest[2], 3: helpers.after_describe(honest[3], forged)}),
        ("oslo", "paris"),
    )
    assert fed.exchange({"paris": describe_message()}, 0.3)["paris"].code == "silent"


def test_a_grid_that_hangs_does_not_hang_the_round(honest):
    class Stuck(helpers.InProcessGrid):
        def pull_messages(self, message_ids):
            time.sleep(3.0 if self.stuck else 0.0)
            return super().pull_messages(message_ids)

    Stuck.stuck = False
    grid = Stuck(honest)
    fed = federation(grid)
    Stuck.stuck = True
    assert fed.exchange({"paris": describe_message()}, 0.3)["paris"].code == "silent"


def test_a_grid_that_breaks_is_a_lost_link(honest):
    class Broken(helpers.InProcessGrid):
        def pull_messages(self, message_ids):
            raise RuntimeError(f"run was stopped {message_ids}")

    fed = GridFederation(Broken(honest), {"oslo": 2, "paris": 3}, 5.0)
    with fails(FederationError, "cannot-connect"):
        fed.exchange({"oslo": describe_message(), "paris": describe_message()}, 5.0)


def test_a_push_that_fails_silences_everyone(honest):
    class Full(helpers.InProcessGrid):
        def push_messages(self, messages):
            list(messages)
            return []

    brought = GridFederation(Full(honest), {"oslo": 2}, 5.0).exchange(
        {"oslo": describe_message()}, 5.0
    )
    assert "rejected the message" in brought["oslo"].sentence


def test_two_nodes_of_one_name_are_refused(honest):
    with fails(FederationError, "repeated-site", "oslo"):
        find_sites(helpers.InProcessGrid(honest | {7: honest[2]}), ("oslo",), 5.0)
    with fails(FederationError, "repeated-site", "oslo"):
        find_sites(helpers.InProcessGrid(honest | {7: honest[2]}), (), 5.0)
    assert find_sites(helpers.InProcessGrid(honest | {7: honest[2]}), ("paris",), 5.0) == {
        "paris": 3
    }  # not its business


def test_a_node_keeps_the_name_it_was_registered_under(honest):
    with fails(FederationError, "bad-reply", "rome"):
        find_sites(helpers.InProcessGrid({2: honest[2]}, {2: "rome"}), ("rome",), 5.0)
    impostor = helpers.InProcessGrid(honest | {7: honest[2]}, {7: "mallory", 2: "oslo"})
    assert find_sites(impostor, ("oslo",), 5.0) == {"oslo": 2}
    with fails(FederationError, "no-reply", "mallory"):
        find_sites(impostor, (), 1.0)


def test_no_other_node_stands_in_for_one_that_cannot_take_part(honest):
    grid = helpers.InProcessGrid({2: honest[2], 3: honest[3]}, {3: "oslo"})
    with fails(FederationError, "bad-reply", "oslo"):
        find_sites(grid, ("oslo",), 5.0)


def test_a_node_of_another_version_is_not_called_missing(honest):
    def older(message):
        ((_, reply),) = honest[2](message)
        payload = reply.content["fedwad"]["payload"]
        reply.content["fedwad"]["payload"] = payload[:6] + b"\1\0" + payload[8:]
        return [(0.0, reply)]

    grid = helpers.InProcessGrid(honest | {2: older}, {2: "oslo"})
    with fails(FederationError, "wrong-version", "oslo"):
        find_sites(grid, ("oslo", "paris"), 5.0)


def test_a_node_that_is_away_gets_its_message_again(honest, expected, monkeypatch):
    monkeypatch.setattr(grid_module, "_AWAY_POLL", 0.1)
    calls = count()

    def away(message):
        return away_reply(message) if next(calls) in (2, 3, 6) else honest[2](message)

    grid, said = helpers.InProcessGrid(honest | {2: away}), []
    nodes = find_sites(grid, DISTANCE.clients, 5.0)
    fed = GridFederation(grid, nodes, 5.0, said.append)
    assert numbers(run(DISTANCE, fed)) == expected["distance"]
    assert said.count("Waiting for oslo to return.") == 2
    monkeypatch.setattr(grid_module, "AWAY_SECONDS", 0.3)
    always = helpers.after_describe(honest[2], away_reply)
    silent = federation(helpers.InProcessGrid(honest | {2: always}), DISTANCE.clients)
    with fails(FederationError, "no-reply", "oslo"):
        run(DISTANCE, silent)


def test_a_node_that_is_away_at_the_start_is_waited_for(honest, monkeypatch):
    """As after a restart of the SuperLink, which does not count it as online until a heartbeat."""
    monkeypatch.setattr(grid_module, "_AWAY_POLL", 0.1)
    calls = count()

    def away(message):
        return away_reply(message) if next(calls) < 2 else honest[2](message)

    names = {2: "oslo", 3: "paris"}
    nodes = find_sites(helpers.InProcessGrid(honest | {2: away}, names), ("oslo", "paris"), 5.0)
    assert nodes == {"oslo": 2, "paris": 3}
    gone = helpers.InProcessGrid(honest | {2: away_reply}, names)
    with fails(FederationError, "no-reply", "heartbeats"):
        find_sites(gone, ("oslo", "paris"), 4.0)


def test_a_lost_reply_is_asked_for_again(honest, expected, monkeypatch):
    """Also where no other site is asked in that round."""
    monkeypatch.setattr(grid_module, "_AWAY_POLL", 0.1)
    calls = count()

    def losing(message):
        lost = Message(Error(code=3, reason="no objects"), reply_to=message)
        return [(0.0, lost)] if next(calls) in (1, 4) else honest[2](message)

    fed = federation(helpers.InProcessGrid(honest | {2: losing}), DISTANCE.clients)
    assert isinstance(fed.exchange({"oslo": describe_message()}, 5.0)["oslo"], bytes)
    assert numbers(run(DISTANCE, fed)) == expected["distance"]


def test_a_node_that_took_a_message_and_was_started_again_gets_it_again(
    honest, expected, monkeypatch
):
    monkeypatch.setattr(grid_module, "_AWAY_POLL", 0.1)
    calls = count()

    def killed(message):
        if next(calls) not in (2, 4):
            return honest[2](message)
        grid.activated[2] += " and again"
        return []

    grid = helpers.InProcessGrid(honest | {2: killed})
    fed = federation(grid, DISTANCE.clients)
    assert numbers(run(DISTANCE, fed)) == expected["distance"]


def away_reply(message):
    return [(0.0, Message(Error(code=5, reason="no heartbeat"), reply_to=message))]


def test_all_sites_are_found_when_none_is_named(honest):
    assert find_sites(helpers.InProcessGrid(honest), (), 5.0) == {"oslo": 2, "paris": 3, "rome": 4}


def test_sites_that_do_not_show_up_are_named(honest):
    grid = helpers.InProcessGrid({2: honest[2], 3: helpers.silent})
    with fails(FederationError, "no-reply"):
        find_sites(grid, ("oslo", "lima"), 1.0)
    with fails(FederationError, "no-reply"):
        find_sites(grid, (), 1.0)
    with fails(FederationError, "no-reply"):
        find_sites(helpers.InProcessGrid({}), ("oslo",), 0.5)


def test_who_is_waited_for_is_reported_meanwhile(honest, monkeypatch):
    monkeypatch.setattr("fedwad.engines.flower.server_app._NOTICE_SECONDS", 0.2)
    said = []
    find_sites(helpers.InProcessGrid(honest), ("oslo",), 30.0, said.append)
    assert not said
    with fails(FederationError, "no-reply"):
        find_sites(helpers.InProcessGrid(honest), ("pari", "oslo"), 2.0, said.append)
    assert said == ["Waiting for pari; answers came from oslo, paris, rome."]


def test_a_silent_stranger_does_not_stop_a_run(honest, monkeypatch):
    monkeypatch.setattr("fedwad.engines.flower.server_app._DUPLICATE_NAME_SECONDS", 0.2)
    grid = helpers.InProcessGrid({2: honest[2], 3: helpers.silent})
    assert find_sites(grid, ("oslo",), 10.0) == {"oslo": 2}
    assert grid.queries < 50  # not at the end of the time


@pytest.mark.parametrize("lost", ["data", "policy"])
def test_a_site_that_cannot_be_opened_says_so_without_the_path(sites, lost, capsys):
    config = helpers.node_config(sites, "oslo", **{lost: "/srv/secret/patients.csv"})
    ((_, reply),) = helpers.running(client_app.app, config)(_asking())
    answer = unpack(reply.content["fedwad"]["payload"]).content
    assert "cannot open its data" in answer.sentence
    assert "/srv" not in answer.sentence
    assert "/srv/secret/patients.csv" in capsys.readouterr().err  # beside the data, where it helps
    grid = helpers.InProcessGrid({2: helpers.running(client_app.app, config)}, {2: "oslo"})
    with fails(FederationError, "cannot-open", "oslo") as caught:
        find_sites(grid, ("oslo",), 15.0)
    assert "/srv" not in str(caught.value)
    assert grid.queries < 5  # found out at once, not at the end of the time


def test_a_node_without_configuration_answers_nothing():
    ((_, reply),) = helpers.running(client_app.app, {})(_asking())
    assert isinstance(unpack(reply.content["fedwad"]["payload"]).content, Failure)


def test_a_message_without_a_payload_is_refused(sites):
    message = _asking()
    message.content = helpers.RecordDict({"fedwad": helpers.ConfigRecord({"payload": "words"})})
    ((_, reply),) = helpers.running(client_app.app, helpers.node_config(sites, "oslo"))(message)
    assert unpack(reply.content["fedwad"]["payload"]).content.code == "invalid_request"


def test_whatever_a_client_raises_stays_on_its_machine(capsys):
    class Broken:
        def respond(self, payload, requester):  # noqa: ARG002
            raise KeyError(f"row 17 of /srv/patients.csv {payload[:1]}")

    reply = client_app.answer(Broken(), _asking())
    answer = unpack(reply.content["fedwad"]["payload"]).content
    assert answer == Failure(
        "internal", "the node could not answer; its operator finds the reason in its log."
    )
    assert "row 17" in capsys.readouterr().err


@pytest.fixture
def simulation(monkeypatch, sites, tmp_path):
    """A simulated node of oslo; its data are a copy in this test's own folder."""
    data = shutil.copy(sites / "oslo.npy", tmp_path / "oslo.npy")
    Simulation(tmp_path).prepare(Job("matrix"), {"oslo": data}, None, {})
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return helpers.running(client_app.app, {"partition-id": 0, "data": str(data)})


def test_a_simulated_node_opens_nothing_outside_a_simulation(simulation, monkeypatch):
    ((_, reply),) = simulation(_asking())
    assert unpack_description(reply.content["fedwad"]["payload"]).name == "oslo"
    monkeypatch.delenv(FOLDER_VARIABLE)
    ((_, reply),) = simulation(_asking())
    assert isinstance(unpack(reply.content["fedwad"]["payload"]).content, Failure)


def test_a_simulated_node_reads_its_data_again_only_if_they_change(
    simulation, monkeypatch, tmp_path
):
    paths, held = [], _simulation.load_site_data
    monkeypatch.setattr(
        _simulation,
        "load_site_data",
        lambda path, *options: (paths.append(path), held(path, *options))[1],
    )

    def features():
        ((_, reply),) = simulation(_asking())
        return unpack(reply.content["fedwad"]["payload"]).content.features

    assert [features(), features()] == [3, 3]
    assert len(paths) == 1
    np.save(tmp_path / "oslo.npy", np.load(tmp_path / "oslo.npy")[:, :2])
    os.utime(tmp_path / "oslo.npy", ns=(1, 1))
    assert [features(), features()] == [2, 2]
    assert len(paths) == 2


def test_a_simulation_shares_progress_and_outcome_in_a_folder(tmp_path):
    writer, reader = Simulation(tmp_path), Simulation(tmp_path)
    assert reader.new_progress() == []
    writer.progress("Found\nthem.")
    writer.progress("One round.")
    assert reader.new_progress() == ["Found them.", "One round."]
    writer.progress("Another.")
    writer.finish({"kind": "distance"})
    assert reader.new_progress() == ["Another."]
    assert reader.new_progress() == []
    assert reader.follow(lambda: True, time.monotonic() + 5, print) == {"kind": "distance"}
    (tmp_path / "outcome.json").unlink()
    with fails(FederationError, "run-failed"):
        reader.follow(lambda: False, time.monotonic() + 5, print, every=0.1)
    with pytest.raises(TimeoutError):
        reader.follow(lambda: True, time.monotonic() + 0.2, print)


def test_the_node_says_its_operator_what_is_missing(sites, tmp_path):
    where = {"superlink": "127.0.0.1:1", "key": tmp_path / "key"}
    with fails(InputError, "no-such-file"):
        supernode.run(tmp_path / "none.csv", sites / "oslo.toml", **where)
    with fails(InputError, "no-such-file"):
        supernode.run(sites / "oslo.npy", tmp_path / "none.toml", **where)


@pytest.fixture
def serve(sites, tmp_path):
    """Start a node of oslo, which writes its log and takes signals as in a process of its own."""
    logger, signals = logging.getLogger("fedwad"), (signal.SIGINT, signal.SIGTERM)
    before = logger.handlers, logger.propagate, logger.level
    handlers = [(number, signal.getsignal(number)) for number in signals]

    def start(**options):
        files = sites / "oslo.npy", sites / "oslo.toml", tmp_path / "ledger.sqlite"
        supernode.run(*files, **({"superlink": "127.0.0.1:1"} | options))

    yield start
    logger.handlers, logger.propagate = before[:2]
    logger.setLevel(before[2])
    for number, handler in handlers:
        signal.signal(number, handler)


def test_the_node_needs_a_key_and_a_superlink(serve, tmp_path):
    with fails(InputError, "no-such-file"):
        serve(key=tmp_path / "key")
    (tmp_path / "key").write_text("no key")
    with fails(InputError, "bad-config"):
        serve(key=tmp_path / "key")
    write_key(tmp_path / "good")
    with fails(InputError, "bad-config"):
        serve(key=tmp_path / "good.pub")
    with fails(InputError, "bad-option", "address"):
        serve(superlink="127.0.0.1", key=tmp_path / "good")
    with fails(InputError, "no-such-file"):
        serve(key=tmp_path / "good", root_certificates=tmp_path / "ca.crt")
    with fails(FederationError, "cannot-connect"):
        serve(key=tmp_path / "good", patience=0.0)


def test_another_flower_inside_is_stated_in_one_sentence(serve, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "fedwad.engines.flower._internals", raising=False)
    monkeypatch.setitem(sys.modules, "flwr.supernode.fleet_http_client", None)
    with fails(FederationError, "wrong-version"):
        serve(key=tmp_path / "key")


_STARTS_A_CHILD = """
import subprocess, time
subprocess.Popen(["sleep", "300"], start_new_session=True)
time.sleep(300)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_do_not_outlive_the_one_that_started_them(tmp_path, number):
    """A starter that is killed, and a grandchild in a session of its own, as Flower has them."""
    outer = (
        "import os, pathlib, sys, time; from fedwad.engines._processes import Process\n"
        f"log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        f"Process([sys.executable, '-c', {_STARTS_A_CHILD!r}], os.environ, log)\n"
        "print('started', flush=True); time.sleep(300)"
    )
    mark = f"orphan-{uuid.uuid4()}"
    variables = {**os.environ, "FEDWAD_TEST_MARK": mark}
    with subprocess.Popen(
        [sys.executable, "-c", outer], env=variables, stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout.readline() == b"started\n"
        _wait_until(lambda: any("sleep 300" in command for command in helpers.strays(mark)))
        starter.send_signal(number)
    _wait_until(lambda: helpers.strays(mark) == [])
    assert helpers.strays(mark) == []


def test_a_process_ends_with_what_it_started(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDWAD_TEST_MARK", mark := f"family-{uuid.uuid4()}")
    command = [sys.executable, "-c", _STARTS_A_CHILD]
    process = Process(command, os.environ, tmp_path / "log", grace=0.5)
    _wait_until(lambda: any("sleep 300" in command for command in helpers.strays(mark)))
    process.end()
    assert helpers.strays(mark) == []


def _asking():
    message = helpers.Message(helpers.content(describe_message()), 2, "query")
    message.metadata.__dict__["_message_id"] = "message"
    return message


# Results through a log, and the app that is submitted.

_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def logged(marker, outcome, *sentences):
    """The lines of a log in which a run reports."""
    report = LogReport(marker)
    with contextlib.redirect_stdout(io.StringIO()) as log:
        for sentence in sentences:
            report.progress(sentence)
        report.finish(outcome)
    return log.getvalue().splitlines()


@given(
    st.dictionaries(st.text(), _plain, max_size=5),
    st.lists(st.text(max_size=30), max_size=5),
    st.randoms(),
)
def test_a_result_survives_a_log_that_others_write_to(result, noise, random):
    log = [
        *logged("fedwad-1", result, "Found\nthem."),
        *noise,
        *logged("fedwad-2", {"other": 1}),
    ]
    end = log.pop(next(i for i, line in enumerate(log) if line.startswith("fedwad-1 end")))
    random.shuffle(log)
    reader = LogReader("fedwad-1")
    sentences = [
        sentence for line in [*log, *log, end] if (sentence := reader.read(line)) is not None
    ]
    assert reader.outcome == result
    assert sentences == ["Found them."]


def test_long_results_travel_in_pieces_and_damage_is_noticed():
    result = {"numbers": np.random.default_rng(0).normal(size=20_000).tolist()}
    log = logged("m", result)
    assert len(log) > 3
    reader = LogReader("m")
    for line in log:
        reader.read(line)
    assert reader.outcome == result
    for damaged in ([log[0][:-8] + "AAAAAAAA", *log[1:]], log[1:], [*log[:-1], log[-1][:-1] + "9"]):
        reader = LogReader("m")
        for line in damaged[:-1]:
            reader.read(line)
        with fails(FederationError, "bad-message"):
            reader.read(damaged[-1])


@given(st.text(), st.lists(st.text(min_size=1), min_size=2, max_size=2))
@example("a \x7f and \u2028 \" \\ '", ["\n", "é"])
def test_the_submitted_app_holds_the_job_and_no_code(tmp_path_factory, word, clients):
    folder = tmp_path_factory.mktemp("app")
    job = Job("distance", tuple(clients), {"method": word})
    app, marker = write_app(folder, job, 5.0, 5.0)
    assert [path.name for path in app.rglob("*")] == ["pyproject.toml"]
    content = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"][
        "app"
    ]
    assert Job.from_json(content["config"]["job"]) == job
    assert content["config"]["marker"] == marker
    assert all(name.startswith("fedwad.engines.flower.") for name in content["components"].values())


def test_a_job_too_large_for_flower_is_refused(tmp_path):
    job = Job("distance", ("a", "b"), {"init": [[0.5]] * 300_000})
    with fails(InputError, "too-large"):
        write_app(tmp_path, job, 5.0, 5.0)


@pytest.mark.parametrize("name", ["round_timeout", "patience"])
@pytest.mark.parametrize("seconds", ["inf", "nan"])
def test_times_that_toml_cannot_hold_as_json_are_refused(name, seconds):
    with fails(InputError, "bad-option", name, seconds):
        flower.submit(DISTANCE, connect="127.0.0.1:1", **{name: float(seconds)})


def test_without_flower_one_sentence_says_what_to_install(monkeypatch, sites):
    monkeypatch.setattr("fedwad.engines.job.find_spec", lambda _: None)
    with fails(FederationError, "missing-package", "fedwad[flower]"):
        flower.submit(DISTANCE, connect="127.0.0.1:1")
    with fails(FederationError, "missing-package", "fedwad[flower]"):
        flower.simulate(DISTANCE, {name: sites / f"{name}.npy" for name in helpers.NAMES})


def test_importing_the_engine_loads_no_flower():
    code = "import sys, fedwad.engines.flower; print('flwr' in sys.modules, 'ray' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.split() == ["False", "False"]


def test_a_certificate_that_is_not_there_is_named(tmp_path):
    with fails(InputError, "no-such-file"):
        flower.submit(DISTANCE, connect="127.0.0.1:1", root_certificates=tmp_path / "ca.crt")


def test_simulation_needs_a_readable_file_for_each_site(sites, tmp_path):
    with fails(InputError, "no-such-file"):
        flower.simulate(DISTANCE, {"rome": sites / "rome.npy"})
    with pytest.raises(InputError):
        flower.simulate(DISTANCE, {"paris": tmp_path / "none.npy", "oslo": sites / "oslo.npy"})


# Between processes, on this machine: a SuperLink with TLS and node authentication, and nodes with
# keys of their own.


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, sites):
    folder = tmp_path_factory.mktemp("flower")
    with Loopback(folder) as loopback:
        for name in helpers.NAMES:
            loopback.site(name, sites / f"{name}.npy", sites / f"{name}.toml")
        yield loopback
    assert helpers.strays(f"FLWR_HOME={folder}") == []


slow = pytest.mark.slow
# pytest-xdist keeps these tests in one process, so that they share one deployment.
together = pytest.mark.xdist_group("flower")


@slow
@together
@pytest.mark.parametrize("job", [DISTANCE, MATRIX], ids=["distance", "matrix"])
def test_deployment_gives_the_same_bits_as_in_process(deployment, expected, reasons, job):
    said = []
    result = deployment.submit(job, timeout=400, on_progress=said.append)
    found, here = numbers(result), dict(expected[job.algorithm])
    messages = found.pop("traffic")["messages"] - here.pop("traffic")["messages"]
    assert found == here
    # Units are those of all connected sites, so the others are asked for their columns.
    assert messages == len(helpers.NAMES) - len(job.clients)
    assert explained(job, result) == reasons[job.algorithm]
    # All connected sites are found, after one may have been waited for.
    assert any(f"Found {', '.join(job.clients)}" in line for line in said[:2])
    assert len(said) > 1


@slow
@together
@pytest.mark.parametrize("job", [DISTANCE, MATRIX], ids=["distance", "matrix"])
def test_simulation_gives_the_same_bits_as_in_process(sites, expected, reasons, job, monkeypatch):
    monkeypatch.setenv("FEDWAD_TEST_MARK", word := f"simulation-{uuid.uuid4()}")
    data = {name: sites / f"{name}.npy" for name in helpers.NAMES}
    result = flower.simulate(job, data, timeout=400)
    assert numbers(result) == expected[job.algorithm]
    assert explained(job, result) == reasons[job.algorithm]
    _wait_until(lambda: helpers.strays(word) == [])  # some of Ray's are still on their way out
    assert helpers.strays(word) == []


@slow
@together
def test_a_newcomer_on_the_engine_joins_a_saved_matrix(sites, tmp_path):
    data = {name: np.load(sites / f"{name}.npy") for name in ("oslo", "paris")}
    fedwad.matrix(data).save(tmp_path / "m.json")
    words = ("join", sites / "rome.npy", "--matrix", tmp_path / "m.json", "--json")
    here, there = command(*words), command(*words, "--engine", "flower", "--timeout", "400")
    assert here.returncode == there.returncode == 3
    assert json.loads(there.stdout) == json.loads(here.stdout)


@pytest.fixture(scope="module")
def stock(deployment, sites, tmp_path_factory):
    """Two of Flower's own SuperNodes: lyon with the data of oslo, and bonn with none."""
    folder = tmp_path_factory.mktemp("stock")
    (folder / "lyon.npy").write_bytes((sites / "oslo.npy").read_bytes())
    started = [
        deployment.stock_site("lyon", folder / "lyon.npy", helpers.write_policy(folder, "lyon")),
        deployment.stock_site(
            "bonn", folder / "secret" / "patients.csv", helpers.write_policy(folder, "bonn")
        ),
    ]
    for name in ("lyon", "bonn"):
        _wait_until(lambda name=name: "SuperNode ID" in deployment.log(name))
    yield folder
    for process in started:
        process.end()


@slow
@together
def test_stock_supernodes_give_the_same_bits(deployment, stock, sites):  # noqa: ARG001
    fed = fedwad.local({name: sites / f"{name}.npy" for name in ("oslo", "rome")})
    result = deployment.submit(
        Job("distance", ("lyon", "rome"), {"method": "summary"}), timeout=400
    )
    assert result["value"] == fedwad.distance(fed["oslo"], fed["rome"], method="summary").value


@slow
@together
def test_stock_supernodes_hide_what_they_cannot_open(deployment, stock):  # noqa: ARG001
    with fails(FederationError, "cannot-open", "bonn") as caught:
        deployment.submit(Job("distance", ("bonn", "rome"), {}), timeout=400)
    assert "secret" not in str(caught.value)
    assert "secret" in deployment.log("bonn")


@pytest.fixture(scope="module")
def quito(deployment, sites, tmp_path_factory):
    """A site that answers rounds of FedWaD and no summaries: its policy, and its process."""
    policy = helpers.write_policy(
        tmp_path_factory.mktemp("quito"), "quito", '["describe", "columns", "transport"]'
    )
    return policy, deployment.site("quito", sites / "oslo.npy", policy)


@slow
@together
def test_a_policy_that_refuses_is_heard_by_the_caller_and_a_killed_node_named(deployment, quito):
    policy, process = quito
    with fails(PolicyError, "kind-refused", "quito"):
        deployment.submit(Job("distance", ("quito", "rome"), {"method": "summary"}), timeout=400)
    entries = open_view(policy.with_suffix(".ledger.sqlite")).entries
    assert entries[-1].outcome == "refused"

    def kill(sentence):
        if sentence.startswith("Found"):
            process.kill()

    job = Job("distance", ("quito", "rome"), {"method": "fedwad", "support": 5, "rounds": 50})
    with fails(FederationError, "no-reply", "quito"):
        deployment.submit(job, timeout=400, round_timeout=10, on_progress=kill)


@slow
@together
def test_a_node_without_a_registered_key_gets_nothing(deployment, sites, tmp_path):
    helpers.write_policy(tmp_path, "oslo")
    key = deployment.key("stranger", register=False)
    process = deployment.site(
        "oslo", sites / "oslo.npy", tmp_path / "oslo.toml", key, log="stranger-1"
    )
    stock = deployment.stock_site(
        "oslo", sites / "oslo.npy", tmp_path / "oslo.toml", key, log="stranger-2"
    )
    stock.wait(180)
    assert stock.returncode != 0
    _wait_until(lambda: "its key is not registered" in deployment.log("stranger-1"))
    assert process.poll() is None  # it goes on trying, in vain
    process.send_signal(signal.SIGTERM)
    process.wait(90)
    assert "its key is not registered" in deployment.log("stranger-1")
    assert "Connected" not in deployment.log("stranger-1")
    ledger = tmp_path / "oslo.ledger.sqlite"
    assert not ledger.exists() or not open_view(ledger).entries


@slow
@together
def test_plain_text_and_unsigned_requests_get_nothing(deployment):
    with closing(HTTPConnection(deployment.address, timeout=10)) as plain:
        plain.request("GET", "/health")
        with pytest.raises((HTTPException, OSError)):  # no HTTP at all comes back
            plain.getresponse()
    trusted = ssl.create_default_context(cafile=str(deployment.authority))
    with closing(HTTPSConnection(deployment.address, timeout=10, context=trusted)) as unsigned:
        unsigned.request(
            "POST", "/v1/fleet/pull-messages", b"\n\0", {"Content-Type": "application/protobuf"}
        )
        assert unsigned.getresponse().status == 401
    with fails(FederationError, "cannot-connect"):
        flower.submit(
            DISTANCE, connect=deployment.address, timeout=60
        )  # with the system's certificates


_EVIL_APP = """
[project]
name = "evil"
version = "1.0.0"
dependencies = []
[tool.flwr.app]
publisher = "evil"
[tool.flwr.app.components]
serverapp = "evil.server:app"
clientapp = "evil.client:app"
"""
_EVIL_CLIENT = """
import pathlib
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.query()
def steal(message, context):
    pathlib.Path(context.node_config["site"]).with_suffix(".stolen").touch()
    return Message(RecordDict(), reply_to=message)
"""
_EVIL_SERVER = """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    content = RecordDict({"fedwad": ConfigRecord({"please": 1})})
    messages = [Message(content, node, "query") for node in grid.get_node_ids()]
    replies = grid.send_and_receive(messages, timeout=40)
    for reply in replies:
        if reply.has_content():
            print("said", [bytes(record["payload"]) for record in reply.content.values()])
    print("all said")
"""


@slow
@together
def test_an_app_that_an_analyst_submits_runs_at_stock_nodes_and_not_at_ours(
    deployment,
    stock,  # noqa: ARG001
    sites,
    tmp_path,
):
    (tmp_path / "evil").mkdir()
    (tmp_path / "pyproject.toml").write_text(_EVIL_APP)
    for name, text in {"__init__": "", "client": _EVIL_CLIENT, "server": _EVIL_SERVER}.items():
        (tmp_path / "evil" / f"{name}.py").write_text(text)
    heard = "".join(
        deployment.control.log(deployment.control.start(tmp_path), time.monotonic() + 120)
    )
    assert "all said" in heard
    assert heard.count("something that is not a fedwad message") >= len(helpers.NAMES)  # ours
    # Flower's own: what the documentation warns of.
    assert (deployment.folder / "lyon.site.stolen").exists()
    assert list(sites.glob("*.stolen")) == []


def _wait_until(happened):
    deadline = time.monotonic() + 180
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.2)


@slow
@together
def test_an_interrupted_call_stops_the_run(deployment, monkeypatch):
    stopped = []
    stop = _control.Control.stop
    monkeypatch.setattr(
        _control.Control, "stop", lambda self, number: (stopped.append(number), stop(self, number))
    )

    def interrupt(sentence):
        raise KeyboardInterrupt(sentence)

    with pytest.raises(KeyboardInterrupt):
        deployment.submit(
            Job("distance", ("paris", "oslo"), {"method": "fedwad", "rounds": 200}),
            timeout=400,
            on_progress=interrupt,
        )
    assert deployment.control.status(stopped[0]) == "finished:stopped"


@slow
@together
def test_a_superlink_that_is_killed_is_reported_and_the_run_resumed(sites, tmp_path, expected):
    """The caller gets a sentence; after a restart the nodes come back and no round is asked
    twice."""
    rounds = tmp_path / "rounds"
    rounds.mkdir()
    policies = {name: helpers.write_policy(tmp_path, name) for name in ("paris", "oslo")}
    said = []
    with Loopback(tmp_path, {"FEDWAD_CHECKPOINTS": str(rounds)}, database=True) as loopback:
        for name, policy in policies.items():
            loopback.site(name, sites / f"{name}.npy", policy)

        def kill(sentence):
            said.append(sentence)
            if sum("sites answered" in line for line in said) == 2:  # moments, first round
                loopback.superlink.kill()
                loopback.superlink.wait()

        with fails(FederationError, "cannot-connect") as caught:
            loopback.submit(DISTANCE, timeout=300, on_progress=kill)
        assert not any(name in str(caught.value) for name in policies)  # the link, and no site
        loopback.start_superlink()
        result = loopback.submit(DISTANCE, timeout=400, patience=90, resume=True)
        assert numbers(result) == expected["distance"]
        assert list(rounds.iterdir()) == []
    for policy in policies.values():
        queries = [
            entry.kind
            for entry in open_view(policy.with_suffix(".ledger.sqlite")).entries
            if entry.is_query
        ]
        assert queries.count("columns") == 1
        assert queries.count("cells") == 1
        assert (
            3 <= queries.count("transport") <= 4
        )  # the round in which it died may have been answered and lost
    assert helpers.strays(f"FLWR_HOME={tmp_path}") == []


@slow
@together
@pytest.mark.skipif(
    not shutil.which("openssl") or not shutil.which("ssh-keygen"),
    reason="needs openssl and ssh-keygen",
)
def test_the_commands_of_the_documentation_run(monkeypatch):
    monkeypatch.setenv("FEDWAD_TEST_MARK", word := f"script-{uuid.uuid4()}")
    script = Path(__file__).parents[2] / "scripts" / "flower-loopback.sh"
    variables = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        [script], env=variables, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "paris" in done.stdout
    assert re.search(r"\b[1-9] answered", done.stdout)
    assert helpers.strays(word) == []


def test_settings_with_any_characters_are_toml(tmp_path):
    job = Job("matrix", ("a\x7fb",))
    app, _ = write_app(tmp_path, job, 5.0, 1.5)
    config = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))
    assert Job.from_json(config["tool"]["flwr"]["app"]["config"]["job"]) == job
    certificate = tmp_path / "\N{ROBOT FACE}.crt"
    certificate.touch()
    _control.Control(tmp_path, "hub:1", certificate)
    config = tomllib.loads((tmp_path / "home" / "config.toml").read_text(encoding="utf-8"))
    assert config["superlink"]["fedwad"]["root-certificates"] == str(certificate.resolve())


def test_a_job_of_an_unknown_algorithm_is_named():
    with fails(InputError, "unknown-method", "There"):
        Job.from_json('{"algorithm": "sort", "clients": [], "options": {}}')


def test_a_schema_for_other_processes_is_a_file():
    schema = fedwad.local({"a": pa.table({"x": [1.0, 2.0]}), "b": pa.table({"x": [3.0]})}).schema
    with fails(InputError, "bad-option"):
        parse_columns({"schema": schema})
