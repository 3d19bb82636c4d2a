"""The experiment `classifier`: the paper's claim held against made-up rows, and its picture."""

from types import SimpleNamespace

import numpy as np
import pytest

import fedwad
from failing import fails
from fedwad.datasets import load, partition
from fedwad.errors import InputError
from fedwad.federation import Dataset, Policy
from fedwad.learning import TrainingOptions
from fedwad.site.answers import _split_rows
from fedwad.site.context import ClientContext
from fedwad.site.store import Ledger
from fedwad.transport import Measure
from paper.classifier import classifier_accuracy, split
from paper.experiment import experiment

FOUND = experiment("classifier")


def made_up(paper, rival):
    """Rows in which the paper's coresets have accuracy paper[clients] and FedPer has
    rival[clients]."""
    rows = []
    for data in ("mnist", "fashion_mnist"):
        for clients in paper:
            common = {"data": data, "clients": clients, "seed": 0}
            for size, less in ((10, 0.2), (100, 0.0)):
                for method in ("coreset per client", "coreset per class"):
                    own = paper[clients] - less
                    rows.append(
                        common | {"method": method, "size": size, "own": own, "accuracy": own - 0.1}
                    )
            rows.append(common | {"method": "fedper", "own": rival[clients]})
            rows.append(common | {"method": "fedrep", "own": rival[clients] - 0.3})
    return rows


@pytest.mark.parametrize(
    ("paper", "holds"),
    [
        ({10: 0.92, 100: 0.94}, True),  # a little behind with few clients, ahead with many
        ({10: 0.90, 100: 0.94}, False),  # far behind with few
        ({10: 0.95, 100: 0.92}, False),  # behind with many
    ],
)
def test_competitive_with_few_clients_and_ahead_with_many(paper, holds):
    (claim,) = FOUND.judge(made_up(paper, {10: 0.93, 100: 0.93}))
    assert claim.holds is holds
    assert claim.found.startswith("100 atoms a client")
    assert f"100 clients: coresets {100 * paper[100]:.1f}% as in the paper" in claim.found
    assert "the better of FedRep and FedPer 93.0%" in claim.found


def test_all_methods_are_judged_on_the_same_rows():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(57, 2)), rng.choice([3, 7], 57)
    context = ClientContext(Dataset(Measure(points), labels), Policy(min_cell_size=1), Ledger())
    request = SimpleNamespace(test_size=TrainingOptions.test_size, split_seed=4)
    expected = _split_rows(request, context)
    for part, rows in zip(split({"a": (points, labels)}, 4), expected, strict=True):
        assert np.array_equal(part["a"][0], context.data.measure.points[rows])
        names = np.asarray(context.data.names)
        assert np.array_equal(part["a"][1], names[context.data.labels[rows]])


def test_the_picture_has_a_panel_for_each_data_set():
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    figures = FOUND.draw(made_up({10: 0.92, 100: 0.94}, {10: 0.93, 100: 0.93}))
    (figure,) = figures.values()
    assert [panel.get_title() for panel in figure.axes] == ["MNIST", "FashionMNIST"]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["10", "100"]
    assert {"FedRep", "FedPer"} < {text.get_text() for text in figure.legends[0].get_texts()}


def test_accuracies_of_the_coreset_classifier():
    X, y = load("digits")
    later = X[1000:], y[1000:]
    sites = partition.classes_per_client(
        X[:1000], y[:1000], classes=2, clients=8, samples=None, seed=0, balanced=True
    )
    test = partition.classes_per_client(
        *later, classes=2, clients=8, samples=None, seed=0, balanced=True
    )
    rows = list(
        classifier_accuracy(
            sites, test, sizes=(4, 12), atoms_per=("class", "site"), n_neighbors=(1, 3), seed=0
        )
    )
    assert len(rows) == 8
    assert {(row.size, row.atoms_per, row.n_neighbors) for row in rows} == {
        (size, per, k) for size in (4, 12) for per in ("class", "site") for k in (1, 3)
    }
    first = rows[0]
    model = fedwad.CoresetClassifier(size=4).fit(sites)
    own = [np.mean(model.predict(x) == y) for x, y in test.values()]
    np.testing.assert_allclose(first.accuracy, np.mean(own))
    assert first.own_classes_accuracy >= first.accuracy
    assert first.atoms == 32
    with fails(InputError, "too-few-samples"):
        next(classifier_accuracy(sites, {"elsewhere": later}))
