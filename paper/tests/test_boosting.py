"""The experiment `boosting`: who holds what, which runs are equal, and the paper's claims held
against made-up rows."""

import json
import sys
from functools import partial
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

from failing import fails
from fedwad.datasets import load
from fedwad.errors import InputError
from paper import boosting, training
from paper.boosting import PAPER_ACCURACY, Setting, draw, judge, partitions
from paper.experiment import experiment
from paper.training import authors_draws

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="PyTorch (the extra learn) is not installed"
)
WAYS = ("vanilla", "paper 10 affinity", "paper 10 sparse 3", "paper 10 sparse 5", "ours")


@pytest.fixture(scope="module")
def digits():
    """The bundled digits in place of MNIST."""
    X, y = load("digits")
    half = len(X) // 2
    parts = {
        "train": (X[:half].astype(np.float32) / 16, y[:half]),
        "test": (X[half:].astype(np.float32) / 16, y[half:]),
    }
    partitions.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "pixels", lambda _, split: parts[split])
        patch.setattr(boosting, "_codes", lambda _: parts["train"][0])
        patch.setattr(training, "pixels", lambda _, split: parts[split])
        yield parts
    partitions.cache_clear()


def made_up(accuracy, data=("mnist",), ari=1.0):
    """Rows in which accuracy(way) is what every algorithm and seed has."""
    return [
        {
            "data": name,
            "clients": count,
            "structure": structure,
            "seed": seed,
            "support": 10,
            "training": "ours",
            "way": way,
            "algorithm": algorithm,
            "accuracy": accuracy(way),
            **({"ARI": ari} if structure == "groups" else {}),
        }
        for name in data
        for count in (10, 20)
        for structure in ("groups", "none")
        for seed in range(2)
        for way in (*WAYS, *(("true groups",) if structure == "groups" else ()))
        for algorithm in boosting.ALGORITHMS
    ]


class TestTasks:
    def test_each_cell_of_the_papers_table_has_its_task(self):
        wanted = {(data, count, structure) for data, structure, _, count, _ in PAPER_ACCURACY}
        found = {
            (task["data"], task["clients"], task["structure"])
            for task in experiment("boosting").tasks("whole")
        }
        assert wanted <= found

    def test_a_reduced_run_has_a_cell_of_each_table(self):
        tasks = boosting.EXPERIMENT.tasks("reduced")
        cells = {(task["data"], task["structure"], task["support"]) for task in tasks}
        assert cells == set(product(boosting.DATA, ("groups", "none"), (10, 100)))
        assert {(task["samples"], task["t"]) for task in tasks} == {(200, "own")}
        assert "200 samples" in boosting.EXPERIMENT.smaller

    def test_without_pytorch_one_sentence_says_so(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(
            InputError, match=r"needs PyTorch; run: pip install 'fedwad\[learn\]'\.$"
        ):
            boosting.EXPERIMENT.measure(**boosting.EXPERIMENT.tasks("quick")[0])


class TestTheAuthorsDraws:
    @needs_torch
    def test_their_clients_train_on_their_rows(self, digits):

        setting = Setting("mnist", 20, "groups", 1)
        run = training.Run(setting, (0,) * 20, "fedavg", "draws")
        labels = digits["train"][1], digits["test"][1]
        drawn = authors_draws(*labels, 20, "groups", 1)
        rounds = list(training._schedule(run, list(training.client_rows(run)[0]), 0))
        assert [one.ranking[: one.count] for one in rounds] == [
            tuple(f"client{client:03d}" for client in own) for own in drawn.rounds
        ]
        for own, rows in zip((drawn.train, drawn.test), training.client_rows(run), strict=True):
            assert all(np.array_equal(own[int(name[6:])], rows[name]) for name in rows)
        training._authors_draws.cache_clear()


class TestDealing:
    def test_as_the_authors_deal_two_portions_each_of_classes_in_equal_portions(self, digits):
        train, test = partitions(Setting("mnist", 20, "drawn", 0))
        classes = (train.counts > 0).sum(axis=1)
        assert set(classes.tolist()) == {
            1,
            2,
        }  # with this seed, some client has drawn one class twice
        assert np.array_equal(train.counts.sum(axis=0), np.bincount(digits["train"][1]))
        portion = train.counts.sum(axis=0) / 4
        portions = np.rint(train.counts / portion)
        assert np.abs(train.counts / portion - portions).max() < 0.1
        assert (portions.sum(axis=1) == 2).all()
        assert np.array_equal(train.counts > 0, test.counts > 0)

    @pytest.mark.usefixtures("digits")
    def test_samples_of_the_quick_version(self):
        train, _ = partitions(Setting("mnist", 10, "groups", 0, 60))
        assert train.sizes.tolist() == [60] * 10


@pytest.fixture(scope="module")
def measured(digits):  # noqa: ARG001
    common = {"data": "mnist", "clients": 10, "seed": 0, "support": 10, "samples": 60, "rounds": 1}
    return {
        structure: boosting.EXPERIMENT.measure(**common, structure=structure, training="ours")
        for structure in ("groups", "none")
    }


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("digits")
class TestMeasure:
    def test_rows(self, measured):
        json.dumps(measured)  # they go into a file
        for structure, found in measured.items():
            trained = [row for row in found if "algorithm" in row]
            ways = {
                "vanilla",
                "ours",
                *(f"paper 10 {way}" for way in ("affinity", "sparse 3", "sparse 5")),
            }
            assert {row["way"] for row in trained} == ways | (
                {"true groups"} if structure == "groups" else set()
            )
            assert len(trained) == 3 * len({row["way"] for row in trained})
            for row in trained:
                assert 0 <= row["worst client"] <= row["accuracy"] <= 100
            plain = [row for row in trained if row["way"] == "vanilla"]
            assert all(row["mean of clusters"] == row["accuracy"] for row in plain)
        truth = {row["way"]: row["ARI"] for row in measured["groups"]}
        assert truth["true groups"] == 1
        assert truth["vanilla"] == 0
        assert {"paper 10 kernel", "ours affinity", "ours sparse 3", "ours sparse 5"} < set(truth)
        assert not any("ARI" in row for row in measured["none"])

    def test_equal_clusterings_have_equal_rows(self, measured):
        by_way = {}
        for row in measured["groups"]:
            if "algorithm" in row and row["ARI"] == 1:
                by_way.setdefault(row["algorithm"], set()).add(row["accuracy"])
        assert by_way
        assert all(len(found) == 1 for found in by_way.values())

    def test_own_layers_start_afresh_or_from_those_of_the_others_as_in_the_authors_code(
        self, monkeypatch
    ):
        """After a round in which one client of ten has trained: with their softmax, some others
        never recover."""
        import torch

        from fedwad.learning import local

        monkeypatch.setattr(local, "SGDOptions", partial(local.SGDOptions, learning_rate=0.03))
        accuracy = {}
        for way in ("softmax", "authors"):
            run = training.Run(Setting("mnist", 10, "groups", 0, 60), (0,) * 10, "fedper", way, 1)
            training.run_all([run], torch.device("cpu"))
            accuracy[way] = run.accuracy
        assert accuracy["softmax"].min() > 0.3
        assert accuracy["authors"].min() < 0.1


def test_means_weigh_samples_or_clusters():
    found = boosting._accuracies(
        np.array([1.0, 0.5, 0.0]), np.array([10, 30, 60]), np.array([0, 0, 1])
    )
    assert found == {"accuracy": 25.0, "worst client": 0.0, "mean of clusters": 31.25}


class TestClaims:
    def verdicts(self, rows):
        return [claim.holds for claim in judge(rows)]

    def test_all_hold_where_clustering_lifts_everything(self):
        def accuracy(way):
            return 50.0 if way == "vanilla" else 98.0 if way != "paper 10 sparse 3" else 97.0

        assert self.verdicts(made_up(accuracy)) == [True] * 5

    def test_all_fail_where_it_harms(self):
        def accuracy(way):
            return 98.0 if way == "vanilla" else 50.0 if way != "paper 10 sparse 3" else 51.0

        assert self.verdicts(made_up(accuracy, ari=0.5)) == [False] * 5

    def test_the_largest_uplift_is_not_judged_without_the_ten_clients_that_have_it(self):
        rows = [
            row
            for row in made_up(lambda way: 50.0 if way == "vanilla" else 98.0)
            if row["clients"] != 10
        ]
        assert self.verdicts(rows) == [True, True, True, None, True]
        found = judge(rows)[3].found
        assert found.startswith(
            "MNIST: at most +48.0 and +48.0 points, where the paper's table has +18.0 and +11.9"
        )

    def test_a_half_that_fails_where_the_paper_has_its_largest_uplift_decides(self):
        """On CIFAR-10 without groups that is with 100 clients."""
        rows = [
            row | {"data": "cifar10", "clients": 100}
            for row in made_up(lambda way: 50.0 if way == "vanilla" else 51.0)
            if row["clients"] == 20
        ]
        assert judge(rows)[3].holds is False

    def test_beside_the_largest_uplift_stands_that_of_the_authors_own_training(self):
        rows = made_up(lambda way: 50.0 if way == "vanilla" else 98.0)
        theirs = {"data": "mnist", "training": "authors", "algorithm": "fedrep", "accuracy": 0.0}
        for structure, clients, vanilla, affinity in (
            ("groups", 10, 90.0, 99.0),
            ("groups", 20, 80.0, 99.0),
            ("drawn", 20, 70.0, 82.5),
        ):
            own = theirs | {"structure": structure, "clients": clients}
            rows.append(own | {"way": "vanilla", "mean of clusters": vanilla})
            rows.append(own | {"way": "paper 10 affinity", "mean of clusters": affinity})
        assert judge(rows)[3].found.endswith(
            "authors' code, at most +19.0 in groups (20 clients), +12.5 without (20 clients)"
        )

    def test_a_claim_about_both_datasets_counts_once(self):
        claims = judge(made_up(lambda _: 50.0, data=("mnist", "cifar10")))
        assert len({claim.text for claim in claims}) == len(claims) == 5
        assert all("MNIST: " in claim.found and "CIFAR-10: " in claim.found for claim in claims)

    def test_almost_always_is_not_always(self):
        rows = made_up(lambda way: 50.0 if way == "vanilla" else 98.0, data=("mnist", "cifar10"))
        worse = {"structure": "none", "algorithm": "fedavg", "way": "paper 10 affinity"}
        more = {10: 40, 20: 100}
        rows += [row | {"clients": more[row["clients"]]} for row in rows]  # 16 cells of the two
        counts = sorted({row["clients"] for row in rows})

        def with_worse(cells):
            return [
                row | {"accuracy": 40.0}
                if (row["data"], row["clients"]) in cells and row | worse == row
                else row
                for row in rows
            ]

        assert judge(with_worse([("mnist", counts[0])]))[2].holds is True
        assert judge(with_worse([("mnist", n) for n in counts]))[2].holds is False

    def test_a_picture_for_each_data_set(self):
        pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
        figures = draw(made_up(lambda _: 50.0, data=("mnist", "cifar10")))
        assert list(figures) == ["boosting-mnist", "boosting-cifar10"]
        assert all(len(figure.axes) == 6 for figure in figures.values())


def test_the_papers_own_numbers_are_those_of_its_table():
    """A few of them by hand, and the average uplifts that the paper prints below its columns."""
    assert PAPER_ACCURACY["mnist", "none", "fedrep", 10, "vanilla"] == (54.3, 11.2)
    assert PAPER_ACCURACY["cifar10", "groups", "fedper", 100, "paper 100 sparse 5"] == (82.5, 1.5)
    assert len(PAPER_ACCURACY) == 2 * 2 * 3 * 4 * 7
    printed = {
        ("mnist", "groups"): 29.8,
        ("mnist", "none"): 18.9,
        ("cifar10", "groups"): 20.0,
        ("cifar10", "none"): 19.9,
    }
    for (data, structure), uplift in printed.items():
        cells = [
            key
            for key in PAPER_ACCURACY
            if key[:2] == (data, structure) and key[4] == "paper 10 affinity"
        ]
        found = np.mean(
            [PAPER_ACCURACY[key].mean - PAPER_ACCURACY[*key[:4], "vanilla"].mean for key in cells]
        )
        assert found == pytest.approx(uplift, abs=0.06)


@pytest.mark.usefixtures("digits")
def test_distances_on_a_gpu_have_one_position():
    with fails(InputError, "bad-option", "t"):
        boosting.distances(Setting("mnist", 10, "groups", 0, 20), "paper 10", 0.1, on_gpu=True)
