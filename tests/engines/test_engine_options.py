"""Options of commands that an engine does not have are refused with a code, not ignored."""

import numpy as np
import pytest

from command_line import run as command
from failing import fails
from fedwad.cli.sites import ResumableEngineOptions
from fedwad.engines.job import Job, journal_path
from fedwad.errors import InputError
from fedwad.federation import Columns

DEPLOYED = {"engine": "flower", "connect": "127.0.0.1:1"}
REFUSED = {
    "no engine for an address": ({"connect": "127.0.0.1:1"}, {}, "missing-option"),
    "a policy of the analyst": (DEPLOYED | {"policy": "any.toml"}, {}, "conflicting-options"),
    "settings of a site": (DEPLOYED, {"label": "num"}, "conflicting-options"),
    "numbers as they are": (DEPLOYED, {"schema": None}, "conflicting-options"),
    "a file for checkpoints": (DEPLOYED | {"checkpoint": "here"}, {}, "conflicting-options"),
    "one table as sites": (DEPLOYED, {"by": "centre"}, "conflicting-options"),
    "an authority for FLARE": (
        DEPLOYED | {"engine": "flare", "ca": "x"},
        {},
        "conflicting-options",
    ),
    "a simulation that resumes": ({"engine": "flare", "resume": True}, {}, "missing-option"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_engine_does_not_do_is_refused(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.npy", "b.npy"):
        np.save(name, np.eye(3))
    options, columns, code = REFUSED[case]
    with fails(InputError, code):
        ResumableEngineOptions(**options).run(
            "distance", ("a.npy", "b.npy"), {}, Columns(**({"schema": "auto"} | columns)), print
        )


@pytest.mark.parametrize("name", ["timeout", "round_timeout", "ca"])
def test_options_of_engines_are_refused_in_this_process(name):
    with fails(InputError, "missing-option"):
        assert ResumableEngineOptions(**{name: 5.0}).uses_engine


def test_a_run_in_process_resumes_from_a_file():
    with (
        fails(InputError, "missing-option"),
        ResumableEngineOptions(resume=True).local(None),
    ):
        pass


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_distance_is_of_two_sites(count):
    with fails(InputError, "bad-option"):
        Job("distance", ("a",) * count)


def test_a_journal_that_is_not_there_is_not_resumed(tmp_path):
    for folder in (None, tmp_path):
        with fails(InputError, "no-journal"):
            journal_path(folder, "key", resume=True)
    path = journal_path(tmp_path, "key", resume=False)
    path.touch()
    assert journal_path(tmp_path, "key", resume=True) == path
    assert journal_path(tmp_path, "key", resume=False) == path
    assert not path.exists()


def test_a_policy_previews_what_a_deployment_answers(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(60, 2)))
    (tmp_path / "policy.toml").write_text('name = "any"\nallow = ["describe", "transport"]\n')
    words = ("distance", tmp_path / "a.npy", tmp_path / "b.npy")
    assert command(*words).returncode == 0
    done = command(*words, "--policy", tmp_path / "policy.toml")
    assert done.returncode == 2
    assert "summary" in done.stderr
