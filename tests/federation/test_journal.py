"""An interrupted run goes on where it was, without a second look at what is known."""

import os
import sqlite3

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.errors import FederationError, InputError
from fedwad.federation import (
    Client,
    ColumnsRequest,
    Dataset,
    Failure,
    Journal,
    LocalFederation,
    Policy,
)
from fedwad.transport import Measure
from oracles import options_of

RNG = np.random.default_rng(0)
DATA = {
    name: Dataset(Measure(RNG.standard_normal((60, 2)) + k))
    for k, name in enumerate(("paris", "oslo", "rome"))
}


class CutError(RuntimeError):
    pass


class Fragile(LocalFederation):
    """Falls over before the round of that number; sites in `mute` say nothing."""

    def __init__(self, rounds=10**9, mute=()):
        super().__init__({name: Client(data, Policy.open()) for name, data in DATA.items()})
        self.left, self.mute = rounds, mute

    def ask(self, requests):
        self.left -= 1
        if self.left < 0:
            raise CutError
        answers = super().ask(
            {name: request for name, request in requests.items() if name not in self.mute}
        )
        return answers | {
            name: Failure("silent", "gone.") for name in requests if name in self.mute
        }

    def queries(self):
        return {name: ledger.queries for name, ledger in self.ledgers.items()}


def plain(result):
    content = result.to_dict()
    for record in content["history"]:
        record.pop("seconds")
    return content


RUNS = {
    "distance": lambda fed: fedwad.distance(
        fed["paris"], fed["oslo"], method="fedwad", support=5, rounds=6
    ),
    "summary": lambda fed: fedwad.matrix(fed),
    "hub": lambda fed: fedwad.matrix(fed, method="hub", support=4),
    "pairs": lambda fed: fedwad.matrix(fed, method="pairs", support=4, rounds=3),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_resumed_run_ends_as_an_undisturbed_one(tmp_path, name, rounds):
    run, path = RUNS[name], tmp_path / "run.journal"
    whole = Fragile()
    undisturbed = run(whole)
    first = Fragile(rounds)
    try:
        with Journal(first, path) as fed:
            run(fed)
    except CutError:
        pass
    else:
        assert name == "summary"
    second = Fragile()
    with Journal(second, path, resume=True) as fed:
        result = run(fed)
        assert fed.replayed == min(rounds, 2 if name == "summary" else rounds)
    assert plain(result) == plain(undisturbed)
    assert {k: first.queries()[k] + second.queries()[k] for k in DATA} == whole.queries()


def test_a_finished_run_needs_nobody(tmp_path):
    path = tmp_path / "run.journal"
    with Journal(Fragile(), path) as fed:
        result = RUNS["hub"](fed)
    with Journal(Fragile(0), path, resume=True) as fed:
        assert plain(RUNS["hub"](fed)) == plain(result)


def test_a_record_cut_short_is_asked_again(tmp_path):
    path = tmp_path / "run.journal"
    with Journal(Fragile(), path) as fed:
        result = RUNS["distance"](fed)
    for damage in ("answer = substr(answer, 1, 40)", "answer = x''", "sha256 = x'00'"):
        db = sqlite3.connect(path)
        db.execute(f"UPDATE records SET {damage} WHERE number = 4")  # noqa: S608
        db.commit()
        db.close()
        with Journal(Fragile(), path, resume=True) as fed:
            assert plain(RUNS["distance"](fed)) == plain(result)
            assert fed.replayed == 2


def test_a_run_that_was_killed_goes_on(tmp_path):
    path = tmp_path / "run.journal"
    child = os.fork()
    if child == 0:
        try:
            journal = Journal(Fragile(2), path)
            RUNS["hub"](journal)
        finally:
            os._exit(1)  # nothing is closed
    os.waitpid(child, 0)
    with Journal(Fragile(), path, resume=True) as fed:
        assert plain(RUNS["hub"](fed)) == plain(RUNS["hub"](Fragile()))
        assert fed.replayed == 2


def test_only_the_silent_client_is_asked_again(tmp_path):
    path = tmp_path / "run.journal"
    with (
        Journal(Fragile(mute=("oslo",)), path) as fed,
        fails(FederationError, "no-reply", "oslo"),
    ):
        RUNS["distance"](fed)
    again = Fragile()
    with Journal(again, path, resume=True) as fed:
        result = RUNS["distance"](fed)
    assert plain(result) == plain(RUNS["distance"](Fragile()))
    assert again.queries()["oslo"] == again.queries()["paris"] + 1


def test_a_client_lost_on_the_way_stays_lost(tmp_path):
    path = tmp_path / "run.journal"
    with Journal(Fragile(mute=("rome",)), path) as fed:
        result = RUNS["hub"](fed)
    assert list(result.failed) == ["rome"]
    with Journal(Fragile(0), path, resume=True) as fed:
        assert plain(RUNS["hub"](fed)) == plain(result)


def test_another_run_is_refused(tmp_path):
    path = tmp_path / "run.journal"
    with Journal(Fragile(), path) as fed:
        RUNS["hub"](fed)
    with (
        Journal(Fragile(), path, resume=True) as fed,
        fails(InputError, "other-run"),
    ):
        fedwad.matrix(fed, method="hub", support=4, seed=1)


@pytest.mark.parametrize("method", ["fedwad", "summary"])
def test_other_data_are_another_run(tmp_path, method):
    """A column that is dropped between the two runs must not come back out of the journal."""
    path, rng = tmp_path / "run.journal", np.random.default_rng(0)
    whole = {name: rng.standard_normal((30, 3)) for name in ("paris", "oslo")}
    for data, problem in (
        (whole, None),
        ({name: X[:, 1:] for name, X in whole.items()}, "other-run"),
    ):
        with Journal(fedwad.local(data), path, resume=path.exists()) as fed:
            if problem is None:
                fedwad.distance(fed["paris"], fed["oslo"], **options_of(method, 3))
            else:
                with fails(InputError, problem):
                    fedwad.distance(fed["paris"], fed["oslo"], **options_of(method, 3))


@pytest.mark.parametrize(
    ("content", "resume", "problem"),
    [
        (b"", False, "file-exists"),
        (b"other", True, "wrong-format"),
        (b"fedwad journal 1\nrecords", True, "wrong-format"),
        (None, True, "no-such-file"),
    ],
)
def test_wrong_files_get_one_sentence(tmp_path, content, resume, problem):
    path = tmp_path / "run.journal"
    if content is not None:
        path.write_bytes(content)
    with fails(InputError, problem):
        Journal(Fragile(), path, resume)


def test_a_journal_is_for_its_owner_only(tmp_path):
    with Journal(Fragile(), tmp_path / "run.journal") as fed:
        RUNS["summary"](fed)
    assert (tmp_path / "run.journal").stat().st_mode & 0o077 == 0


def test_the_same_question_in_two_rounds_is_answered_twice(tmp_path):
    question = dict.fromkeys(DATA, ColumnsRequest())
    with Journal(Fragile(), tmp_path / "run.journal") as fed:
        first = [fed.ask(question) for _ in range(2)]
    cut = Fragile(1)
    with Journal(cut, tmp_path / "run.journal", resume=True) as fed:
        again = [fed.ask(question) for _ in range(3)]
        assert fed.replayed == 2
    assert cut.queries() == dict.fromkeys(DATA, 1)  # the third round alone
    for known, replayed in zip(first, again, strict=False):
        assert known == replayed


def test_a_journal_with_a_damaged_page_is_one_sentence(tmp_path):
    path, fed = tmp_path / "run.journal", fedwad.local({"a": [[0.0]], "b": [[1.0]]})
    with Journal(fed, path) as journal:
        fedwad.distance(journal["a"], journal["b"])
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[4096:5000] = bytes(904)
    path.write_bytes(content)
    with fails(InputError, "damaged-content"):
        Journal(fed, path, resume=True)


def test_sites_of_this_process_that_disagree_are_a_mistake_with_a_journal_too(tmp_path):
    sites = {"paris": np.eye(3), "oslo": np.eye(3), "rome": np.eye(4)}
    with (
        Journal(fedwad.local(sites), tmp_path / "run.journal") as journal,
        fails(InputError, "different-columns"),
    ):
        fedwad.matrix(journal)


def test_a_run_that_ends_while_its_journal_is_made_can_be_resumed(tmp_path, monkeypatch):
    path = tmp_path / "run.journal"
    with monkeypatch.context() as patch:
        patch.setattr("fedwad.federation.journal._VERSION", "(")  # fails after the table is made
        with fails(FederationError, "cannot-write"):
            Journal(fedwad.local({"a": [[0.0]], "b": [[1.0]]}), path)
    with Journal(fedwad.local({"a": [[0.0]], "b": [[1.0]]}), path, resume=True) as journal:
        assert fedwad.distance(journal["a"], journal["b"]).value == pytest.approx(1.0)
