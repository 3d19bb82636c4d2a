"""Which clients of a federation a question goes to."""

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.federation import choose_sites
from fedwad.learning import train

SITES = ("paris", "oslo", "rome")


@pytest.fixture(scope="module")
def federation():
    rng = np.random.default_rng(0)
    return fedwad.local({name: (rng.standard_normal((20, 2)), np.arange(20) % 2) for name in SITES})


def test_a_federation_is_iterated_by_its_names(federation):
    """`list(fed)` ended with an unknown site 0."""
    assert tuple(federation) == SITES
    assert "oslo" in federation
    assert "lima" not in federation


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
            ("too-few-sites", "two"),
        ),
        (
            lambda federation, clients: fedwad.coreset(federation, 2, sites=clients),
            ("too-few-sites", "one"),
        ),
        (
            lambda federation, clients: train(federation, clients=clients),
            ("too-few-sites", "one"),
        ),
    ],
    ids=["matrix", "coreset", "train"],
)
def test_the_doors_say_it_alike(federation, door, needs, request):
    if request.node.callspec.id == "train":
        pytest.importorskip("torch", reason="the extra `learn` is not installed")
    for clients, problem in (
        (["lima", "rome"], ("unknown-site", "lima")),
        (["rome"] * 2, ("repeated-site",)),
        ([], needs),
    ):
        with fails(InputError, *problem):
            door(federation, clients)


@pytest.fixture
def folder(tmp_path):
    for name, start in (("paris", 30), ("oslo", 50)):
        rows = "".join(f"{start + k % 9},{k % 3}\n" for k in range(30))
        (tmp_path / f"{name}.csv").write_text(f"age,bmi\n{rows}")
    return tmp_path


def test_a_folder_and_a_list_of_files_have_a_site_for_each_file(folder):
    assert fedwad.local(folder).names == fedwad.local(str(folder)).names == ("oslo", "paris")
    files = [folder / "paris.csv", str(folder / "oslo.csv")]
    assert fedwad.local(files).names == ("paris", "oslo")
    with fails(InputError, "no-such-file"):
        fedwad.local([folder / "lima.csv"])


def test_a_missing_value_of_no_column_is_an_error(folder):
    with fails(InputError, "unknown-column"):
        fedwad.local(folder, missing="bmmi=0")
    with fails(InputError, "unknown-column"):
        fedwad.local(folder, missing={"bmmi": ["0"]})
    for names in ({"missing": "bmi=0"}, {"missing": ["bmi=0", "none"], "drop": "bmi"}):
        assert fedwad.local(folder, **names).names == ("oslo", "paris")
