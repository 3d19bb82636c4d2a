"""A server that chooses the order p and the support reads no record under an example policy.

With all support points in one place z the transport is the same for every plan, and the distance is
a moment of |x - z|. No floor on the samples in a cell applies to it.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fedwad.errors import FedwadError
from fedwad.federation import CellsRequest, Client, ColumnsRequest, Dataset, Moments, Policy
from fedwad.transport import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"
FLAG = 11  # the column that one patient alone has set


def patients(seed=0, count=500):
    """Records of twelve features; the first one has a flag that nobody else has."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, 12)) * rng.uniform(0.5, 2.0, 12)
    X[:, FLAG] = 0.0
    X[0, FLAG] = 1.0
    return X


class Attacker:
    """A server that asks a client under an example policy, and counts the queries."""

    def __init__(self, X, policy):
        self.client = Client(Dataset(Measure(X)), Policy.load(FOLDER / f"{policy}.toml"))
        self.features, self.queries = X.shape[1], 0

    def moments(self):
        self.queries += 1
        self.client.answer(ColumnsRequest())  # without the moments of the flag
        points = self.client.data.measure.points
        return Moments(len(points), points.mean(axis=0), points.std(axis=0))

    def power(self, z, p):
        """E|x - z|^p, or NaN when the client refuses."""
        self.queries += 1
        support = Measure(np.tile(np.asarray(z, dtype=float), (10, 1)))
        try:
            return (
                self.client.answer(CellsRequest("attack", support, float(p), "spherical")).distance
                ** p
            )
        except FedwadError:
            return np.nan


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("policy", ["rounds", "hub"])
def test_fourth_powers_give_no_flagged_record(policy, seed):
    """Row 1: E|y-z|^4 from far away holds the covariance with the flag, which is the record."""
    X = patients(seed)
    attacker = Attacker(X, policy)
    moments = attacker.moments()
    mean, variance, n = moments.mean, moments.scale**2, len(X)
    unit, far = np.eye(12), 2e4
    deviation = n * mean[FLAG]  # the flag is 0 for all others: this is 1
    row = np.full(12, np.nan)
    row[FLAG] = variance[FLAG]
    for k in range(12):
        if k == FLAG:
            continue
        z = far * (unit[FLAG] + unit[k])
        known = (z @ z) ** 2 + 2 * (z @ z) * variance.sum() + 4 * (z**2) @ variance
        row[k] = (attacker.power(mean + z, 4) - known) / (8 * far**2)
    guess = mean + row * n / deviation
    assert attacker.queries <= 13
    error = np.abs(guess - X[0]).max()
    assert not error < 0.1, f"the record came back to {error:.2g} in {attacker.queries} queries"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fourth_powers_in_pairs_give_no_flagged_record_exactly(seed):
    """Row 1: with z and -z third moments cancel, and 25 queries give the record exactly."""
    X = patients(seed)
    attacker = Attacker(X, "rounds")
    moments = attacker.moments()
    mean, variance, n = moments.mean, moments.scale**2, len(X)
    unit, far = np.eye(12), 30.0
    row = np.full(12, np.nan)
    row[FLAG] = variance[FLAG]

    def even(z):
        known = (z @ z) ** 2 + 2 * (z @ z) * variance.sum() + 4 * (z**2) @ variance
        return (attacker.power(mean + z, 4) + attacker.power(mean - z, 4)) / 2 - known

    fourth = even(far * unit[FLAG])
    for k in range(12):
        if k != FLAG:
            row[k] = (even(far * (unit[FLAG] + unit[k])) - fourth) / (8 * far**2)
    guess = mean + row * n / (n * mean[FLAG])
    assert attacker.queries <= 30
    error = np.abs(guess - X[0]).max()
    assert not error < 0.1, f"the record came back to {error:.2g} in {attacker.queries} queries"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_first_powers_from_far_away_give_no_flagged_record(seed):
    """Row 1b: E|y - r u| = r + (E|y|^2 - u'Cu) / 2r + ..., in pairs u and -u."""
    X = patients(seed)
    attacker = Attacker(X, "rounds")
    moments = attacker.moments()
    mean, variance, n = moments.mean, moments.scale**2, len(X)
    unit, far = np.eye(12), 3e3
    row = np.full(12, np.nan)
    row[FLAG] = variance[FLAG]
    for k in range(12):
        if k == FLAG:
            continue
        u = (unit[FLAG] + unit[k]) / np.sqrt(2)
        both = (attacker.power(mean + far * u, 1) + attacker.power(mean - far * u, 1)) / 2
        quadratic = variance.sum() - 2 * far * (both - far)  # u'Cu = (C_ff + C_kk) / 2 + C_fk
        row[k] = quadratic - (variance[FLAG] + variance[k]) / 2
    guess = mean + row * n / (n * mean[FLAG])
    assert attacker.queries <= 23
    error = np.abs(guess - X[0]).max()
    assert not error < 0.1, f"the record came back to {error:.2g} in {attacker.queries} queries"


def tail_records(attacker, count, queries):
    """Records beyond z: n E(x - z)+ is piecewise linear in z, with slope minus the number of
    records beyond.
    """
    moments = attacker.moments()
    mean, scale = float(moments.mean[0]), float(moments.scale[0])
    places = list(mean + scale * np.geomspace(2.0, 20.0, queries))
    beyond = [count * (attacker.power([z], 1) - (z - mean)) / 2 for z in places]
    sums = {}  # number of records beyond -> their sum
    pairs = list(zip(places, beyond, strict=True))
    for (a, at), (b, bt) in pairwise(pairs):
        slope = (at - bt) / (b - a)
        if np.isfinite(slope) and abs(slope - round(slope)) < 1e-6:
            sums[round(slope)] = at + round(slope) * a
    sums.setdefault(0, 0.0)
    return [sums[k] - sums[k - 1] for k in sorted(sums) if k > 0 and k - 1 in sums]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_tents_give_no_tail_record(seed):
    """Row 2: one feature, p = 1. E|x - z| bends at every record."""
    X = np.random.default_rng(seed).lognormal(sigma=1.0, size=(300, 1))
    attacker = Attacker(X, "rounds")
    found = tail_records(attacker, len(X), 29)
    assert attacker.queries <= 30
    exact = [guess for guess in found if np.abs(X[:, 0] - guess).min() < 1e-9]
    assert not exact, f"{len(exact)} records came back to 1e-9"
