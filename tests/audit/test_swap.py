"""The swap attack: cells that differ by one record tell it, unless sums are rounded at random."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedwad
from fedwad.audit.api import REQUEST_KINDS
from fedwad.audit.rare import swap_between_atoms, swap_records
from fedwad.audit.session import AttackSession
from fedwad.federation import (
    AtomsRequest,
    CellsRequest,
    Client,
    Dataset,
    DistanceRequest,
    Policy,
    TransportRequest,
)
from fedwad.transport import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"


def patients(seed, count=500):
    """Whole numbers as in a table of patients; the last column is a value that one patient has."""
    rng = np.random.default_rng(seed)
    means, stds, shares = [54, 132, 246, 149], [9, 17, 51, 23], [0.68, 0.15, 0.33]
    numbers = np.rint(rng.normal(means, stds, (count, 4)))
    flags = rng.random((count, 3)) < shares
    rare = np.arange(count) == 0
    return np.column_stack([numbers, flags, rare]).astype(float)


def errors(policy, method, seeds):
    """Errors of the attack on the rare patient, in standard deviations, and its values right."""
    found, right = [], 0
    for seed in seeds:
        X = patients(seed)
        session = AttackSession(Dataset(Measure(X)), policy, REQUEST_KINDS[method])
        (guess,) = swap_records(session, np.random.default_rng(seed))
        found.append(((guess - X[0]) / X.std(axis=0))[:-1])
        right += int((np.abs(guess - X[0])[:-1] < 0.5).sum())
    return np.array(found), right


@pytest.mark.parametrize(("name", "method"), [("hub", "hub"), ("rounds", "fedwad")])
def test_exact_sums_tell_a_rare_patient_and_rounded_ones_do_not(name, method):
    policy = Policy.load(FOLDER / f"{name}.toml")
    assert policy.rounding >= 3
    exact, right = errors(replace(policy, rounding=0.0), method, range(6))
    assert np.abs(exact).max() < 0.1
    assert right >= 0.8 * exact.size
    rounded, right = errors(policy, method, range(6))
    assert np.sqrt((rounded**2).mean()) > 0.5
    guessed = sum(
        int((np.abs(np.rint(x.mean(axis=0)) - x[0])[:-1] < 0.5).sum())
        for x in map(patients, range(6))
    )
    assert right <= guessed + 3 * np.sqrt(guessed)


def test_many_pairs_of_atoms_do_not_average_the_rounding_away():
    """With errors that are new for each pair, 25 pairs told the numbers to 0.6 deviations."""
    policy, found = Policy.load(FOLDER / "coreset.toml"), []
    for rounding in (0.0, policy.rounding):
        for seed in range(6):
            X, asked = patients(seed), replace(policy, rounding=rounding)
            session = AttackSession(Dataset(Measure(X)), asked, REQUEST_KINDS["coreset"])
            (guess,) = swap_between_atoms(session, np.random.default_rng(seed))
            found.append(np.abs((guess - X[0]) / X.std(axis=0))[:4])
    exact, rounded = np.split(np.array(found), 2)
    assert exact.max() < 1e-6
    assert np.sqrt((rounded**2).mean()) > 0.9


def test_counts_of_cells_do_not_tell_on_which_side_the_rare_patient_is():
    """Of two halves by one flag, one leans on the value that one patient has: the difference of
    their counts was 1 or 0 by the flag of that patient."""
    policy, right = Policy.load(FOLDER / "coreset.toml"), {0.0: 0, 3.0: 0}
    assert policy.rounding == 3.0
    for rounding in right:
        for seed in range(20):
            X = patients(seed)
            client = Client(Dataset(Measure(X)), replace(policy, rounding=rounding))
            for flag in (4, 5):
                counts = []
                for lean in (0.0, -2.0):
                    v = np.zeros(8)
                    v[flag], v[7] = 1.0, lean
                    atoms = np.array([[-0.5], [0.5]]) * v
                    border = np.array([0.0, -1.0])  # where the flag is one half
                    reply = client.answer(AtomsRequest(atoms, border, 0.0))
                    counts.append(reply.masses[1] * len(X))
                right[rounding] += (counts[0] - counts[1] > 0.5) == bool(X[0, flag])
    assert right[0.0] == 40
    assert right[policy.rounding] < 32


def test_the_audit_plays_it():
    policy = Policy.load(FOLDER / "hub.toml")
    for rounding, leaks in ((0.0, True), (policy.rounding, False)):
        result = fedwad.audit(patients(3), replace(policy, rounding=rounding), method="hub")
        row = next(one for one in result.rows if one.attack == "swap of a rare record")
        assert row.answered == 14  # columns, cells for the withheld one, and six pairs
        assert row.leaks is leaks


def requests(support):
    yield TransportRequest("run", support, 2.0, 0.5, "barycentric", True)
    yield DistanceRequest("run", support, 2.0)
    yield DistanceRequest("run", support, 1.0)
    for covariance_type in ("full", "lowrank", "diag", "spherical"):
        yield CellsRequest("run", support, 2.0, covariance_type)
    yield CellsRequest("run", support, 1.5, "diag")


POINTS = np.random.default_rng(0).normal(size=(300, 4))
SUPPORT = Measure(np.random.default_rng(1).normal(size=(6, 4)))


@pytest.mark.parametrize("request_", list(requests(SUPPORT)))
def test_replies_differ_from_the_exact_ones_by_at_most_what_they_say(request_):
    policy = replace(Policy.open(), rounding=1.0)
    exact, rounded, again = (
        Client(Dataset(Measure(POINTS)), one).answer(request_)
        for one in (Policy.open(), policy, policy)
    )
    assert exact.rounding == 0 < rounded.rounding
    assert rounded.distance == again.distance != exact.distance
    assert abs(rounded.distance - exact.distance) <= rounded.rounding * (1 + 1e-9)
    rounded.check_values()
    request_.check(rounded)
    if isinstance(request_, CellsRequest):
        moved = fedwad.wasserstein(
            rounded.summary.means,
            exact.summary.means,
            a=exact.summary.weights,
            b=exact.summary.weights,
        )
        assert 0 < moved <= rounded.rounding
        assert (rounded.summary.within != exact.summary.within).all()


def test_the_same_cell_is_moved_alike_whatever_the_support():
    policy = replace(Policy.open(), rounding=1.0)
    client = Client(Dataset(Measure(POINTS)), policy)
    far = np.array([[-50.0, 0, 0, 0], [50.0, 0, 0, 0]])
    means = [
        client.answer(CellsRequest("run", Measure(far + shift), 2.0, "spherical")).summary.means
        for shift in (0.0, 1e-6)
    ]
    np.testing.assert_allclose(*means, rtol=0, atol=1e-12)


def test_sums_of_atoms_are_rounded_and_their_bounds_hold():
    policy = replace(Policy.open(), rounding=1.0)
    request = AtomsRequest(SUPPORT.points, np.zeros(6), 0.0)
    exact, rounded = (
        Client(Dataset(Measure(POINTS)), one).answer(request) for one in (Policy.open(), policy)
    )
    rounded.check_values()
    request.check(rounded)
    assert rounded.masses.sum() == pytest.approx(1.0)
    assert (rounded.offsets != exact.offsets).all()
    assert rounded.dual is None  # its derivatives by the potentials are exact masses of cells


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["fedwad", "hub", "pairs", "union"])
def test_bounds_hold_with_rounded_sums(method, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(200, 3)), rng.normal(size=(150, 3)) + rng.uniform(0, 2)
    fed = fedwad.local({"x": x, "y": y}, policy=replace(Policy.open(), rounding=1.0))
    exact = fedwad.wasserstein(x, y)
    if method == "fedwad":
        for reveal in ("distance", "last", "every"):
            found = fedwad.distance(fed["x"], fed["y"], method, support=8, reveal=reveal, t=0.5)
            assert found.lower <= exact <= found.upper
            assert all(one.upper is None or one.upper >= exact for one in found.history)
    elif method == "union":
        found = fedwad.coreset(fed, size=6)
        union = fedwad.wasserstein(found.points, np.vstack([x, y]), a=found.weights)
        assert found.lower <= union <= found.upper
    else:
        found = fedwad.matrix(fed, method=method)
        assert found.lower[0, 1] <= exact <= found.upper[0, 1]


@pytest.mark.parametrize(
    ("name", "method", "attack", "fix"),
    [
        ("hub", "hub", "swap of a rare record", {"rounding": 0.0}),
        ("rounds", "fedwad", "swap of a rare record", {"rounding": 0.0}),
        ("coreset", "coreset", "swap between two atoms", {"rounding": 0.0}),
        ("summary", "summary", "rare features", {"covariance_type": "full"}),
    ],
)
def test_one_record_counts_in_a_table_of_whole_numbers_with_copies(name, method, attack, fix):
    """A fresh sample of as many records as the table has hits copies; one guess hits none."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.poisson([3, 1, 2], (400, 3)), rng.random((400, 2)) < 0.3])
    X = np.column_stack([X, np.arange(400) == 17]).astype(float)
    X[17, :3] = 9, 4, 7  # no other record is near
    for change, leaks in ((fix, True), ({}, False)):
        policy = replace(Policy.load(FOLDER / f"{name}.toml"), **change)
        result = fedwad.audit(X, policy, method)
        assert result.baseline.exact > 10
        assert next(row for row in result.rows if row.attack == attack).leaks is leaks
