"""The page and the command of an embedding."""

import json

import numpy as np
import pytest

import fedwad
from command_line import run
from fedwad.compare.embedding import describe_clusters
from fedwad.report import write_report


def embedded(count, groups=3):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 2))
    moves = 9 * (np.arange(count) % groups)[:, None] + rng.standard_normal((count, 2))
    return fedwad.embed({f"site<{k}>": rows + move for k, move in enumerate(moves)}, support=4)


class TestPage:
    def test_a_map_with_clusters(self, tmp_path):
        e = embedded(30)
        path = tmp_path / "map.html"
        write_report(e, path, clusters=e.cluster(3))
        page = path.read_text()
        assert "30 sites in 3 clusters" in page
        assert "site<0>" not in page
        assert "site&lt;" in page
        assert page.count("h0") >= 60  # a dot for each site, in both widths

    def test_many_sites_without_clusters(self, tmp_path):
        e = embedded(250)
        path = tmp_path / "map.html"
        write_report(e, path)
        page = path.read_text()
        assert "The clusters" not in page
        assert len(page) < 300_000

    def test_refusals(self, tmp_path):
        e = embedded(4)
        for options in ({"clusters": [0, 1]}, {"shape": (2, 2)}):
            with pytest.raises(fedwad.InputError):
                write_report(e, tmp_path / "map.html", **options)

    def test_sites_in_one_place(self, tmp_path):
        rows = np.random.default_rng(0).standard_normal((20, 2))
        e = fedwad.embed({"a": rows, "b": rows}, support=2)
        write_report(e, tmp_path / "map.html", clusters=[0, 0])
        assert "2 sites in 1 cluster" in (tmp_path / "map.html").read_text()


def test_clusters_are_described():
    points = np.array([[0.0, 0], [1, 0], [2, 0], [10, 0], [11, 0]])
    large, small = describe_clusters(points, np.array([0, 0, 0, 1, 1]), list("abcde"))
    assert (large.size, large.central, large.nearest, large.distance) == (3, "b", 1, 9.5)
    assert (small.size, small.label, small.radius) == (2, 1, 0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    rng = np.random.default_rng(0)
    for k in range(12):
        np.save(folder / f"s{k:02}.npy", rng.normal(6 * (k % 2), 1, (50, 2)))
    return folder


class TestCommand:
    def test_json_and_files(self, folder, tmp_path):
        out, page = tmp_path / "e.json", tmp_path / "e.html"
        done = run("embed", folder, "--save", out, "--report", page, "--json", "--nearest", "s00")
        content = json.loads(done.stdout)
        assert content["clusters"]["k"] == 2
        assert content["clusters"]["labels"] == [0, 1] * 6
        assert len(content["nearest"]) == 10
        assert fedwad.EmbeddingResult.load(out).sites[0] == "s00"
        assert "12 sites in 2 clusters" in page.read_text()

    def test_screen(self, folder):
        shown = run("embed", folder, "--k", 2, "--support", 4, "--nearest", "s01").stdout
        assert "12 sites in 2 clusters" in shown
        assert "nearest to s01" in shown

    @pytest.mark.parametrize(
        ("command", "words", "sentence"),
        [
            ("embed", ("--nearest", "nobody"), "no site 'nobody'"),
            ("embed", ("--k", 13), "13 clusters were asked for among 12"),
            ("matrix", ("--k", 13), "13 clusters were asked for among 12"),
        ],
    )
    def test_what_no_site_can_have_is_refused_before_sites_are_asked(
        self, folder, tmp_path, monkeypatch, command, words, sentence
    ):
        monkeypatch.setattr(fedwad, command, None)
        done = run(command, folder, *words, "--save", tmp_path / "e.json")
        assert done.returncode == 2
        assert sentence in " ".join(done.stderr.split())
        assert not (tmp_path / "e.json").exists()
