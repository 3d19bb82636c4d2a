"""Problems with known answers, and independent ways to the answer of any other."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog

from fedwad.transport import Measure


def linear_program(mu, nu, p=2.0):
    """W_p by SciPy's HiGHS on the transport linear program, from costs computed one by one."""
    n, m = len(mu), len(nu)
    cost = np.array([[np.linalg.norm(x - y) ** p for y in nu.points] for x in mu.points])
    scale = cost.max() or 1.0
    rows = np.kron(np.eye(n), np.ones(m))
    cols = np.kron(np.ones(n), np.eye(m))
    solution = linprog(
        (cost / scale).ravel(),
        A_eq=np.vstack([rows, cols[:-1]]),
        b_eq=np.concatenate([mu.weights, nu.weights[:-1]]),
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert solution.success, solution.message
    return (max(solution.fun, 0.0) * scale) ** (1 / p)


def check_plan(plan):
    """Everything that an optimal plan must satisfy, from first principles."""
    mu, nu = plan.source, plan.target
    n, m = len(mu), len(nu)
    assert len(plan.mass) <= n + m - 1
    assert (plan.mass > 0).all()
    assert len(set(zip(plan.rows.tolist(), plan.cols.tolist(), strict=True))) == len(plan.mass)
    np.testing.assert_allclose(np.bincount(plan.rows, plan.mass, n), mu.weights, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.bincount(plan.cols, plan.mass, m), nu.weights, rtol=0, atol=1e-12)
    difference = mu.points[:, None, :] - nu.points[None, :, :]
    size = np.abs(difference).max() or 1.0
    cost = size**plan.p * (((difference / size) ** 2).sum(axis=2)) ** (plan.p / 2)
    slack = cost - plan.f[:, None] - plan.g[None, :]
    assert slack.min() >= -1e-9 * cost.max()
    primal = (plan.mass * cost[plan.rows, plan.cols]).sum()
    dual = mu.weights @ plan.f + nu.weights @ plan.g
    assert abs(primal - dual) <= 2e-9 * max(primal, 1e-5 * cost.max())
    np.testing.assert_allclose(plan.cost, primal, rtol=1e-9, atol=1e-14 * cost.max())


def random_pair(rng, largest=400, dimensions=50):
    """Two random samples of one dimension: any size, shape, scale, overlap; weighted or not."""
    d = int(rng.integers(1, dimensions + 1))
    n, m = (int(2 * (largest / 2) ** rng.random()) for _ in range(2))
    if rng.random() < 0.3:
        m = n
    scale = 10.0 ** rng.uniform(-3, 3)
    x = rng.standard_normal((n, d)) * rng.uniform(0.1, 2, d)
    y = rng.standard_normal((m, d)) * rng.uniform(0.1, 2, d) + rng.normal(
        0, 2
    ) * rng.standard_normal(d)
    kind = rng.integers(5)
    if kind == 0:  # clusters
        x += rng.choice([-4.0, 4.0], (n, 1))
    elif kind == 1:  # overlapping records
        y[: min(n, m) // 2] = x[: min(n, m) // 2]
    elif kind == 2:  # ties and duplicates
        x, y = np.round(x), np.round(y)
    elif kind == 3:  # a constant column
        x[:, 0] = y[:, 0] = 1.0
    weighted = rng.random() < 0.4
    a, b = (rng.random(k) ** 3 + 1e-6 if weighted else None for k in (n, m))
    return Measure(scale * x, a), Measure(scale * y, b)


@st.composite
def small_measures(draw, count=2, largest=7):
    """Measures of one dimension on a grid, so that ties and duplicates are common; any scale;
    weighted or not."""
    d = draw(st.integers(1, 3))
    scale = 10.0 ** draw(st.integers(-12, 12))
    offset = draw(st.sampled_from([0.0, 0.0, 1.0, 1000.0]))
    found = []
    for _ in range(count):
        n = draw(st.integers(1, largest))
        points = draw(hnp.arrays(np.float64, (n, d), elements=st.integers(-4, 4).map(float)))
        noise = draw(st.sampled_from([0.0, 0.0, 1e-3]))
        points = points + noise * np.sin(np.arange(n * d, dtype=float)).reshape(n, d)
        weights = draw(
            st.none()
            | hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 1e-9, 0.5, 1.0, 2.0, 3.0]))
        )
        if weights is not None and not weights.any():
            weights = None
        found.append(Measure(scale * (points + offset), weights))
    return tuple(found)


def options_of(method, size=None, rounds=None):
    """Keywords of a method of `distance` or `matrix` with this many cells, or points and rounds."""
    if method == "summary":
        return {"method": method} | ({} if size is None else {"cells": size})
    given = {"support": size, "rounds": rounds}
    return {"method": method} | {name: value for name, value in given.items() if value is not None}
