"""Which clients of a federation a question goes to."""

import numpy as np
import pytest

import fedwad
from fedwad.errors import InputError
from fedwad.federation import choose_sites
from fedwad.learning import train

SITES = ("paris", "oslo", "rome")


@pytest.fixture(scope="module")
def federation():
    rng = np.random.default_rng(0)
    return fedwad.local({name: (rng.standard_normal((20, 2)), np.arange(20) % 2) for name in SITES})


def test_all_some_and_one(federation):
    assert choose_sites(federation, None, "a sum") == SITES
    assert choose_sites(federation, ["rome", "paris"], "a sum") == ("rome", "paris")
    assert choose_sites(federation, "oslo", "a sum") == ("oslo",)


@pytest.mark.parametrize(
    ("clients", "least", "sentence"),
    [
        (["paris", "lima"], 1, "There is no site 'lima'; the sites are paris, oslo, rome."),
        (["paris", "paris"], 1, "A site is named twice; name each once."),
        ([], 1, "0 sites given; a sum needs at least one."),
        (["paris"], 2, "1 site given; a sum needs at least two."),
    ],
)
def test_wrong_names(federation, clients, least, sentence):
    with pytest.raises(InputError) as found:
        choose_sites(federation, clients, "a sum", least)
    assert str(found.value) == sentence


@pytest.mark.parametrize(
    ("door", "needs"),
    [
        (
            lambda federation, clients: fedwad.matrix(federation, sites=clients),
            "a matrix needs at least two",
        ),
        (
            lambda federation, clients: fedwad.coreset(federation, 2, sites=clients),
            "a coreset needs at least one",
        ),
        (
            lambda federation, clients: train(federation, clients=clients),
            "training needs at least one",
        ),
    ],
    ids=["matrix", "coreset", "train"],
)
def test_the_doors_say_it_alike(federation, door, needs):
    for clients, sentence in (
        (["lima", "rome"], "no site 'lima'"),
        (["rome"] * 2, "named twice"),
        ([], needs),
    ):
        with pytest.raises(InputError, match=sentence):
            door(federation, clients)
