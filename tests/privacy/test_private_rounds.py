"""FedWaD under differential privacy: rounds between synthetic rows of one release of each site."""

import numpy as np
import pytest
from test_neighbours import epsilon_bound

import fedwad
from failing import fails
from fedwad import DP
from fedwad.errors import InputError
from fedwad.federation import Client, Dataset, LocalFederation, Policy
from fedwad.transport import Measure

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2000, 2)), RNG.normal([1.5, 0], 1, (2000, 2))


def federation(epsilon, *parts):
    """Sites with X and Y, or with other rows in place of X."""
    policy = Policy(["describe", "private"], epsilon=epsilon)
    rows = {"x": np.concatenate(parts) if parts else X, "y": Y}
    return LocalFederation({k: Client(Dataset(Measure(v)), policy) for k, v in rows.items()})


@pytest.mark.parametrize("rounds", [1, 30])
def test_any_number_of_rounds_costs_one_release(rounds):
    fed = federation(3.0)
    guarantee = DP(3, clip_norm=6)
    result = fedwad.distance(
        fed["x"], fed["y"], "fedwad", rounds=rounds, support=50, privacy=guarantee
    )
    assert len(result.history) == rounds
    assert result.traffic.messages == 2
    for client in fed._clients.values():
        sent = [entry for entry in client.ledger.entries if entry.outcome == "answered"]
        assert [entry.kind for entry in sent] == ["private"]
        assert client.ledger.totals.releases == 1
    assert not result.certified
    assert result.privacy["epsilon"] == 3
    assert result.evidence is None


def test_the_estimate_follows_from_the_releases_alone():
    fed = federation(3.0)
    one, two = (
        fedwad.distance(fed["x"], fed["y"], "fedwad", support=50, privacy=DP(3, clip_norm=6))
        for _ in range(2)
    )
    assert one.value == two.value  # the second time the same release is sent again
    assert one.value == pytest.approx(fedwad.wasserstein(X, Y), rel=0.1)
    assert one.fedwad >= one.value * 0.9
    assert one.lower <= one.value <= one.upper


def test_all_rounds_follow_from_the_releases_whatever_the_rows():
    # Neighbouring tables whose releases have the same bytes make the same rounds, bit by bit: the
    # guarantee of the release (test_neighbours.py) is that of all rounds.
    fed, neighbour = federation(3.0), federation(3.0, X[1:], [[6.0, 0.0]])
    sent = {}

    def record(requests):
        sent.update(LocalFederation.ask(fed, requests))
        return {name: sent[name] for name in requests}

    fed.ask = record
    neighbour.ask = lambda requests: {name: sent[name] for name in requests}
    results = []
    for one in (fed, neighbour):
        supports = []
        results.append(
            fedwad.distance(
                one["x"],
                one["y"],
                "fedwad",
                rounds=5,
                support=20,
                privacy=DP(3, clip_norm=6),
                callback=lambda record, seen=supports: seen.append(
                    (record.t, record.support, record.running)
                ),
            )
        )
        assert len(supports) == 5
    first, second = results
    assert np.array_equal(first.support.points, second.support.points)
    assert (first.value, first.lower, first.upper) == (second.value, second.lower, second.upper)
    assert [one.fedwad for one in first.history] == [one.fedwad for one in second.history]


def played_with(record, epsilon, plays=90):
    """Means of the support after all rounds, where one site holds this record beside 39 others."""
    rows = np.concatenate([X[:39, :1], [[record]]])
    policy, found = Policy(["describe", "private"], epsilon=epsilon), []
    for _ in range(plays):  # with new ledgers, so that releases have new noise
        sites = {"x": rows, "y": Y[:40, :1]}
        fed = LocalFederation({k: Client(Dataset(Measure(v)), policy) for k, v in sites.items()})
        options = {"rounds": 2, "support": 3, "t": 0.5, "privacy": DP(epsilon, clip_norm=4)}
        result = fedwad.distance(fed["x"], fed["y"], "fedwad", **options)
        found.append(result.support.points.mean())
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "told"), [(1.0, False), (100.0, True)])
def test_neighbouring_tables_are_told_apart_by_played_rounds_no_better_than_epsilon_allows(
    epsilon, told
):
    """An outlier on one side or on the other; with hardly any noise the same test tells them."""
    zero, one = (played_with(record, epsilon) for record in (-4.0, 4.0))
    bounds = epsilon_bound(zero, one), epsilon_bound(-zero, -one)
    assert max(bounds) > 1.0 if told else max(bounds) <= epsilon


class TestLabels:
    def site(self, rows, shift, seed):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, rows)
        return rng.normal(size=(rows, 4)) + 3 * np.eye(4)[y] + shift, y

    def test_rounds_between_labelled_releases(self):
        a, b = self.site(2000, 0, 1), self.site(2000, 1, 2)
        fed = fedwad.local({"a": a, "b": b})
        result = fedwad.distance(
            fed["a"],
            fed["b"],
            "fedwad",
            labels=True,
            rounds=5,
            privacy=DP(3, clip_norm=7, labels=[0, 1, 2]),
        )
        exact = fedwad.transport.dataset_distance(*a, *b)
        assert result.value == pytest.approx(exact, rel=0.1)
        assert result.traffic.messages == 2
        assert not result.certified
        for ledger in fed.ledgers.values():
            assert [one.kind for one in ledger.entries if one.outcome == "answered"] == ["private"]

    def test_names_of_classes_are_public(self):
        a, b = self.site(100, 0, 1), self.site(100, 1, 2)
        with fails(InputError, "missing-option"):
            fedwad.distance(a, b, "fedwad", labels=True, privacy=DP(1, clip_norm=7))

    def test_without_labels_a_list_of_names_is_refused(self):
        with fails(InputError, "bad-option"):
            fedwad.distance(X, Y, "fedwad", privacy=DP(1, clip_norm=7, labels=[0, 1]))


@pytest.mark.parametrize("options", [{"p": 1}, {"labels": True, "method": "summary"}])
def test_what_a_release_cannot_tell_is_refused(options):
    options = {"method": "fedwad"} | options
    with fails(InputError, "bad-option"):
        fedwad.distance(X, Y, privacy=DP(1, clip_norm=6), **options)


def test_matrices_play_no_private_rounds():
    with fails(InputError, "bad-option"):
        fedwad.matrix({"x": X, "y": Y}, method="pairs", privacy=DP(1, clip_norm=6))
