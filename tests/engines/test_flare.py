"""NVIDIA FLARE: the pieces against stand-ins of FLARE, then the simulator, then real processes with
mutual TLS."""

from __future__ import annotations

import base64
import json
import math
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import command_line
import fedwad
from engines.flare_helpers import (
    FakeEngine,
    FakeSite,
    Running,
    holds,
    received,
    silence,
    submit_foreign,
    with_identifiers,
    write_data,
    write_policy,
)
from failing import fails
from fedwad._files import to_toml
from fedwad.engines import flare
from fedwad.engines._processes import free_port
from fedwad.engines.flare import startup_kit
from fedwad.engines.flare._job_folder import (
    CONTROLLER,
    EXECUTOR,
    MESSAGE,
    OPEN,
    OPENING,
    READY,
    write_job_folder,
)
from fedwad.engines.job import Job, error_outcome, run
from fedwad.engines.site_file import open_site_file, read_site_file
from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Failure,
    Policy,
    describe_message,
    open_client,
    open_view,
    unpack,
    unpack_description,
)
from web import get

needs_flare = pytest.mark.skipif(
    find_spec("nvflare") is None, reason="NVIDIA FLARE is not installed"
)
DISTANCE = Job("distance", ("paris", "oslo"), {"method": "fedwad", "support": 10, "rounds": 8})
MATRIX = Job("matrix", ("paris", "oslo", "rome"), {"cells": 10})
LONG = {"method": "fedwad", "support": 10, "rounds": 2000}


def numbers(result):
    """What must be the same to the last bit."""
    return [result[key] for key in ("value", "lower", "upper", "evidence")]


def explained(job, content):
    """Why the sites of a job differ, from what an engine returned."""
    if job.algorithm == "distance":
        return fedwad.DistanceResult.from_dict(content).explain().to_dict()
    found = fedwad.MatrixResult.from_dict(content).explain()
    return {pair: one.to_dict() for pair, one in found.items()}


# --- the site's file and its kit ------------------------------------------------------------------


def test_a_site_reads_its_own_file(tmp_path):
    write_data(tmp_path, "paris")
    write_policy(tmp_path, "paris")
    (tmp_path / "fedwad.toml").write_text(
        'data = "paris.npy"\npolicy = "paris.policy.toml"\nledger = "l.sqlite"\n'
    )
    client = open_site_file(tmp_path / "fedwad.toml")
    assert unpack_description(client.respond(describe_message())).name == "paris"
    assert (tmp_path / "l.sqlite").exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, ("no-such-file", "There")),
        ("data = ", ("bad-toml",)),
        ('data = "a.npy"', ("bad-config",)),
        ('data = 3\npolicy = "p"', ("bad-config",)),
        ('data = ""\npolicy = "p"', ("bad-config",)),
        ('data = "a"\npolicy = "p"\ncode = "x"', ("unknown-key",)),
        ('data = "a"\npolicy = "p"\ndrop = ["id", 3]', ("bad-option",)),
        ('data = "a"\npolicy = "p"\nheader = "yes"', ("bad-option",)),
        ('data = "a"\npolicy = "p"\nby = "site"', ("unknown-key",)),
        ('data = "a"\npolicy = "p"\ndrop = ""', ("bad-config",)),
        ('data = "a"\npolicy = "p"\ndrop = 0', ("bad-option",)),
        ('data = "a"\npolicy = "p"\nDrop = "id"', ("unknown-key", "Drop")),
        ('data = "a"\npolicy = "p"\nledger = true', ("bad-config",)),
        ('data = "a"\npolicy = "p"\nledger = " "', ("bad-config",)),
        ('data = "a"\npolicy = "p"\nlabel_column = 7', ("bad-config",)),
        ('data = "a"\npolicy = "p"\nledger = ["l"]', ("bad-config",)),
        (
            'data = "a"\npolicy = "p"\nlabel_column = "y"\ndrop = ["y"]',
            ("conflicting-options",),
        ),
    ],
)
def test_a_wrong_site_file_is_named(tmp_path, text, problem):
    path = tmp_path / "fedwad.toml"
    if text is not None:
        path.write_text(text)
    with fails(InputError, *problem):
        read_site_file(path)


def test_a_variable_of_the_site_names_its_file(monkeypatch, tmp_path):
    monkeypatch.delenv("FEDWAD_SITE", raising=False)
    assert startup_kit.config_path(tmp_path, "paris") == tmp_path / "fedwad.toml"
    monkeypatch.setenv("FEDWAD_SITE", "/etc/fedwad/{name}.toml")
    assert startup_kit.config_path(tmp_path, "paris") == Path("/etc/fedwad/paris.toml")


def _kit(folder, startup, resources, rights):
    for name, content in {
        f"startup/{startup}": {},
        "local/resources.json.default": resources,
        "local/authorization.json.default": rights,
        "local/log_config.json.default": {},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


@given(
    st.dictionaries(
        st.sampled_from(["data", "name"]), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
@example({"name": "\U0001f600 id \x7f \u2028 \\ \" ' \n"})
def test_what_is_written_is_read(words):
    content = words | {
        "drop": list(words.values()),
        "supports": "any",
        "epsilon": math.inf,
        "classes": True,
    }
    assert tomllib.loads(to_toml(content)) == content


def test_the_simulators_policy_answers_everything(tmp_path):
    path = tmp_path / "open.toml"
    Policy.open("paris").save(path)
    assert Policy.load(path) == replace(Policy.open(), name="paris")


def test_a_prepared_site_runs_our_node_and_nothing_else(tmp_path):
    resources = {
        "class_allow_list": ["nvflare.any.Thing"],
        "allow_log_streaming": True,
        "components": [1],
    }
    made = _kit(
        tmp_path / "paris", "fed_client.json", resources, {"permissions": {"project_admin": "any"}}
    )
    (tmp_path / "d.csv").write_text("id,x,y,who\n7,1,a,Ada\n8,2,b,\n")
    (tmp_path / "p.toml").write_text('name = "paris"\nallow = []\n')
    options = ["--data", "d.csv", "--policy", "p.toml", "--label-column", "y"]
    options += ["--drop", "id", "--drop", "who", "--drop", "id"]
    assert "is ready" in command_line.run("node", "flare", made, *options, cwd=tmp_path).stdout
    resources = json.loads((made / "local/resources.json").read_text())
    assert resources["class_allow_list"] == [EXECUTOR]
    assert resources["allow_log_streaming"] is False
    assert resources["components"] == [1]
    own = json.loads((made / "local/fedwad__p_resources.json").read_text())
    assert own["components"] == []  # nothing listens unless a port was given
    rights = json.loads((made / "local/authorization.json").read_text())["permissions"]
    for role in rights.values():
        assert isinstance(role, dict)
        assert not {"byoc", "shell_commands"} & set(role)
    assert read_site_file(made / "local/fedwad.toml") == {
        "data": (tmp_path / "d.csv").resolve(),
        "policy": (tmp_path / "p.toml").resolve(),
        "label_column": "y",
        "drop": ["id", "who"],
    }


def test_a_site_that_holds_few_rows_in_memory_is_prepared_and_opened(tmp_path):
    """The number was written into the kit's file, and the node then refused that file."""
    made = _kit(tmp_path / "paris", "fed_client.json", {}, {})
    (tmp_path / "d.csv").write_text("x,y\n7,1\n8,2\n")
    (tmp_path / "p.toml").write_text('name = "paris"\nallow = ["describe"]\n')
    startup_kit.prepare_site(made, tmp_path / "d.csv", tmp_path / "p.toml", max_rows=5000)
    assert read_site_file(made / "local/fedwad.toml")["max_rows"] == 5000
    open_site_file(made / "local/fedwad.toml")


@pytest.mark.parametrize("drop", ['"id"', '["id"]', '["id", "id"]'])
def test_a_site_names_columns_that_are_not_read(tmp_path, drop):
    (tmp_path / "d.csv").write_text("id,x\nP7,1\nP8,2\n")
    (tmp_path / "p.toml").write_text('name = "paris"\nallow = ["describe"]\n')
    (tmp_path / "fedwad.toml").write_text(f'data = "d.csv"\npolicy = "p.toml"\ndrop = {drop}\n')
    client = open_site_file(tmp_path / "fedwad.toml")
    assert unpack(client.respond(describe_message())).content.features == 1


def test_a_kit_of_another_participant_is_refused(tmp_path, capsys):
    made = _kit(tmp_path / "paris", "fed_client.json", {}, {})
    assert startup_kit.main(["server", str(made)]) == 2
    assert "startup/fed_server.json" in capsys.readouterr().err


# --- submitting without a server ------------------------------------------------------------------


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("fedwad.engines.job.find_spec", lambda _: None)
    for call in (
        lambda: flare.submit(DISTANCE, connect=tmp_path),
        lambda: flare.simulate(DISTANCE, {"paris": "a.npy", "oslo": "b.npy"}),
        lambda: flare.sites(tmp_path),
    ):
        with fails(FederationError, "missing-package"):
            call()


def test_importing_the_engine_does_not_import_flare():
    code = "import sys, fedwad.engines.flare; sys.exit('nvflare' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_flare
def test_a_folder_that_is_no_kit_is_named(tmp_path):
    with fails(InputError, "bad-config"):
        flare.submit(DISTANCE, connect=tmp_path)


@needs_flare
def test_a_simulation_wants_a_file_for_each_site(tmp_path):
    data = {"paris": write_data(tmp_path, "paris")}
    with fails(InputError, "no-such-file"):
        flare.simulate(DISTANCE, data)
    with fails(InputError, "no-such-file"):
        flare.simulate(DISTANCE, data | {"oslo": tmp_path / "none.npy"})


@needs_flare
def test_a_simulation_says_why_a_site_cannot_be_opened(tmp_path):
    """It once said, after FLARE had started, that the site could not open its data, and nobody
    could ask why."""
    data = with_identifiers({name: write_data(tmp_path, name) for name in DISTANCE.clients})
    with fails(InputError, "unknown-column", "ID"):
        flare.simulate(DISTANCE, data, drop=["name", "ID"])
    with fails(InputError, "not-a-number", "name"):
        flare.simulate(DISTANCE, data, drop="id", schema=None)


def test_a_job_carries_no_code_and_no_braces(tmp_path):
    folder = write_job_folder(tmp_path / "job", DISTANCE, ["paris", "oslo"], round_timeout=5.0)
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == [
        "app_server/config/config_fed_server.json",
        "app_site/config/config_fed_client.json",
        "meta.json",
    ]
    server = json.loads((folder / files[0]).read_text())["workflows"][0]
    assert server["path"] == CONTROLLER
    assert Job.from_json(base64.b64decode(server["args"]["job"]).decode()) == DISTANCE
    assert json.loads((folder / files[1]).read_text())["executors"] == [
        {"tasks": ["fedwad"], "executor": {"path": EXECUTOR, "args": {}}}
    ]


# --- the federation against a stand-in of FLARE's network -----------------------------------------


def _federation(engine, names=None, on_progress=None):
    from fedwad.engines.flare.controller import FlareFederation

    names = names or list(engine.sites)
    hosts = dict(zip(names, names, strict=True))
    return FlareFederation(engine, "job-1", engine, hosts, 60.0, on_progress)


def _clients(folder, *names):
    return {
        name: open_client(
            write_data(folder, name, shift), write_policy(folder, name), folder / f"{name}.sqlite"
        )
        for shift, name in enumerate(names)
    }


@needs_flare
def test_the_same_bits_as_in_process(tmp_path):
    clients, lines = _clients(tmp_path, "paris", "oslo", "rome"), []
    federation = _federation(
        FakeEngine(**{name: client.respond for name, client in clients.items()}),
        on_progress=lines.append,
    )
    federation.wait_until_ready(5.0)
    here = fedwad.local({name: tmp_path / f"{name}.npy" for name in clients})
    for job in (DISTANCE, MATRIX):
        assert numbers(run(job, federation)) == numbers(run(job, here))
    assert lines[0] == "paris, oslo, rome ready"
    assert lines[1].startswith("2 of 2 sites answered in")


@needs_flare
@pytest.mark.parametrize(
    ("answer", "code", "sentence"),
    [
        (b"", "invalid_reply", ""),
        (b"garbage", "invalid_reply", ""),
        (bytearray(b"garbage"), "invalid_reply", ""),
        (None, "invalid_reply", ""),
        ("timeout", "silent", "within 60 seconds"),
        ("target_unreachable", "silent", "cannot be reached"),
        ("process_exception", "silent", "could not answer"),
        ("unauthenticated", "silent", "could not answer"),
    ],
)
def test_what_is_no_reply_is_a_failure_of_that_site(tmp_path, answer, code, sentence):
    paris = _clients(tmp_path, "paris")["paris"]
    federation = _federation(FakeEngine(paris=paris.respond, oslo=lambda _: answer))
    answers = federation.ask(dict.fromkeys(("paris", "oslo"), fedwad.federation.ColumnsRequest()))
    assert isinstance(answers["paris"], fedwad.federation.ColumnsReply)
    assert isinstance(answers["oslo"], Failure)
    assert answers["oslo"].code == code
    assert sentence in answers["oslo"].sentence


@needs_flare
@pytest.mark.parametrize("reader", ["node", "server"])
def test_a_node_of_another_version_is_named(tmp_path, reader):
    def older(message):
        return message[:6] + b"\1\0" + message[8:]

    clients = _clients(tmp_path, "paris", "oslo")
    paris, oslo = (clients[name].respond for name in ("paris", "oslo"))
    other = {"node": lambda one: oslo(older(one)), "server": lambda one: older(oslo(one))}[reader]
    with fails(FederationError, "wrong-version", "oslo"):
        run(DISTANCE, _federation(FakeEngine(paris=paris, oslo=other)))


@needs_flare
def test_an_error_of_the_network_is_a_failure_of_that_site():
    def broken(_):
        raise OSError("/secret/path")

    answer = _federation(FakeEngine(paris=broken)).exchange({"paris": b"message"}, 1.0)["paris"]
    assert answer.code == "silent"
    assert "secret" not in answer.sentence


@needs_flare
def test_a_late_reply_is_not_waited_for_nor_taken_for_the_next_one():
    released = threading.Event()

    def late(payload):
        return (
            (lambda: b"late" if released.is_set() else silence)
            if payload == b"first"
            else b"answer to " + payload
        )

    federation = _federation(FakeEngine(paris=late, oslo=bytes))
    start = time.monotonic()
    answers = federation.exchange({"paris": b"first", "oslo": b"first"}, 0.3)
    assert time.monotonic() - start < 5.0
    assert answers["oslo"] == b"first"
    assert "within 0.3 seconds" in answers["paris"].sentence
    released.set()
    assert federation.exchange({"paris": b"second"}, 5.0) == {"paris": b"answer to second"}
    assert federation.lost == {"paris"}


@needs_flare
def test_a_site_that_takes_no_part_is_named_at_once():
    engine = FakeEngine(paris=bytes, oslo=bytes)
    engine.ready["oslo"] = lambda: "target_unreachable"
    federation = _federation(engine, ["paris", "oslo", "lima"])
    federation.wait_until_ready(0.5)
    answers = federation.exchange(dict.fromkeys(("paris", "oslo", "lima"), b"message"), 60.0)
    assert answers["paris"] == b"message"
    assert "takes no part" in answers["oslo"].sentence
    assert "takes no part" in answers["lima"].sentence


@needs_flare
def test_a_site_that_starts_slowly_is_waited_for():
    engine, start = FakeEngine(paris=bytes), time.monotonic()
    engine.ready["paris"] = lambda: OPEN if time.monotonic() - start > 1.0 else "target_unreachable"
    federation = _federation(engine)
    federation.wait_until_ready(30.0)
    assert federation.exchange({"paris": b"message"}, 5.0) == {"paris": b"message"}


@needs_flare
def test_a_site_that_reads_for_long_is_waited_for_longer_than_one_that_does_not_start():
    engine, start = FakeEngine(paris=bytes, oslo=bytes), time.monotonic()
    engine.ready["paris"] = lambda: OPEN if time.monotonic() - start > 2.0 else OPENING
    engine.ready["oslo"] = lambda: "target_unreachable"
    federation = _federation(engine)
    federation.wait_until_ready(0.5)
    assert time.monotonic() - start > 2.0
    answers = federation.exchange({"paris": b"message", "oslo": b"message"}, 5.0)
    assert answers["paris"] == b"message"
    assert "takes no part" in answers["oslo"].sentence


@needs_flare
def test_a_site_that_still_reads_is_not_called_ready():
    engine, lines = FakeEngine(paris=bytes, oslo=bytes), []
    engine.ready["oslo"] = lambda: OPENING
    federation = _federation(engine, on_progress=lines.append)
    federation._timeout = 0.5
    federation.wait_until_ready(0.5)
    assert lines == ["paris ready"]


@needs_flare
def test_a_dead_site_is_given_up_before_the_timeout_and_a_working_one_is_not(monkeypatch):
    for name, seconds in {
        "_PING_INTERVAL": 0.1,
        "_GONE_SECONDS": 0.5,
        "_PING_TIMEOUT": 0.2,
    }.items():
        monkeypatch.setattr(f"fedwad.engines.flare.controller.{name}", seconds)
    start = time.monotonic()

    def work():
        return b"done" if time.monotonic() - start > 2.0 else work

    engine = FakeEngine(paris=lambda _: work, oslo=lambda _: silence)
    engine.ready["oslo"] = silence
    answers = _federation(engine).exchange({"paris": b"", "oslo": b""}, 300.0)
    assert answers["paris"] == b"done"
    assert "is gone" in answers["oslo"].sentence
    assert time.monotonic() - start < 60.0


@needs_flare
def test_a_stopped_run_names_the_site_that_is_no_longer_there(monkeypatch):
    monkeypatch.setattr("fedwad.engines.flare.controller._PING_TIMEOUT", 0.5)
    engine = FakeEngine(paris=lambda _: silence, oslo=lambda _: silence)
    engine.ready["oslo"] = silence
    threading.Timer(0.5, lambda: setattr(engine, "triggered", True)).start()
    with fails(FederationError, "run-failed"):
        _federation(engine).exchange({"paris": b"", "oslo": b""}, 300.0)


# --- the node against a stand-in of FLARE's network -----------------------------------------------


@pytest.fixture
def node_of(tmp_path, monkeypatch):
    """Start a node whose site has this file."""
    monkeypatch.delenv("FEDWAD_SITE", raising=False)
    write_data(tmp_path, "paris")
    write_policy(tmp_path, "paris")
    started = []

    def start(text='data = "paris.npy"\npolicy = "paris.policy.toml"\n'):
        (tmp_path / "fedwad.toml").write_text(text)
        started.append(FakeSite(tmp_path))
        return started[-1]

    yield start
    for node in started:
        node.close()


@needs_flare
def test_a_node_answers_its_server_and_nobody_else(tmp_path, node_of):
    node = node_of()
    code, answer = node.ask(MESSAGE, describe_message())
    assert code == "ok"
    assert unpack_description(answer).name == "paris"
    asked = len(open_view(tmp_path / "paris.policy.ledger.sqlite").entries)
    for stranger in ("oslo", "oslo.job-1", "server.job-2", "", None):
        for topic in (MESSAGE, READY):
            code, answer = node.ask(topic, describe_message(), stranger)
            assert code == "unauthenticated"
            assert not answer
    assert len(open_view(tmp_path / "paris.policy.ledger.sqlite").entries) == asked


@needs_flare
@pytest.mark.parametrize(
    "text",
    [
        'data = "secret/place.npy"\npolicy = "paris.policy.toml"\n',
        'data = "paris.npy"\npolicy = "secret/place.toml"\n',
        "secret/place",
    ],
)
def test_a_node_that_cannot_open_its_data_says_so_without_a_path(node_of, text):
    node = node_of(text)
    assert node.ask(READY, b"")[0] == "ok"
    code, answer = node.ask(MESSAGE, describe_message())
    assert code == "ok"
    with fails(FederationError, "cannot-open"):
        unpack_description(answer)
    assert b"secret" not in answer


@needs_flare
@pytest.mark.parametrize("payload", [b"", b"garbage", None, {"a": 1}, "text", 7, [1, 2]])
def test_a_node_survives_messages_of_any_kind(node_of, payload):
    node = node_of()
    _, answer = node.ask(MESSAGE, payload)
    assert b"Traceback" not in (answer or b"")
    assert unpack_description(node.ask(MESSAGE, describe_message())[1]).name == "paris"


@needs_flare
def test_an_unforeseen_error_at_a_node_sends_no_words(node_of, monkeypatch):
    def broken(*_):
        raise RuntimeError("/secret/place")

    node = node_of()
    monkeypatch.setattr("fedwad.federation.Client.respond", broken)
    code, answer = node.ask(MESSAGE, describe_message())
    assert code == "process_exception"
    assert not answer


# --- the analyst's session against a stand-in of FLARE's ------------------------------------------


class Session:
    """Answers the requests of an AdminSession one by one, and all later ones like the last.

    An answer that is an exception is raised.
    """

    def __init__(self, *answers, status="RUNNING", detail=()):
        self.answers, self.meta, self.aborted = (
            list(answers),
            {"status": status, "job_deploy_detail": detail},
            [],
        )

    def do_app_command(self, job, topic, asked):
        assert (job, topic) == ("job-1", "fedwad.collect")
        if asked.get("collected"):
            return {}
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"lines": [], "outcome": None, "lost": []} | answer

    def get_job_meta(self, _):
        return self.meta

    def abort_job(self, job):
        self.aborted.append(job)


def _admin(session):
    from fedwad.engines.flare.admin import AdminSession

    said = []
    admin = AdminSession(
        {"kit": "kit", "user": "ana", "address": "host:1", "job": DISTANCE.to_json()}, said.append
    )
    admin._session, admin._job_id = session, "job-1"
    return admin, said


@needs_flare
@pytest.mark.parametrize(
    ("options", "asked"),
    [({}, ["paris", "oslo", "rome"]), ({"agreed": "version = 1"}, ["paris", "oslo"])],
)
def test_a_job_goes_to_all_connected_sites_only_if_they_have_to_agree(monkeypatch, options, asked):
    from fedwad.engines.flare.admin import AdminSession

    connected = [SimpleNamespace(name=name) for name in ("rome", "paris", "oslo")]
    session = SimpleNamespace(get_connected_client_list=lambda: connected)
    monkeypatch.setattr(AdminSession, "_log_in", lambda _: session)
    monkeypatch.setattr(AdminSession, "_follow", lambda _: {})
    sent = []
    monkeypatch.setattr(AdminSession, "_submit", lambda *given: sent.append(given[-1]))
    order = {"kit": "kit", "user": "ana", "address": "host:1"}
    job = Job("distance", ("paris", "oslo"), options)
    AdminSession(order | {"job": job.to_json()}, print).run()
    assert sent == [asked]


@needs_flare
def test_an_admin_session_passes_on_progress_and_outcome():
    from nvflare.fuel.flare_api import api_spec

    waiting = [
        api_spec.JobNotRunning("x"),
        api_spec.NoReply("x"),
        api_spec.InternalError("x"),
        api_spec.NoConnection("x"),
    ]
    session = Session(
        *waiting, {"lines": ["a", "b"]}, {"lines": ["c"]}, {"outcome": {"kind": "distance"}}
    )
    admin, said = _admin(session)
    assert admin._follow() == {"kind": "distance"}
    assert said == [{"line": "a"}, {"line": "b"}, {"line": "c"}]
    assert session.aborted == []


@needs_flare
def test_a_job_that_lost_a_site_is_not_left_waiting_for_it():
    session = Session({"outcome": {"kind": "matrix"}, "lost": ["rome"]})
    assert _admin(session)[0]._follow() == {"kind": "matrix"}
    assert session.aborted == ["job-1"]


@needs_flare
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("AuthorizationError", "app_command"),
        ("SessionClosed", "perhaps after a restart"),
        ("NoConnection", "host:1 stopped answering"),
        ("JobNotRunning", r"FINISHED:FAILED_TO_RUN \(oslo: no\)"),
    ],
)
def test_an_admin_session_says_in_a_sentence_why_there_is_no_outcome(monkeypatch, error, sentence):
    from nvflare.fuel.flare_api import api_spec

    from fedwad.engines.flare import admin

    monkeypatch.setattr(admin, "_MAX_SILENCE", 0.5)
    session = Session(
        getattr(api_spec, error)("x"),
        status="FINISHED:FAILED_TO_RUN",
        detail=["server: OK", "oslo: no"],
    )
    with pytest.raises(admin._FailedError, match=sentence):
        _admin(session)[0]._follow()


@pytest.mark.parametrize("clients", [(), ("oslo", "paris")])
def test_a_lost_run_goes_on_when_its_sites_are_back_or_starts_again_without_a_journal(
    monkeypatch, clients
):
    module, resumed = import_module("fedwad.engines.flare.submit"), []
    no_journal = error_outcome(InputError("There is no journal.", "no-journal"))

    def carry_out(order, connect, timeout, hear):  # noqa: ARG001
        if "job" not in order:
            return {"sites": ["lima", "oslo", "paris"]}
        resumed.append(order["settings"]["resume"])
        hear({"line": "job 1 submitted", "sites": ["oslo", "paris"]})
        if len(resumed) == 1:
            raise FederationError("FLARE stopped the run.", "run-failed")
        return {"outcome": no_journal if resumed[-1] else {"kind": "matrix"}}

    monkeypatch.setattr(module, "_carry_out", carry_out)
    assert module.submit(Job("matrix", clients), connect="kit") == {"kind": "matrix"}
    assert resumed == [False, True, False]


# --- the simulator --------------------------------------------------------------------------------


@needs_flare
@pytest.mark.slow
def test_the_simulator_gives_the_same_bits(tmp_path):
    """One or two processes answer for three sites, whose names may have dots and spaces."""
    data = {name: write_data(tmp_path, name, shift) for shift, name in enumerate(MATRIX.clients)}
    for job, files, options in (
        (DISTANCE, data, {}),
        (MATRIX, with_identifiers(data), {"drop": ["id", "name"]}),
    ):
        lines = []
        there = flare.simulate(job, files, timeout=300.0, on_progress=lines.append, **options)
        here = run(job, fedwad.local(files, **options))
        assert numbers(there) == numbers(here)
        assert explained(job, there) == explained(job, here)
        assert any("answered in" in line for line in lines)


@needs_flare
@pytest.mark.slow
def test_a_simulation_ends_in_time_and_leaves_no_process(tmp_path):
    import psutil

    data = {name: write_data(tmp_path, name) for name in DISTANCE.clients}
    with fails(FederationError, "timed-out"):
        flare.simulate(Job("distance", DISTANCE.clients, LONG), data, timeout=5.0)
    assert [
        p for p in psutil.Process().children(recursive=True) if "nvflare" in " ".join(p.cmdline())
    ] == []


# --- real processes with mutual TLS ---------------------------------------------------------------


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Server and four sites. The policy of rome allows summaries only, the data of lima go away, and
    paris says how it is."""
    if find_spec("nvflare") is None:
        pytest.skip("NVIDIA FLARE is not installed")
    from engines.flare_loopback import Loopback

    folder = tmp_path_factory.mktemp("flare")
    names = ("paris", "oslo", "rome", "lima")
    data = {name: write_data(folder, name, shift) for shift, name in enumerate(names)}
    policy = {name: write_policy(folder, name) for name in names}
    write_policy(folder, "rome", ("describe", "summary"))
    data["lima"] = data["lima"].rename(folder / "secret-place.npy")
    port = free_port()
    prepared = Loopback(folder, data, policy, {"paris": {"metrics": port}})
    prepared.page = partial(get, port)
    data["lima"].unlink()
    with prepared as started:
        yield started


@needs_flare
@pytest.mark.slow
def test_real_processes_give_the_same_bits(federation):
    """And the matrix goes on without lima, whose data cannot be read, which nobody but its operator
    learns more of."""
    assert set(flare.sites(federation.connect)) == {"paris", "oslo", "rome", "lima"}
    here = fedwad.local({name: federation.folder / f"{name}.npy" for name in MATRIX.clients})
    lines = []
    there = flare.submit(
        DISTANCE, connect=federation.connect, timeout=400.0, on_progress=lines.append
    )
    expected = run(DISTANCE, here)
    assert numbers(there) == numbers(expected)
    assert explained(DISTANCE, there) == explained(DISTANCE, expected)
    rounds = sum("2 of 2 sites answered in" in line for line in lines)
    # First they say whether they hold tables, and the two other sites are asked for the units.
    assert rounds == 1 + DISTANCE.options["rounds"] + 3
    everybody = Job("matrix", (*MATRIX.clients, "lima"), MATRIX.options)
    there = flare.submit(everybody, connect=federation.connect, timeout=400.0)
    assert there["sites"] == list(MATRIX.clients)
    assert numbers(there) == numbers(run(MATRIX, here))
    kinds = [entry.kind for entry in open_view(federation.folder / "rome.ledger.sqlite").entries]
    # Its columns were asked twice: also for the units of the distance between two others.
    asked = dict.fromkeys(kind for kind in kinds if kind != "describe")
    assert list(asked) == ["columns", "schema", "summary"]
    assert list(there["failed"]) == ["lima"]
    assert "cannot open its data" in there["failed"]["lima"]
    assert "secret-place" not in json.dumps(there)
    assert holds(federation.kit("localhost"), "secret-place") == []
    assert holds(federation.kit("lima"), "secret-place") != []


@needs_flare
@pytest.mark.slow
def test_a_node_logs_requests_as_json_and_says_whether_it_can_answer(federation):
    assert federation.page("healthz") == (200, "ok\n")
    flare.submit(DISTANCE, connect=federation.connect, timeout=400.0)
    assert 'fedwad_queries{site="paris"}' in federation.page("metrics")[1]
    texts = [path.read_text() for path in federation.kit("paris").glob("*/log.json")]
    lines = [json.loads(line) for line in "".join(texts).splitlines()]
    assert {"answered", "repeated"} & {one.get("outcome") for one in lines}
    policy = federation.folder / "paris.policy.toml"
    text = policy.read_text()
    try:
        policy.write_text(f"{text}expires = 2020-01-01\n")
        assert federation.page("healthz")[0] == 503
    finally:
        policy.write_text(text)


@needs_flare
@pytest.mark.slow
def test_the_commands_of_the_guide_lead_to_a_distance():
    script = Path(__file__).parents[2] / "scripts" / "flare-loopback.sh"
    command = ["/usr/bin/env", "bash", script, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("paris and oslo") >= 2  # a distance, then a matrix


@needs_flare
@pytest.mark.slow
def test_refusals_reach_the_analyst_as_sentences(federation):
    with fails(PolicyError, "kind-refused", "rome"):
        flare.submit(
            Job("distance", ("paris", "rome"), LONG), connect=federation.connect, timeout=400.0
        )
    assert open_view(federation.folder / "rome.ledger.sqlite").entries[-1].outcome == "refused"
    with fails(FederationError, "run-failed"):
        flare.submit(Job("distance", ("paris", "tokyo")), connect=federation.connect, timeout=60.0)


@needs_flare
@pytest.mark.slow
def test_strangers_get_nothing(federation, tmp_path):
    """Plain text, TLS without a certificate, and a kit of another provisioning, as a site and as an
    analyst."""
    from engines.flare_loopback import Loopback

    address = ("127.0.0.1", federation.port)
    with socket.create_connection(address, timeout=5.0) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP" not in received(plain)
    context = ssl.create_default_context(cafile=str(federation.connect / "startup" / "rootCA.pem"))
    context.check_hostname = False
    bare = socket.create_connection(
        address, timeout=5.0
    )  # refused in the handshake, or in TLS 1.3 after it
    with bare, suppress(OSError), context.wrap_socket(bare) as wrapped:
        wrapped.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert received(wrapped) == b""
    data = {"tokyo": write_data(tmp_path, "tokyo")}
    other = Loopback(tmp_path, data, {"tokyo": write_policy(tmp_path, "tokyo")})
    _point(other, federation.port)
    try:
        other.start("tokyo")
        with fails(FederationError, "run-failed"):
            flare.submit(DISTANCE, connect=other.connect, timeout=60.0)
        time.sleep(3.0)
        assert other.processes("tokyo") != []  # it is trying
        assert "tokyo" not in flare.sites(federation.connect)
    finally:
        other.stop()


def _point(loopback, port):
    """Let kits of one federation knock at the server of another."""
    for path in loopback.folder.glob("fedwad/prod_00/*/startup/fed_*.json"):
        path.write_text(path.read_text().replace(str(loopback.port), str(port)))


@needs_flare
@pytest.mark.slow
def test_a_site_runs_no_code_of_others_and_no_other_class(federation, tmp_path):
    mark = tmp_path / "ran"
    byoc = write_job_folder(tmp_path / "byoc", DISTANCE, ["paris"], collect=False)
    custom = byoc / "app_site" / "custom"
    custom.mkdir()
    (custom / "evil.py").write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\n")
    config = byoc / "app_site" / "config" / "config_fed_client.json"
    config.write_text(config.read_text().replace(EXECUTOR, "evil.Executor"))
    assert submit_foreign(federation, byoc) == "FINISHED:FAILED_TO_RUN"
    assert (
        "paris: NVFLARE_ERROR: BYOC not permitted"
        in (federation.folder / "localhost.log").read_text()
    )
    other = write_job_folder(tmp_path / "other", DISTANCE, ["paris"], collect=False)
    config = other / "app_site" / "config" / "config_fed_client.json"
    config.write_text(
        config.read_text().replace(EXECUTOR, "nvflare.app_common.np.np_trainer.NPTrainer")
    )
    assert submit_foreign(federation, other) != "FINISHED:COMPLETED"
    assert (
        "NPTrainer' at config path 'executors.#1.executor' is not in allow_list"
        in (federation.folder / "paris.log").read_text()
    )
    assert not mark.exists()


@needs_flare
@pytest.mark.slow
def test_a_site_that_loses_power_is_named_and_comes_back(federation):
    running = Running(
        Job("distance", DISTANCE.clients, LONG), federation, timeout=300.0, round_timeout=10.0
    )
    running.await_rounds(5)
    federation.kill("oslo")
    running.end(120.0)
    assert isinstance(running.error, FederationError)
    assert "Site 'oslo'" in str(running.error)
    federation.start("oslo")
    federation.await_sites(("oslo",))
    there = flare.submit(DISTANCE, connect=federation.connect, timeout=400.0)
    ours = run(
        DISTANCE,
        fedwad.local({name: federation.folder / f"{name}.npy" for name in DISTANCE.clients}),
    )
    assert numbers(there) == numbers(ours)


@needs_flare
@pytest.mark.slow
def test_a_matrix_goes_on_without_a_site_that_froze(federation):
    job = Job("matrix", ("paris", "oslo", "rome"), {"cells": 10})
    frozen = federation.processes("rome")
    for process in frozen:
        process.suspend()
    try:
        result = flare.submit(job, connect=federation.connect, timeout=400.0, round_timeout=20.0)
    finally:
        for process in frozen:
            process.resume()
    assert result["sites"] == ["paris", "oslo"]
    assert list(result["failed"]) == ["rome"]
    assert np.isfinite(result["value"]).all()


@needs_flare
@pytest.mark.slow
def test_a_run_whose_job_process_dies_at_a_site_comes_to_its_result(federation):
    """It goes on by itself if FLARE starts the process again in time; otherwise it is resumed."""
    job = Job("distance", DISTANCE.clients, {"method": "fedwad", "support": 10, "rounds": 150})
    running = Running(job, federation, timeout=300.0, round_timeout=30.0)
    running.await_rounds(20)
    queries = len(open_view(federation.folder / "paris.ledger.sqlite").entries)
    worker = max(federation.processes("oslo"), key=lambda process: process.create_time())
    assert "worker_process" in " ".join(worker.cmdline())
    worker.kill()
    running.end(300.0)
    there = running.result
    if running.error is not None:
        assert isinstance(running.error, FederationError)
        assert "oslo" in str(running.error)
        there = flare.submit(job, connect=federation.connect, timeout=400.0, resume=True)
    ours = run(
        job, fedwad.local({name: federation.folder / f"{name}.npy" for name in DISTANCE.clients})
    )
    assert numbers(there) == numbers(ours)
    # and not asked all over
    assert (
        len(open_view(federation.folder / "paris.ledger.sqlite").entries) - queries < 2 * 152 - 15
    )


@needs_flare
@pytest.mark.slow
def test_an_interrupt_and_the_end_of_the_time_abort_the_job_everywhere(federation):
    code = (
        "import sys\nfrom fedwad.engines.flare import submit\nfrom fedwad.engines.job import Job\n"
        "show = lambda line: print(line, flush=True)\n"
        "try:\n    submit(Job.from_json(sys.argv[1]), connect=sys.argv[2], on_progress=show)\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    )
    command = [
        sys.executable,
        "-c",
        code,
        Job("distance", DISTANCE.clients, LONG).to_json(),
        str(federation.connect),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as analyst:
        assert any("answered in" in line for line in analyst.stdout)
        os.kill(analyst.pid, signal.SIGINT)
        rest = analyst.stdout.read()
        assert analyst.wait(180.0) == 0
    assert "interrupted" in rest
    _await_no_job(federation, "paris")
    with fails(FederationError, "timed-out"):
        flare.submit(
            Job("distance", DISTANCE.clients, LONG), connect=federation.connect, timeout=10.0
        )
    _await_no_job(federation, "paris")


def _await_no_job(federation, name):
    deadline = time.monotonic() + 120.0
    while any(
        "worker_process" in " ".join(process.cmdline()) for process in federation.processes(name)
    ):
        assert time.monotonic() < deadline, "the job goes on at the site"
        time.sleep(0.2)


@needs_flare
@pytest.mark.slow
def test_a_server_that_dies_ends_the_run_and_comes_back(federation):
    running = Running(
        Job("distance", DISTANCE.clients, LONG), federation, timeout=400.0, round_timeout=10.0
    )
    running.await_rounds(5)
    federation.kill("localhost")
    running.end(300.0)
    assert isinstance(running.error, FederationError)
    assert "stopped answering" in str(running.error)
    federation.start("localhost")
    federation.await_server()
    federation.await_sites(DISTANCE.clients)
    assert flare.submit(DISTANCE, connect=federation.connect, timeout=400.0)["kind"] == "distance"
