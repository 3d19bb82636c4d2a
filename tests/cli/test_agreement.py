"""The schema on which the sites of a deployment agreed: kept for the analyst, and brought along by
later commands. The engine's place is taken by sites in this process."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fedwad
from command_line import run as command
from fedwad.engines.job import Job, run
from fedwad.federation import Client, Columns, LocalFederation, Policy, read_raw
from fedwad.federation.federation import NamedSites

POLICY = Path(__file__).parents[2] / "docs" / "policies" / "summary.toml"


class Deployment:
    """Sites of raw tables under the policy to start with; `submit` is that of an engine."""

    def __init__(self):
        rng, policy = np.random.default_rng(0), Policy.load(POLICY)
        self.clients, self.connected, self.jobs = {}, ["paris", "oslo", "rome"], []
        for k, name in enumerate((*self.connected, "wien")):
            rows = {"age": rng.normal(50 + k, 9 + k, 200), "sex": rng.choice(["f", "m"], 200)}
            raw = read_raw(pa.table(rows), name, Columns.of(schema="auto"))
            self.clients[name] = Client(raw, policy)

    def submit(self, job, **_):
        self.jobs.append(job)
        names = self.connected if job.needs_agreement else job.clients
        return run(job, LocalFederation({name: self.clients[name] for name in names}))

    @property
    def schemas(self):
        """In how many encodings each site was asked."""
        return {len(set(one.ledger.sent_digests("schema"))) for one in self.clients.values()}


@pytest.fixture
def deployment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Deployment()
    monkeypatch.setattr("fedwad.engines.flower.submit", made.submit)
    return made


def ask(*words, connect="127.0.0.1:9093"):
    done = command(*words, "--engine", "flower", "--connect", connect, "--json")
    return done, json.loads(done.stdout) if done.stdout else None


def test_one_agreement_serves_a_pair_a_matrix_and_a_newcomer(deployment, tmp_path):
    first, pair = ask("distance", "paris", "oslo")
    (kept,) = (tmp_path / "state").rglob("*.schema.toml")
    assert str(kept) in first.stderr
    deployment.connected.append("wien")
    again, wider = ask("matrix", *deployment.connected)
    assert again.returncode in (0, 3, 4), again.stderr
    assert str(kept) in again.stderr
    assert not wider["failed"]
    assert wider["value"][0][1] == pair["value"]
    assert deployment.jobs[1].options["agreed"] == fedwad.Schema.load(kept).to_toml()
    assert deployment.schemas == {1}


def test_a_given_schema_stands_for_the_kept_one(deployment, tmp_path):
    ask("distance", "paris", "oslo")
    (kept,) = (tmp_path / "state").rglob("*.schema.toml")
    copy = tmp_path / "agreed.toml"
    copy.write_text(kept.read_text())
    kept.write_text("damaged")
    done, _ = ask("matrix", "paris", "oslo", "rome", "--schema", copy)
    assert done.returncode in (0, 3, 4), done.stderr
    assert "agreed" not in deployment.jobs[-1].options
    done, _ = ask("matrix", "paris", "oslo", "rome")
    assert done.returncode == 2
    assert str(kept) in " ".join(done.stderr.split())


def test_deployments_have_agreements_of_their_own(deployment, tmp_path):
    ask("distance", "paris", "oslo")
    ask("distance", "paris", "oslo", connect="127.0.0.1:9094")
    assert len([*(tmp_path / "state").rglob("*.schema.toml")]) == 2
    assert "agreed" not in deployment.jobs[1].options


def test_a_folder_that_cannot_be_written_costs_no_answer(deployment, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    done, found = ask("distance", "paris", "oslo")
    assert found["differs"] is not None or found["value"] > 0
    assert "--schema" in done.stderr
    assert deployment.jobs


def test_a_run_that_goes_on_asks_the_sites_that_agreed_at_first(deployment, tmp_path):
    """Others may have come or gone since; the file has what they sent."""

    class Far(NamedSites):
        """Sites elsewhere, whose data nobody here can compare with those of an earlier run."""

        names = ("paris", "oslo", "rome")

        def ask(self, requests):
            assert set(requests) <= set(self.names)
            return LocalFederation({name: deployment.clients[name] for name in requests}).ask(
                requests
            )

    path, far = tmp_path / "run.journal", Far()
    job = Job("distance", ("paris", "oslo"))
    whole = run(job, far, path)
    far.names = ("paris", "oslo", "wien")
    resumed = run(job, far, path, resume=True)
    assert resumed["value"] == whole["value"]
    assert resumed["agreed_schema"] == whole["agreed_schema"]


def test_another_federation_at_the_same_address_does_not_hear_of_the_schema(deployment, tmp_path):
    """A tunnel may lead from the same address to other sites."""
    ask("distance", "paris", "oslo")
    (kept,) = (tmp_path / "state").rglob("*.schema.toml")
    assert kept.stat().st_mode & 0o077 == 0
    deployment.connected[:] = ["rome", "wien"]
    done, _ = ask("distance", "rome", "wien")
    assert done.returncode in (0, 3, 4), done.stderr
    assert "agreed" not in deployment.jobs[1].options
    assert len([*(tmp_path / "state").rglob("*.schema.toml")]) == 2


def test_a_site_of_another_study_does_not_decide_what_a_pair_compares():
    rng = np.random.default_rng(0)

    def table(name, **columns):
        return Client(read_raw(pa.table(columns), name, Columns.of(schema="auto")), Policy.open())

    pair = {
        name: table(name, age=rng.normal(k, 1, 200), sex=rng.choice(["f", "m"], 200))
        for k, name in enumerate(("paris", "oslo"))
    }
    others = {
        name: table(name, age=rng.choice(["old", "young"], 200), income=rng.normal(size=200))
        for name in ("x", "y", "z")
    }

    class Remote(LocalFederation):
        in_process = False

    job = Job("distance", ("paris", "oslo"), {})
    alone, among = run(job, Remote(pair)), run(job, Remote(pair | others))
    schema = fedwad.Schema.from_dict(among["agreed_schema"])
    assert [column.name for column in schema.compared_columns] == ["age", "sex"]
    assert among["value"] == alone["value"]
