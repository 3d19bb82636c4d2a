"""The paper's rounds: Algorithm 1 against a plain reference, the position t, what messages hold."""

import itertools
from collections import Counter

import numpy as np
import ot
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.federation import KINDS, Client, Dataset, LocalFederation, Policy, draw_t, pack
from fedwad.messages.codec import Envelope
from fedwad.methods import FedWaD
from fedwad.site.context import ClientContext
from fedwad.transport import Measure


def problem(n=14, size=5, seed=0):
    """Two samples and a first support, in general position so that all plans are unique."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=(n - 3, 3)) + 1, rng.normal(size=(size, 3))


def client(points, policy=None):
    return Client(Dataset(Measure(points)), policy or Policy.open())


def plan_of(x, a, y, b, p):
    cost = ot.dist(x, y, "euclidean") ** p
    return ot.emd(a, b, cost, numItermax=10**7), cost


def reference_interpolant(x, a, y, b, p, t, kind):
    """Equations (5) and (9) of the paper, with POT's plan."""
    plan, _ = plan_of(x, a, y, b, p)
    if kind == "exact":
        rows, cols = np.nonzero(plan)
        return (1 - t) * x[rows] + t * y[cols], plan[rows, cols]
    if len(y) > len(x):
        return (1 - t) * x + t * (plan @ y) / a[:, None], a
    return (1 - t) * (plan.T @ x) / b[:, None] + t * y, b


def reference(x, y, z, p, kind, positions):
    """Algorithm 1: the estimate after each of four rounds.

    `positions()` returns the t of both sites and of the server in a round.
    """
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    c = np.full(len(z), 1 / len(z))
    estimates = []
    for _ in range(4):
        t_mu, t_nu, t_server = positions()
        mu = reference_interpolant(x, a, z, c, p, t_mu, kind)
        nu = reference_interpolant(y, b, z, c, p, t_nu, kind)
        z, c = reference_interpolant(*mu, *nu, p, t_server, kind)
        plans = plan_of(x, a, z, c, p), plan_of(y, b, z, c, p)
        estimates.append(sum(float((plan * cost).sum()) ** (1 / p) for plan, cost in plans))
    return estimates


@pytest.mark.parametrize("t", [0.2, 0.5, "random", "own"])
@pytest.mark.parametrize("kind", ["barycentric", "exact"])
@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_algorithm_1_agrees_with_a_plain_reference(p, kind, t, monkeypatch):
    x, y, z = problem()
    # A site's own draw depends on the last bit of the support; here it is that of its number.
    draws = Counter()

    def seeded(context, *_):
        rows = len(context.data.measure)
        draws[rows] += 1
        return np.random.default_rng([rows, draws[rows]])

    monkeypatch.setattr(ClientContext, "rng", seeded)

    def expected(mu, nu):
        rng, numbers = np.random.default_rng(3), itertools.count(1)

        def positions():
            if t == "own":
                k = next(numbers)
                own = (draw_t(np.random.default_rng([len(one), k])) for one in (mu, nu))
                return *own, draw_t(rng)
            shared = draw_t(rng) if t == "random" else t
            return shared, shared, shared

        return pytest.approx(reference(mu, nu, z, p, kind, positions), rel=1e-12)

    fed = fedwad.local({"x": x, "y": y})
    result = fedwad.distance(
        fed["x"],
        fed["y"],
        FedWaD(t=t, interpolant=kind, rounds=4, init=Measure(z), reveal="every"),
        p=p,
        seed=3,
    )
    found = [record.fedwad for record in result.history]
    assert found[-1] == result.fedwad
    # The content of the first replies decides which of the sites is mu.
    assert found == expected(x, y) or found == expected(y, x)


class Recorded:
    """A federation that keeps the messages of both directions."""

    def __init__(self, federation):
        self._federation, self.questions, self.answers = federation, [], []

    def __getattr__(self, name):
        return getattr(self._federation, name)

    def __getitem__(self, name):
        return fedwad.federation.Site(self, name)

    def ask(self, requests):
        answers = self._federation.ask(requests)
        self.questions += requests.values()
        self.answers += answers.values()
        return answers


def recorded(**data):
    return Recorded(LocalFederation({name: client(points) for name, points in data.items()}))


class TestPosition:
    def test_each_site_draws_its_own_and_sends_it_to_nobody(self):
        x, y, z = problem()
        fed = recorded(x=x, y=y)
        fedwad.distance(fed["x"], fed["y"], "fedwad", t="own", rounds=3, init=z, reveal="distance")
        rounds = [one for one in fed.questions if hasattr(one, "interpolant")]
        assert len(rounds) == 6
        assert {one.t for one in rounds} == {None}
        drawn = [
            draw_t(client(data)._context.rng("t", one.support.points))
            for one, data in zip(rounds, itertools.cycle([x, y]), strict=False)
        ]
        assert len(set(drawn)) == 6
        sent = b"".join(pack(Envelope(one)) for one in (*fed.questions, *fed.answers))
        for t in drawn:
            assert np.float64(t).tobytes() not in sent
            assert repr(t).encode() not in sent

    def test_own_draws_are_uniform_and_repeat(self):
        context = client(problem()[0])._context
        supports = np.random.default_rng(0).normal(size=(400, 5, 3))
        drawn = np.array([draw_t(context.rng("t", z)) for z in supports])
        assert drawn.tolist() == [draw_t(context.rng("t", z)) for z in supports]
        expected = (np.arange(400) + 0.5) / 400
        assert np.abs(np.sort(drawn) - expected).max() < 1.63 / 20  # Kolmogorov-Smirnov at 1%
        assert drawn.min() > 0
        assert drawn.max() < 1

    def test_random_covers_the_whole_interval(self):
        x, y, z = problem()
        result = fedwad.distance(x, y, "fedwad", t="random", rounds=60, init=z, reveal="distance")
        drawn = [record.t for record in result.history]
        assert min(drawn) < 0.1
        assert max(drawn) > 0.9

    @pytest.mark.parametrize("t", ["own", "random", 0.3])
    def test_matrix_and_coreset_take_it(self, t):
        x, y, _ = problem()
        matrix = fedwad.matrix({"x": x, "y": y}, method="pairs", t=t, support=4, rounds=3)
        assert matrix.lower[0, 1] <= fedwad.wasserstein(x, y) <= matrix.upper[0, 1]
        assert matrix.options["t"] == t
        coreset = fedwad.coreset({"x": x, "y": y}, size=3, method="fedwad", rounds=3, t=t)
        assert coreset.options["t"] == t
        assert all(record.loss > 0 for record in coreset.history)

    def test_no_running_estimate_where_t_is_not_known(self):
        x, y, z = problem()
        result = fedwad.distance(x, y, "fedwad", t="own", rounds=3, init=z)
        assert [record.running for record in result.history] == [None] * 3
        with fails(InputError, "bad-option"):
            fedwad.distance(x, y, "fedwad", t="own", tol=0.1)
        stopped = fedwad.distance(x, y, "fedwad", t="own", tol=0.5, reveal="every", rounds=30)
        assert len(stopped.history) < 30

    @pytest.mark.parametrize("t", ["other", 0, 1, True])
    def test_other_values_are_refused(self, t):
        with fails(InputError, "bad-option"):
            fedwad.distance(*problem()[:2], "fedwad", t=t)


class TestOnlyDistances:
    def test_support_points_and_two_distances_travel_and_nothing_else(self):
        x, y, _ = problem()
        fed = recorded(x=x, y=y)
        result = fedwad.distance(
            fed["x"],
            fed["y"],
            "fedwad",
            t="own",
            support=5,
            rounds=3,
            reveal="distance",
            init="normal",
        )
        asked = [type(one).__name__ for one in fed.questions]
        rounds = ["TransportRequest"] * 6
        assert asked == ["DescribeRequest"] * 2 + rounds + ["DistanceRequest"] * 2
        descriptions, interpolants, distances = fed.answers[:2], fed.answers[2:8], fed.answers[8:]
        public = {"name": "", "contact": "", "features": 3, "labelled": False, "schema": ""}
        assert all(vars(one) == public | {"allow": tuple(sorted(KINDS))} for one in descriptions)
        for one in interpolants:
            points, weights = one.interpolant.points, one.interpolant.weights
            assert vars(one) == {"interpolant": one.interpolant, "distance": None, "rounding": 0.0}
            assert (points.shape, weights.tolist()) == ((5, 3), [0.2] * 5)
        assert sum(one.distance for one in distances) == result.fedwad
        for one in interpolants:  # points and equal weights: 5 (3 + 1) numbers of 8 bytes
            assert len(pack(Envelope(one))) <= 5 * 4 * 8 + 400
        for one in distances:
            assert vars(one) == {"distance": one.distance, "rounding": 0.0}
            assert len(pack(Envelope(one))) <= 8 + 200

    def test_bounds_follow_from_the_triangle_inequality(self):
        x, y, z = problem()
        result = fedwad.distance(x, y, "fedwad", init=z, rounds=2, reveal="distance", t=0.1)
        assert 0 < result.lower <= fedwad.wasserstein(x, y) <= result.upper == result.value
        assert result.evidence is None
        assert result.rows == ()
        with pytest.raises(InputError):
            result.explain()
        assert fedwad.DistanceResult.from_dict(result.to_dict()) == result

    def test_nothing_is_tested(self):
        x, y, z = problem(200)
        result = fedwad.distance(x, y + 5, "fedwad", init=z, rounds=2, reveal="distance")
        assert result.differs is None
        assert np.isnan(result.pvalue)
        assert result.population_interval is None
        assert "not tested" in result.sentence

    def test_the_estimate_is_that_of_a_run_that_reveals_more(self):
        x, y, z = problem()
        runs = [fedwad.distance(x, y, "fedwad", init=z, reveal=w) for w in ("distance", "last")]
        assert runs[0].fedwad == runs[1].fedwad
        assert runs[0].lower <= runs[1].lower <= runs[1].upper <= runs[0].upper

    def test_a_policy_without_rounds_refuses_it(self):
        x, y, _ = problem()
        policy = Policy(("describe", "summary"), min_cell_size=1)
        fed = LocalFederation({"x": client(x, policy), "y": client(y, policy)})
        with pytest.raises(fedwad.PolicyError):
            fedwad.distance(fed["x"], fed["y"], "fedwad", reveal="distance", init="normal")

    def test_labelled_data(self):
        x, y, _ = problem()
        codes = np.arange(len(x)) % 2
        result = fedwad.distance(
            (x, codes),
            (y, codes[: len(y)]),
            "fedwad",
            labels=True,
            reveal="distance",
            init="normal",
            support=4,
        )
        exact = fedwad.transport.dataset_distance(x, codes, y, codes[: len(y)])
        assert result.lower <= exact <= result.upper
