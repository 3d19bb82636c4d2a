"""Row 3: a patient who joins between two queries is not read from their difference."""

from pathlib import Path

import numpy as np
import pytest

from failing import fails
from fedwad.errors import FederationError, FedwadError
from fedwad.federation import (
    AtomsRequest,
    Client,
    ColumnsRequest,
    Dataset,
    FileLedger,
    Policy,
    SummaryRequest,
    accept_data,
)
from fedwad.transport import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"


def by_moments(ask, count):
    """n m before and (n + 1) m' after differ by the new record."""
    before, after = ask(0, ColumnsRequest()), ask(1, ColumnsRequest())
    return (count + 1) * after.mean - count * before.mean


def by_atoms(ask, count, features):
    """The same by the sums of one cell."""
    request = AtomsRequest(np.zeros((1, features)), np.zeros(1), 0.0)
    before, after = ask(0, request), ask(1, request)
    return (count + 1) * after.offsets[0] - count * before.offsets[0]


def by_summaries(ask, count):
    """The same by one summary of each version, whose total mean is exact."""
    request = SummaryRequest(1, "diag", 2.0, 0)
    before, after = ask(0, request).summary, ask(1, request).summary
    return (count + 1) * after.mean - count * before.mean


ATTACKS = {
    "hub": lambda ask, X: by_moments(ask, len(X)),
    "coreset": lambda ask, X: by_atoms(ask, len(X), X.shape[1]),
    "two summaries": lambda ask, X: by_summaries(ask, len(X)),
}


def policy_of(name):
    if name == "two summaries":
        return Policy(("summary",), max_distinct_replies=2)
    return Policy.load(FOLDER / f"{name}.toml")


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("same_process", [True, False])
def test_a_new_patient_is_not_the_difference_of_two_replies(tmp_path, name, same_process):
    """New data under an old ledger stop the node until its operator has said what to do."""
    X = np.random.default_rng(7).standard_normal((400, 6))
    new = np.random.default_rng(8).standard_normal((1, 6))
    versions = X, np.vstack([X, new])
    ledger = FileLedger(tmp_path / "paris.sqlite")

    def ask(version, request):
        record = ledger if same_process else FileLedger(tmp_path / "paris.sqlite")
        return Client(Dataset(Measure(versions[version])), policy_of(name), record).answer(request)

    try:
        error = float(np.abs(ATTACKS[name](ask, X) - new[0]).max())
    except FedwadError:
        error = np.inf
    assert error > 1e-3, f"the new patient came back to {error:.1g} from two replies"


def test_the_same_data_in_another_order_are_no_new_version(tmp_path):
    """Closing the door to new data closes it to no restart and to no sorting of the table."""
    X = np.random.default_rng(7).standard_normal((400, 6))
    policy = policy_of("hub")
    for rows in (X, X[::-1], X):
        Client(Dataset(Measure(rows)), policy, FileLedger(tmp_path / "paris.sqlite")).answer(
            ColumnsRequest()
        )


def test_the_operator_lets_new_data_be_asked_about(tmp_path):
    """From then on the old version is refused, also by a client that was open already."""
    X = np.random.default_rng(7).standard_normal((400, 6))
    old, new = Dataset(Measure(X)), Dataset(Measure(X[1:]))
    policy, ledger = policy_of("hub"), FileLedger(tmp_path / "paris.sqlite")
    before = Client(old, policy, ledger)
    assert not accept_data(new, policy, ledger)  # nothing was asked yet
    before.answer(ColumnsRequest())
    with fails(FedwadError, "changed-data"):
        Client(new, policy, ledger)
    assert not accept_data(old, policy, ledger)
    assert accept_data(new, policy, ledger)
    Client(new, policy, ledger).answer(ColumnsRequest())
    with fails(FedwadError, "changed-data"):
        before.answer(ColumnsRequest())
    assert ledger.queries == 2


def test_a_file_that_changes_while_it_is_read_is_not_answered_about(tmp_path, monkeypatch):
    from fedwad.site import client as node

    path, policy = tmp_path / "x.npy", tmp_path / "policy.toml"
    np.save(path, np.random.default_rng(0).normal(size=(80, 2)))
    Policy(["summary"], name="x").save(policy)
    read = node.load_site_data

    def slowly(*given):
        data = read(*given)
        np.save(path, np.random.default_rng(1).normal(size=(90, 2)))
        return data

    monkeypatch.setattr(node, "load_site_data", slowly)
    with fails(FederationError, "changed-data"):
        node.open_client(path, policy).answer(SummaryRequest(1, "diag", 2.0, 0))
