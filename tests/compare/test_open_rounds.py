"""The loop with parts of one's own: the examples of docs/research.md run as they are printed."""

import re
from pathlib import Path

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.compare import Coupling, FedWaDLoop
from fedwad.errors import InputError
from fedwad.methods import FedWaD
from fedwad.transport import Measure, interpolate, solve

PAGE = Path(__file__).parents[2] / "docs" / "research.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(size=(30, 2)), RNG.normal(size=(25, 2)) + 1, RNG.normal(size=(6, 2))


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_run_and_are_short(number):
    assert len(EXAMPLES[number].splitlines()) < 30
    exec(compile(EXAMPLES[number], "research.md", "exec"), {})  # noqa: S102


def test_there_is_an_example_of_each_part():
    text = "".join(EXAMPLES)
    assert all(f"{part}=" in text for part in ("solver", "interpolate", "noise", "callback"))
    assert "RemoteFederation" in text


def played(loop, rounds=6, swapped=False):
    mu, nu = (Measure(Y), Measure(X)) if swapped else (Measure(X), Measure(Y))
    for _ in range(rounds):
        loop.request()
        loop.advance(loop.reply(mu), loop.reply(nu))
    return loop.estimate(mu, nu)


@pytest.mark.parametrize("kind", ["barycentric", "exact"])
@pytest.mark.parametrize("t", [0.3, "random"])
def test_the_played_loop_is_the_method(kind, t):
    options = FedWaD(t=t, interpolant=kind)
    expected = fedwad.distance(
        X, Y, "fedwad", t=t, interpolant=kind, rounds=6, init=Z, reveal="distance", seed=5
    )

    def same(mu, nu, p):
        plan = solve(mu, nu, p)
        return Coupling(mu, nu, plan.matrix.toarray(), plan.distance)

    for solver in (None, same):
        # The content of the first replies decides which of two sites is mu.
        found = [
            played(
                FedWaDLoop(Measure(Z), options, rng=np.random.default_rng(5), solver=solver),
                swapped=swapped,
            )
            for swapped in (False, True)
        ]
        assert pytest.approx(expected.fedwad, rel=1e-12) in found


def test_each_part_is_used():
    calls = []

    def interpolate(coupling, t):
        calls.append("interpolate")
        return coupling.interpolate(t)

    def noise(measure, rng):
        calls.append("noise")
        return Measure(measure.points + rng.normal(0, 0.1, measure.points.shape))

    loop = FedWaDLoop(Measure(Z), interpolate=interpolate, noise=noise)
    assert played(loop, 2) >= fedwad.wasserstein(X, Y)
    assert calls.count("interpolate") == 6
    assert calls.count("noise") == 4


def test_arrays_are_measures_of_equal_weights():
    def points_of(coupling, t):
        return coupling.interpolate(t).points

    def rounded(measure, rng):  # noqa: ARG001
        return np.round(measure.points, 3)

    found = []
    for of in (np.asarray, Measure):
        loop = FedWaDLoop(of(Z), interpolate=points_of, noise=rounded)
        for _ in range(2):
            loop.request()
            loop.advance(loop.reply(of(X)), loop.reply(of(Y)))
        found.append(loop.estimate(of(X), of(Y)))
    assert found[0] == found[1]


def test_options_are_an_object():
    with fails(InputError, "bad-option", "a dict", "FedWaD"):
        FedWaDLoop(Measure(Z), {"t": 0.3})


def product(mu, nu):
    return np.outer(mu.weights, nu.weights)


@pytest.mark.parametrize(
    ("solver", "said"),
    [
        (lambda mu, nu, _: product(mu, nu), "a ndarray"),
        (lambda mu, nu, _: Coupling(mu, nu, product(mu, nu).tolist(), 1.0), "a list"),
        (lambda mu, nu, _: Coupling(mu, nu, product(nu, mu), 1.0), "shape (6, 30)"),
        (lambda mu, nu, _: Coupling(mu, nu, 0 * product(mu, nu), 1.0), "sum"),
        (lambda mu, nu, _: Coupling(mu, nu, np.nan * product(mu, nu), 1.0), "sum"),
    ],
)
def test_a_solver_without_a_coupling_is_blamed(solver, said):
    loop = FedWaDLoop(Measure(Z), solver=solver)
    loop.request()
    with fails(InputError, "wrong-coupling", "The solver returned", said):
        loop.reply(Measure(X))


@pytest.mark.parametrize("part", ["interpolate", "noise"])
def test_a_part_that_returns_nothing_is_named(part):
    loop = FedWaDLoop(Measure(Z), **{part: lambda *_: None})
    loop.request()
    with fails(InputError, "not-a-number", f"what {part} returned"):
        loop.reply(Measure(X))


@pytest.mark.parametrize("kind", ["barycentric", "exact"])
def test_callbacks_see_the_support_and_the_replies(kind):
    seen = []
    sites = fedwad.local({"x": X, "y": Y})
    options = {"t": 0.3, "interpolant": kind, "rounds": 3, "init": Z}
    r = fedwad.distance(sites["x"], sites["y"], "fedwad", callback=seen.append, **options)
    assert [one.number for one in seen] == [1, 2, 3]
    assert [len(one.points) for one in seen] == [one.support for one in r.history]
    before = Measure(Z)
    for one in seen:
        assert set(one.replies) == {"x", "y"}
        for name, data in (("x", X), ("y", Y)):
            sent = one.replies[name].interpolant
            expected = interpolate(solve(Measure(data), before), 0.3, kind)
            np.testing.assert_allclose(solve(sent, expected).distance, 0, atol=1e-7)
        before = one.points
    assert np.array_equal(before.points, r.support.points)


def test_own_t_is_drawn_anew_by_each_party():
    options = FedWaD(t="own", reveal="every")
    loop = FedWaDLoop(Measure(Z), options, rng=np.random.default_rng(0))
    assert played(loop, 4) >= fedwad.wasserstein(X, Y)
    assert len({record.t for record in loop.history}) == 4
    assert all(record.fedwad for record in loop.history[:-1])
