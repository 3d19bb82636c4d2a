"""Data of the audit: the two sets of the published table, 200 records each."""

import numpy as np
import pytest

import fedwad


@pytest.fixture(scope="session")
def records():
    images, _ = fedwad.datasets.load("digits")
    rng = np.random.default_rng(0)
    return {
        "gaussian": rng.standard_normal((200, 2)),
        "digits": images[rng.permutation(len(images))[:200]].astype(float),
    }
