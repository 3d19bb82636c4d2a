"""Parameters of which a few are tried by `make test` and the others by `make test-all`."""

import pytest


def mostly_slow(values, fast):
    """The values for `parametrize`; all but the first ones are slow tests."""
    return [
        value if number < fast else pytest.param(value, marks=pytest.mark.slow)
        for number, value in enumerate(values)
    ]
