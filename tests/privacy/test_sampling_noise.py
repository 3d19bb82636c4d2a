"""Under differential privacy the sampling noise follows from the release."""

from __future__ import annotations

import numpy as np
import pytest

import fedwad


def test_noise_is_about_that_of_independent_samples():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 800, 3))
    fed = fedwad.local({"a": x, "b": y})
    privacy = fedwad.DP(epsilon=3, delta=1e-5, clip_norm=5.0)
    found = fedwad.distance(fed["a"], fed["b"], privacy=privacy)
    assert found.noise == pytest.approx(fedwad.wasserstein(x, y), rel=0.15)
    assert found.population is None
    assert fedwad.DistanceResult.from_dict(found.to_dict()) == found
    table = fedwad.matrix(fed, privacy=privacy)
    assert table.noise.shape == (2, 2)
    assert table.noise[0, 1] == pytest.approx(found.noise, rel=0.1)
    assert table.suggest().k == 1
