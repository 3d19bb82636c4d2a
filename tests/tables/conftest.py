"""A PostgreSQL for the tests of this folder."""

import pytest

from postgres import serve


@pytest.fixture(scope="session")
def postgresql():
    """The address of an empty database, with the password of its only user."""
    with serve() as address:
        yield address
