"""Row 5: no number of a coreset's reply is a sum over fewer samples than the floor."""

from pathlib import Path

import numpy as np
import pytest

from fedwad.errors import FedwadError
from fedwad.federation import AtomsRequest, Client, Dataset, Policy
from fedwad.transport import Measure

FOLDER = Path(__file__).parents[2] / "docs" / "policies"
FAR = 50.0


class Tails:
    """A server that cuts off the tail of the data along a direction by a far atom whose cell is
    closed again.
    """

    def __init__(self, client, count):
        self.client, self.count, self.queries = client, count, 0

    def beyond(self, direction, threshold):
        """Sum over records with <v, x> > threshold of the part that lies beyond, from the dual
        value.

        The atoms are 0 and a v. The potential of the second makes it the better one beyond the
        threshold. The sums leave it out, for its cell is closed, but the dual value was taken over
        both.
        """
        self.queries += 1
        atoms = np.array([np.zeros_like(direction), FAR * direction])
        potential = FAR**2 * direction @ direction - 2 * FAR * threshold
        try:
            reply = self.client.answer(AtomsRequest(atoms, np.array([0.0, potential]), 0.0))
        except FedwadError:
            return np.nan
        if reply.masses[1] > 0:  # enough records for a cell of their own
            return np.inf
        if reply.dual is None:  # withheld, because a cell was closed
            return np.nan
        whole = float(reply.squares.sum()) - float(reply.masses @ np.array([0.0, potential]))
        return self.count * (whole - reply.dual) / (2 * FAR)


def outermost(tails, direction, features, steps=14):
    """The record farthest along a direction, if the dual value reveals it."""
    low, high, step = 0.0, 8.0, 1e-3
    for _ in range(steps):  # a threshold with one record beyond: there the slope is one
        middle = (low + high) / 2
        slope = (tails.beyond(direction, middle) - tails.beyond(direction, middle + step)) / step
        if np.isnan(slope):
            slope = np.inf  # two infinities: more records than the floor
        if abs(slope - 1) < 1e-6:
            break
        low, high = (middle, high) if slope > 1 else (low, middle)
    else:
        return None
    turned = direction + 1e-3 * np.eye(features)
    sides = np.array([tails.beyond(v, middle) + middle for v in turned])
    return np.linalg.solve(turned, sides)


@pytest.mark.parametrize("floor", [10, 50])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_dual_value_gives_no_record(seed, floor):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((500, 4))
    policy = Policy(("atoms",), min_cell_size=floor, max_support=10, max_queries=200)
    tails = Tails(Client(Dataset(Measure(X)), policy), len(X))
    found = []
    for _ in range(5):
        direction = rng.standard_normal(4)
        guess = outermost(tails, direction / np.linalg.norm(direction), 4)
        if guess is not None and np.abs(X - guess).max(axis=1).min() < 1e-6:
            found.append(guess)
    assert not found, f"{len(found)} records came back to 1e-6 in {tails.queries} queries"


def test_the_ready_policy_gives_no_outermost_record():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 4))
    tails = Tails(Client(Dataset(Measure(X)), Policy.load(FOLDER / "coreset.toml")), len(X))
    guess = outermost(tails, np.array([1.0, 0.0, 0.0, 0.0]), 4)
    assert guess is None or np.abs(X - guess).max(axis=1).min() > 1e-3, (
        f"one record, {tails.queries} queries"
    )
