"""What docs/otdd.md says about microsoft/otdd's number: formulas against oracles, inequalities on
random data."""

import importlib.util
from pathlib import Path

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm

import fedwad

_PATH = Path(__file__).parents[1] / "benchmarks" / "otdd_conversion.py"
_SPEC = importlib.util.spec_from_file_location("otdd_conversion", _PATH)
conversion = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(conversion)


def two_sides(seed, n=40, m=50, d=3, scale=1.0):
    """Two data sets with three and two classes of different shapes, every class with several
    samples."""
    rng = np.random.default_rng(seed)

    def one(n, classes):
        y = np.arange(n) % classes
        X = rng.standard_normal((n, d))
        for code in range(classes):
            X[y == code] = X[y == code] @ rng.normal(0, 1, (d, d)) + rng.normal(0, 2, d)
        return conversion.side(scale * X, y)

    return one(n, 3), one(m, 2)


def their_default(a, b):
    return conversion.theirs(conversion.costs(a, b, conversion.gaussian(conversion.bures)))


def spread(points):
    return conversion.spread(points, 0, 1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_terms_against_matrix_roots(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 4)), rng.standard_normal((20, 4))
    S, T = (np.cov(points.T, bias=True) for points in (x, y))
    root_s, root_t = sqrtm(S).real, sqrtm(T).real
    cross = sqrtm(root_s @ T @ root_s).real
    first, second = spread(x), spread(y)
    assert conversion.bures(first, second) == pytest.approx(np.trace(S + T - 2 * cross), rel=1e-9)
    assert conversion.frobenius(first, second) == pytest.approx(
        ((root_s - root_t) ** 2).sum(), rel=1e-9
    )
    deviations = np.sqrt(np.diag(S)) - np.sqrt(np.diag(T))
    assert conversion.diagonal(first, second) == pytest.approx((deviations**2).sum(), rel=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 12), st.integers(2, 12))
def test_diagonal_bures_frobenius_and_twice_bures_in_this_order(seed, d, n, m):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-2, 2, d) @ rng.standard_normal((d, d))
    y = rng.standard_normal((m, d)) * 10.0 ** rng.uniform(-2, 2, d) @ rng.standard_normal((d, d))
    first, second = spread(x), spread(y)
    slack = 1e-10 * (x.var(axis=0).sum() + y.var(axis=0).sum())
    bures = conversion.bures(first, second)
    assert conversion.diagonal(first, second) <= bures + slack
    assert bures <= conversion.frobenius(first, second) + slack
    assert conversion.frobenius(first, second) <= 2 * bures + slack


def test_frobenius_reaches_nearly_twice_bures():
    """The factor 2 cannot be made smaller: two nearly parallel directions, one alone in each
    covariance."""
    angle = 1e-3
    first = spread(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    second = spread(np.array([[np.cos(angle), np.sin(angle)], [-np.cos(angle), -np.sin(angle)]]))
    ratio = conversion.frobenius(first, second) / conversion.bures(first, second)
    assert 1.99 < ratio <= 2.0 + 1e-6


@given(st.integers(0, 2**32 - 1))
def test_bures_is_frobenius_where_covariances_commute(seed):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    first, second = (conversion.Spread(rng.uniform(0, 3, 4), axes) for _ in range(2))
    assert conversion.bures(first, second) == pytest.approx(
        conversion.frobenius(first, second), abs=1e-10
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("ours", "term"), [("diag", "diagonal"), ("full", "frobenius")])
def test_half_our_square_is_the_least_cost_under_their_halves(seed, ours, term):
    a, b = two_sides(seed)
    table = conversion.gaussian(getattr(conversion, term), lost=0, single=False)(a, b)
    expected = fedwad.transport.dataset_distance(a.X, a.y, b.X, b.y, covariance=ours) ** 2 / 2
    assert conversion.exact(conversion.cost(a, b, table)) == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_their_exact_default_lies_between_our_diagonal_and_our_full(seed):
    a, b = two_sides(seed, n=12, m=9)
    table = conversion.gaussian(conversion.bures, lost=0, single=False)(a, b)
    theirs = conversion.exact(conversion.cost(a, b, table))
    low, high = (
        fedwad.transport.dataset_distance(a.X, a.y, b.X, b.y, covariance=form) ** 2 / 2
        for form in ("diag", "full")
    )
    assert low * (1 - 1e-9) <= theirs <= high * (1 + 1e-9)
    assert high <= 2 * theirs * (1 + 1e-9)
    inner = conversion.samples(conversion.exact)(a, b)
    assert theirs <= conversion.exact(conversion.cost(a, b, inner)) * (1 + 1e-9)  # Gelbrich


def test_the_other_divisor_moves_the_distance_by_no_more_than_we_say():
    a, b = two_sides(0)
    distances = [
        (
            2
            * conversion.exact(
                conversion.cost(a, b, conversion.gaussian(conversion.bures, lost, False)(a, b))
            )
        )
        ** 0.5
        for lost in (0, 1)
    ]
    most = sum(
        max(points.var(axis=0).sum() ** 0.5 / (2 * (len(points) - 1)) for points in one.classes())
        for one in (a, b)
    )
    assert 0 < abs(distances[1] - distances[0]) <= most


def test_many_temperatures_reach_the_entropic_optimum():
    a, b = two_sides(1, n=20, m=15)
    cost = conversion.squares(a.X, b.X) / 2
    entreg, n, m = 2.0, *cost.shape
    plan = ot.sinkhorn(
        np.full(n, 1 / n), np.full(m, 1 / m), cost, entreg, numItermax=100_000, stopThr=1e-14
    )
    optimum = (plan * cost).sum() + entreg * (plan * np.log(plan * n * m)).sum()
    reached = conversion.annealed(cost, conversion.diameter(a.X, b.X), entreg, scaling=0.997)
    assert reached == pytest.approx(optimum, rel=1e-4)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_entropy_alone_changes_no_more_than_its_logarithm(scale):
    a, b = two_sides(2, n=20, m=15, scale=scale)
    table = conversion.gaussian(conversion.bures, single=False)
    exact = conversion.exact(conversion.cost(a, b, table(a, b)))
    slow = conversion.theirs(conversion.costs(a, b, table), scaling=0.99)
    steps = 1e-3 * exact  # what is left to converge
    assert -0.1 * (np.log(20) + np.log(15)) / 2 - steps <= slow - exact <= 0.1 * np.log(15) + steps


def test_a_data_set_is_at_distance_zero_from_itself():
    a, _ = two_sides(3)
    assert their_default(a, a) == pytest.approx(0.0, abs=1e-12)


def test_the_ratio_is_the_product_of_its_parts():
    found = conversion.row(*two_sides(4, n=60, m=60))
    parts = [float(found[name]) for name in ("Bures", "n - 1", "single", "steps")]
    assert float(found["theirs/full"]) == pytest.approx(np.prod(parts), rel=5e-4)
    assert found["ours full"] ** 2 / 2 * np.prod(parts) == pytest.approx(
        float(found["theirs"]), rel=5e-4
    )


@pytest.mark.parametrize(
    ("scale", "geomloss"), [(0.1, 0.2825782758836187), (5.0, 803.7287941802118)]
)
def test_the_steps_are_those_of_geomloss(scale, geomloss):
    """The numbers are those of geomloss 0.2.6, called as microsoft/otdd calls it, on the same
    samples."""
    a, b = two_sides(5, scale=scale)
    assert their_default(a, b) == pytest.approx(geomloss, rel=1e-9)


@pytest.mark.parametrize("scale", [0.1, 5.0])
def test_the_steps_are_those_of_the_installed_geomloss(scale):
    """Runs only where geomloss is installed; nothing else needs it."""
    geomloss, torch = pytest.importorskip("geomloss"), pytest.importorskip("torch")
    a, b = two_sides(5, scale=scale)
    table = conversion.gaussian(conversion.bures)
    tables = torch.tensor(np.block([[table(a, a), table(a, b)], [table(a, b).T, table(b, b)]]))

    def cost(x, y):
        rows, columns = x[0, :, -1].long(), y[0, :, -1].long()
        return torch.cdist(x[..., :-1], y[..., :-1]) ** 2 / 2 + tables[rows][:, columns] / 2

    loss = geomloss.SamplesLoss(
        "sinkhorn", p=2, cost=cost, debias=True, blur=0.1**0.5, backend="tensorized"
    )
    first, second = np.column_stack([a.X, a.y]), np.column_stack([b.X, b.y + 3])
    expected = loss(torch.tensor(first), torch.tensor(second)).item()
    assert their_default(a, b) == pytest.approx(expected, rel=1e-9)
