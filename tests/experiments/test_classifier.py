"""The experiment `classifier`: the paper's claim held against made-up rows, and its picture."""

import pytest

from fedwad.experiments import experiment

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


def test_the_picture_has_a_panel_for_each_data_set():
    figures = FOUND.draw(made_up({10: 0.92, 100: 0.94}, {10: 0.93, 100: 0.93}))
    (figure,) = figures.values()
    assert [panel.get_title() for panel in figure.axes] == ["MNIST", "FashionMNIST"]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["10", "100"]
    assert {"FedRep", "FedPer"} < {text.get_text() for text in figure.legends[0].get_texts()}
