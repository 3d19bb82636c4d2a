"""Cells of atoms: right sums, a valid plan whatever the potentials, nothing over fewer samples than
the floor."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from failing import fails
from fedwad.errors import InputError, PolicyError
from fedwad.federation import AtomsRequest, Client, Dataset, Envelope, Policy, pack, unpack
from fedwad.messages import codec
from fedwad.transport import Measure

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((100, 3))
ATOMS, POTENTIALS = RNG.standard_normal((5, 3)), RNG.standard_normal(5)
OPEN = Policy.open()


def ask(points=POINTS, atoms=ATOMS, potentials=POTENTIALS, reg=0.3, policy=OPEN, weights=None):
    return Client(Dataset(Measure(points, weights)), policy).answer(
        AtomsRequest(atoms, potentials, reg)
    )


def shares_by_hand(points, atoms, potentials, reg):
    """Sample by sample, from the definition."""
    reduced = np.array(
        [[((x - z) ** 2).sum() - g for z, g in zip(atoms, potentials, strict=True)] for x in points]
    )
    if reg == 0:
        return np.eye(len(atoms))[reduced.argmin(axis=1)], reduced
    powers = np.exp(-(reduced - reduced.min(axis=1, keepdims=True)) / reg)
    return powers / powers.sum(axis=1, keepdims=True), reduced


@pytest.mark.parametrize("reg", [0.0, 0.01, 0.3, 50.0])
def test_sums_are_those_of_the_definition(reg):
    weights = RNG.uniform(0.5, 2, 100)
    reply = ask(reg=reg, weights=weights)
    shares, reduced = shares_by_hand(POINTS, ATOMS, POTENTIALS, reg)
    own = weights / weights.sum()
    plan = own[:, None] * shares
    np.testing.assert_allclose(reply.masses, plan.sum(axis=0), atol=1e-8)
    differences = POINTS[:, None] - ATOMS
    np.testing.assert_allclose(reply.offsets, np.einsum("is,isd->sd", plan, differences), atol=1e-7)
    np.testing.assert_allclose(
        reply.squares, (plan * (differences**2).sum(axis=2)).sum(axis=0), atol=1e-7
    )
    np.testing.assert_allclose(reply.overlap, plan.T @ shares, atol=1e-8)
    assert reply.dual == pytest.approx(own @ reduced.min(axis=1), rel=1e-12)
    assert reply.count == 100


def test_the_crossing_is_the_derivative_of_the_masses():
    step, reg = 1e-5, 0.3
    reply = ask(reg=reg)
    for atom in range(5):
        more, less = (
            ask(potentials=POTENTIALS + sign * step * np.eye(5)[atom], reg=reg) for sign in (1, -1)
        )
        slope = (np.diag(reply.masses) - reply.overlap)[:, atom] / reg
        np.testing.assert_allclose((more.masses - less.masses) / (2 * step), slope, atol=1e-5)


def test_a_large_common_offset_costs_no_digits():
    near = ask()
    far = ask(points=POINTS + 2.0**20, atoms=ATOMS + 2.0**20)
    for name in ("masses", "offsets", "squares", "overlap"):
        np.testing.assert_allclose(getattr(far, name), getattr(near, name), rtol=1e-8, atol=1e-9)
    assert far.dual == pytest.approx(near.dual, rel=1e-8)


@given(st.integers(1, 30), st.sampled_from([0.0, 0.05, 1.0]), st.integers(0, 1000))
def test_no_sum_is_over_fewer_samples_than_the_floor(floor, reg, seed):
    rng = np.random.default_rng(seed)
    points, atoms, potentials = (
        rng.standard_normal((60, 2)),
        2 * rng.standard_normal((6, 2)),
        rng.standard_normal(6),
    )
    policy = Policy(allow=["atoms"], min_cell_size=floor, rounding=0.0)
    client = Client(Dataset(Measure(points)), policy)
    reply = client.answer(AtomsRequest(atoms, potentials, reg))
    assert reply.min_cell_size >= floor
    if reg == 0:
        counts = np.rint(60 * reply.masses)
        assert ((counts == 0) | (counts >= floor)).all()
    # Still a plan of the same data, so it costs no less than the dual value, which is withheld when
    # a cell was closed.
    free = ask(points, atoms, potentials, reg)
    assert reply.dual is None or reply.dual <= free.dual + 1e-12
    assert reply.squares.sum() - reply.masses @ potentials >= free.dual - 1e-12
    mean = (reply.offsets + reply.masses[:, None] * atoms).sum(axis=0)
    np.testing.assert_allclose(mean, points.mean(axis=0), atol=1e-9)


def test_fewer_samples_than_the_floor_tell_nothing():
    policy = Policy(allow=["atoms"], min_cell_size=10)
    with fails(PolicyError, "small-cells"):
        ask(POINTS[:9], policy=policy)


def test_the_policy_bounds_the_number_of_atoms_and_denies_by_default():
    with fails(PolicyError, "support-refused"):
        ask(policy=Policy(allow=["atoms"], max_support=4))
    with fails(PolicyError, "kind-refused", "atoms"):
        ask(policy=Policy(allow=["summary"]))


@pytest.mark.parametrize(
    ("atoms", "potentials", "reg", "problem"),
    [
        (ATOMS[0], POTENTIALS, 0.1, "bad-request"),
        (ATOMS, POTENTIALS[:4], 0.1, "bad-request"),
        (ATOMS * np.nan, POTENTIALS, 0.1, "missing-values"),
        (ATOMS, POTENTIALS * np.inf, 0.1, "bad-request"),
        (ATOMS, POTENTIALS, -0.1, "bad-request"),
        (ATOMS, POTENTIALS, np.inf, "bad-request"),
        (ATOMS.tolist(), POTENTIALS, 0.1, "bad-request"),
        (ATOMS.astype(np.float32), POTENTIALS, 0.1, "bad-request"),
        (ATOMS[:, :2].copy(), POTENTIALS, 0.1, "different-columns"),
    ],
)
def test_what_makes_no_sense_is_refused(atoms, potentials, reg, problem):
    with fails(InputError, problem):
        ask(atoms=atoms, potentials=potentials, reg=reg)


def test_it_travels_bit_for_bit():
    asked, reply = AtomsRequest(ATOMS, POTENTIALS, 0.3), ask()
    for message in (asked, reply):
        back = unpack(pack(Envelope(message))).content
        assert codec.digest(back) == codec.digest(message)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"count": 0}, "bad-reply"),
        ({"masses": np.full(5, 0.3)}, "bad-reply"),
        ({"masses": np.array([1.2, -0.2, 0, 0, 0])}, "bad-reply"),
        ({"squares": np.full(4, 1.0)}, "bad-reply"),
        ({"offsets": np.full((5, 3), np.nan)}, "bad-reply"),
        ({"overlap": np.full((5, 5), 2.0)}, "bad-reply"),
        ({"min_cell_size": 0}, "bad-reply"),
    ],
)
def test_a_server_takes_no_nonsense(change, problem):
    with fails(InputError, problem):
        codec.plain(dataclasses.replace(ask(), **change)).check_values()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"offsets": np.zeros((5, 2))}, "bad-reply"),
        ({"offsets": np.full((5, 3), 10.0)}, "bad-reply"),
        ({"dual": 1e3}, "bad-reply"),
    ],
)
def test_a_server_sees_what_contradicts_the_question(change, problem):
    reply = ask()
    AtomsRequest(ATOMS, POTENTIALS, 0.3).check(reply)
    with fails(InputError, problem):
        AtomsRequest(ATOMS, POTENTIALS, 0.3).check(dataclasses.replace(reply, **change))


def test_a_rounded_reply_has_no_value_in_which_one_record_has_a_cell_of_its_own():
    """Once told a rare patient: two far atoms, whose border lies at the flag that the patient alone
    has, with a regularisation that leaves no cell small, and a soft value rounded by the hard one.
    """
    points = np.column_stack([POINTS, np.arange(len(POINTS)) == 0])
    far, slope, flag = 1e6, 0.1, points.shape[1] - 1
    atoms = np.zeros((2, points.shape[1]))
    atoms[1, flag], atoms[1, 0] = far, slope * far
    border = np.array([0.0, (1 + slope**2) * far**2 - 2 * far * 0.6])
    asked = AtomsRequest(atoms, border, 0.4 * far)
    for rounding in (0.0, 3.0):
        policy = Policy(("atoms",), min_cell_size=10, rounding=rounding)
        reply = Client(Dataset(Measure(points)), policy).answer(asked)
        assert reply.min_cell_size >= 10
        assert (reply.dual is None) == (rounding > 0)
