"""Training in clusters and alone, beside pooled rows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import fedwad
from fedwad.datasets import partition
from paper.data import load


def fair(full: bool = False) -> Iterator[dict[str, Any]]:
    """`fedwad train` at equal traffic on groups of MNIST and on two tables, beside a plain PyTorch
    loop and a logistic regression on pooled rows (which no federation may have)."""
    if find_spec("torch") is None:
        return
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score

    from fedwad.federation import Dataset, local
    from fedwad.learning import TrainingOptions, train
    from fedwad.learning.comparison import compare_trainings

    X, y = load("mnist")
    pairs = partition.class_pairs(X, y, clients=10, samples=300 if full else 150, seed=0)
    rng = np.random.default_rng(0)
    D, t = fedwad.datasets.load("digits")
    shifted = {
        f"site{k}": ((D[k::6] / 16 + 0.5 * (k % 2)), t[k::6]) for k in range(6)
    }  # two scanners: half of the sites see brighter images
    heart = fedwad.local(
        dict(fedwad.datasets.load("heart")),
        label_column="num",
        missing={"chol": ["0"]},
    )
    tables = {
        name: (data.measure.points, (np.asarray(data.require_class_codes()) > 0).astype(int))
        for name in heart.names
        for data in [heart.dataset(name)]
        if isinstance(data, Dataset)
    }
    for title, sites, k in (("mnist", pairs, 5), ("digits", shifted, 2), ("heart", tables, 2)):
        fed = local(dict(sites))

        def once(options: Any, groups: Any, test_every_round: bool, fed: Any = fed) -> Any:
            names = None if groups is None else list(groups)
            return train(
                fed, options, groups=groups, clients=names, test_every_round=test_every_round
            )

        options = TrainingOptions(rounds=5, epochs=2, batch_size=32, learning_rate=0.05)
        found = compare_trainings(
            once, lambda fed=fed: fedwad.matrix(fed, labels=True), options, k, seeds=3
        )
        for row, numbers in found.to_dict()["rows"].items():
            yield {
                "data": title,
                "row": row,
                "accuracy %": 100 * numbers["accuracy"]["mean"],
                "+-": 100 * numbers["accuracy"]["half_width"],
                "balanced %": 100 * numbers["balanced"]["mean"],
                "sent kB": numbers["sent"] / 1000,
            }
        split = {
            name: (np.asarray(points), np.asarray(labels), rng.permutation(len(labels)))
            for name, (points, labels) in dict(sites).items()
        }
        rows = {
            name: (order[len(order) // 5 :], order[: len(order) // 5])
            for name, (*_, order) in split.items()
        }
        Z = np.concatenate([split[name][0][a] for name, (a, _) in rows.items()])
        c = np.concatenate([split[name][1][a] for name, (a, _) in rows.items()])
        model = LogisticRegression(max_iter=500).fit(Z, c)
        guesses = {name: model.predict(split[name][0][b]) for name, (_, b) in rows.items()}
        truth = {name: split[name][1][b] for name, (_, b) in rows.items()}
        yield {
            "data": title,
            "row": "pooled logistic regression",
            "accuracy %": 100 * np.mean([(guesses[n] == truth[n]).mean() for n in rows]),
            "balanced %": 100
            * np.mean([balanced_accuracy_score(truth[n], guesses[n]) for n in rows]),
        }
        yield {"data": title, "row": "pooled PyTorch loop", **_plain_loop(Z, c, split, rows)}


def _plain_loop(Z: Any, c: Any, split: Any, rows: Any) -> dict[str, float]:
    """The same network on pooled rows, in as many passes, in ten lines of PyTorch."""
    import torch
    from sklearn.metrics import balanced_accuracy_score

    from fedwad.learning.local import mlp

    torch.manual_seed(0)
    net = mlp(Z.shape[1], int(c.max()) + 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.05, 0.5)
    x, y = torch.tensor(Z, dtype=torch.float32), torch.tensor(c)
    for _ in range(10):
        for batch in torch.split(torch.randperm(len(x)), 32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
    accuracies, balanced = [], []
    for name, (_, tests) in rows.items():
        points, labels, _ = split[name]
        guess = net(torch.tensor(points[tests], dtype=torch.float32)).argmax(1).numpy()
        accuracies.append((guess == labels[tests]).mean())
        balanced.append(balanced_accuracy_score(labels[tests], guess))
    return {"accuracy %": 100 * np.mean(accuracies), "balanced %": 100 * np.mean(balanced)}
