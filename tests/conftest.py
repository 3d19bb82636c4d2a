"""Settings for all tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("search", settings.get_profile("steady"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("FEDWAD_HYPOTHESIS", "steady"))


@pytest.fixture(scope="session")
def digits():
    """Digits 0-4 and 5-9, about 900 images each."""
    import fedwad

    images, labels = fedwad.datasets.load("digits")
    return images[labels < 5], images[labels >= 5]
