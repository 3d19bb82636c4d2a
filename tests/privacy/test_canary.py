"""The curious server that knows all records but one, over thousands of releases: it learns no more
than is claimed.

Such audits catch gross errors; that the noise is as large as it must be is tested in
test_release.py.
"""

import math

import numpy as np
import pytest
from scipy import stats

from fedwad.privacy import epsilon_of, mu_of, release, split

DELTA, TRIALS, RADIUS = 1e-5, 5000, 2.0
#: Neighbours that reach the sensitivity of the moments: unit vectors at 120 degrees, and nobody
#: else to hide among.
WORLDS = np.array([[[RADIUS, 0.0]], [[-RADIUS / 2, RADIUS * math.sqrt(0.75)]]])


def scores(mu, claimed, world, trials, seed):
    """Log likelihood ratios of releases of one world, by whoever knows both worlds and the claimed
    noise."""
    found = []
    shares, claim = split(1, 2, mu, 2), split(1, 2, claimed, 2)
    random_bytes = np.random.default_rng(seed).bytes
    for _ in range(trials):
        answered = release(WORLDS[world], RADIUS, np.zeros(2), shares, random_bytes)
        found.append(ratio(answered, (claim.mu_first, claim.mu_second, claim.mu_cells)))
    return np.array(found)


def ratio(answered, costs):
    total = 0.0
    expected = [statistics(points, answered) for points in WORLDS]
    seen = (
        moments(answered.first_mean, answered.first_second),
        moments(answered.mean, answered.second),
        np.column_stack([answered.sums, answered.masses]).ravel(),
    )
    for look, (mu, sensitivity) in enumerate(
        zip(costs, (math.sqrt(4.5), math.sqrt(4.5), 2.0), strict=True)
    ):
        zero, one = expected[0][look], expected[1][look]
        total += (
            (((seen[look] - zero) ** 2).sum() - ((seen[look] - one) ** 2).sum())
            / 2
            * (mu / sensitivity) ** 2
        )
    return total


def statistics(points, answered):
    """What each query would have answered without noise: independent of the package's own sums."""
    u = points[0] / RADIUS
    z = (points[0] - answered.centre) @ answered.whitening / answered.whitened_clip_norm
    z = z / max(1.0, np.linalg.norm(z))
    cells = np.zeros((len(answered.centres), 3))
    cells[((answered.centres - z) ** 2).sum(axis=1).argmin()] = [*z, 1.0]
    return moments(u, np.outer(u, u)), moments(z, np.outer(z, z)), cells.ravel()


def moments(mean, second):
    return np.array([*mean, second[0, 0], second[1, 1], math.sqrt(2) * second[0, 1]])


def lower_bound(zero, one):
    """A bound that epsilon exceeds with 99% confidence, by the best of many thresholds on half of
    the releases."""
    half = len(zero) // 2
    thresholds = np.quantile(np.concatenate([zero[:half], one[:half]]), np.linspace(0.01, 0.99, 99))
    best = max(
        thresholds,
        key=lambda cut: ((one[:half] > cut).mean() - DELTA) / ((zero[:half] > cut).mean() + 1e-3),
    )
    n = len(zero) - half
    hits, alarms = (one[half:] > best).sum(), (zero[half:] > best).sum()
    hit, alarm = (
        stats.beta.ppf(0.005, hits, n - hits + 1),
        stats.beta.ppf(0.995, alarms + 1, n - alarms),
    )
    return math.log((hit - DELTA) / alarm) if hit > DELTA else 0.0


@pytest.mark.slow
def test_a_canary_is_not_seen_better_than_claimed():
    epsilon = 6.0
    mu = mu_of(epsilon, DELTA)
    zero, one = (scores(mu, mu, world, TRIALS, seed=world) for world in (0, 1))
    found = lower_bound(zero, one)
    assert found < epsilon
    assert found > 0.3  # the attack does see something, or the test could not fail
    # A ratio of N(mu, 1) to N(0, 1) has deviation mu; here at most that.
    for side in (zero, one):
        assert side.std() <= mu * (1 + 4 / math.sqrt(2 * TRIALS))
    gap = one.mean() - zero.mean()
    assert gap <= mu**2 * 1.01 + 4 * mu * math.sqrt(2 / TRIALS)


@pytest.mark.slow
def test_the_audit_sees_noise_that_is_too_small():
    claimed, real = 0.5, mu_of(8.0, DELTA)
    mu = mu_of(claimed, DELTA)
    zero, one = (scores(real, mu, world, 1500, seed=world) for world in (0, 1))
    assert lower_bound(zero, one) > claimed
    assert epsilon_of(real, DELTA) > claimed
