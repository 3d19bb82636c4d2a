"""Who trains last, against a count over many draws."""

import numpy as np
import pytest

from last_round import covered, expected


@pytest.mark.parametrize("clients", [10, 20, 40, 100])
def test_expectation_against_draws(clients):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(4000):
        groups = np.concatenate([np.repeat(np.arange(5), 2), rng.integers(5, size=clients - 10)])
        found.append(20 * len(set(rng.permutation(groups)[: max(clients // 10, 1)].tolist())))
    mean, deviation = expected(clients)
    assert np.mean(found) == pytest.approx(mean, abs=1.0)
    assert np.std(found) == pytest.approx(deviation, abs=1.0)


def test_one_site_holds_two_of_ten_classes():
    assert [covered(10, seed) for seed in range(5)] == [20.0] * 5
    assert covered(20, 0) in (20.0, 40.0)
