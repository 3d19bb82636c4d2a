"""Training many networks at once does what training each by itself does, and what a loop written by
hand does."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedwad.learning.local import networks  # noqa: E402
from fedwad.learning.local.descent import (  # noqa: E402
    Phase,
    SGDOptions,
    Task,
    TensorDataset,
    correct_mask,
    epoch_rows,
    train,
)

CPU = torch.device("cpu")
PHASES = {
    "fedavg": (Phase(2),),
    "fedrep": (Phase(2, "personal"), Phase(1, "shared")),
    "closing": (Phase(3, "personal"),),
}


def two_layers(features, classes):
    return nn.Sequential(nn.Linear(features, 7), nn.Tanh(), nn.Linear(7, classes))


def one_rectifier(features, classes):
    relu = nn.ReLU()
    return nn.Sequential(
        nn.Linear(features, 7), relu, nn.Linear(7, 6), nn.Tanh(), relu, nn.Linear(6, classes)
    )


def one_layer_twice(features, classes):
    layer = nn.Linear(features, features)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(features, classes))


def dropping(features, classes):
    return nn.Sequential(nn.Linear(features, 7), nn.Dropout(0.5), nn.Linear(7, classes))


def residual(features, classes):
    class Residual(nn.Module):  # no chain of layers
        def __init__(self):
            super().__init__()
            self.head, self.body = nn.Linear(features, classes), nn.Linear(features, features)

        def forward(self, x):
            return self.head(x + torch.relu(self.body(x)))

    return Residual()


def problem(word, features, sizes=(23, 40, 3, 31), seed=0):
    rng = np.random.default_rng(seed)
    network = networks.build(word, features, 4, seed=seed)
    dataset = TensorDataset.of(rng.standard_normal((60, features)), rng.integers(4, size=60), CPU)
    start = torch.as_tensor(network.initial_weights())
    tasks = [
        Task(start, rng.permutation(60)[:size], seed=5 + place) for place, size in enumerate(sizes)
    ]
    return network, dataset, tasks


@pytest.mark.parametrize("phases", PHASES.values(), ids=PHASES)
@pytest.mark.parametrize(
    ("word", "features"),
    [
        ("mlp", 6),
        ("cnn", 256),
        ("test_descent:two_layers", 5),
        ("test_descent:one_rectifier", 5),
        ("test_descent:one_layer_twice", 4),
    ],
)
def test_together_and_alone_agree(word, features, phases):
    network, dataset, tasks = problem(word, features)
    options = SGDOptions(phases, batch_size=10, learning_rate=0.1)
    alone = train(network, dataset, tasks, options, stacked=False)
    together = train(network, dataset, tasks, options, stacked=True)
    for one, other, task in zip(alone, together, tasks, strict=True):
        assert torch.linalg.vector_norm(one.weights - task.weights) > 1e-3  # it learned something
        torch.testing.assert_close(one.weights, other.weights, rtol=1e-4, atol=1e-6)
        assert one.loss == pytest.approx(other.loss, rel=1e-4)


@pytest.mark.parametrize(("word", "features", "stacked"), [("mlp", 6, True), ("cnn", 256, False)])
def test_on_a_cpu_networks_are_stacked_where_that_is_faster(word, features, stacked):
    """Convolutions take twice as long in a stack there (`python -m benchmarks training`)."""
    network, dataset, tasks = problem(word, features)
    options = SGDOptions(PHASES["fedavg"], batch_size=10, learning_rate=0.1)
    chosen, same = (
        train(network, dataset, tasks, options, stacked=choice) for choice in (None, stacked)
    )
    assert all(
        torch.equal(one.weights, other.weights) for one, other in zip(chosen, same, strict=True)
    )


@pytest.mark.parametrize(
    "personal", [["first"], ["second", "head.bias"], ["third", "head"], ["head.weight"]]
)
def test_any_layers_may_be_personal(personal):
    _, dataset, tasks = problem("mlp", 6)
    network = networks.build("mlp", 6, 4, personal=personal)
    options = SGDOptions(PHASES["fedrep"], batch_size=10, learning_rate=0.1)
    alone, together = (
        train(network, dataset, tasks, options, stacked=choice) for choice in (False, True)
    )
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.weights, other.weights, rtol=1e-4, atol=1e-6)


def test_a_network_that_is_no_chain_of_layers_is_trained_too():
    network = networks.build("test_descent:residual", 5, 4, personal=["head"])
    assert network.body_and_head() is None
    _, dataset, _ = problem("mlp", 5)
    tasks = [
        Task(torch.as_tensor(network.initial_weights()), np.arange(k, k + 20), k) for k in range(3)
    ]
    options = SGDOptions(PHASES["fedrep"], learning_rate=0.1)
    alone, together = (
        train(network, dataset, tasks, options, stacked=choice) for choice in (False, True)
    )
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.weights, other.weights, rtol=1e-4, atol=1e-6)


def test_a_linear_model_by_hand():
    """SGD with momentum on softmax regression, in NumPy."""
    network = networks.build("test_descent:two_layers", 5, 4, personal=["2"])
    _, dataset, _ = problem("mlp", 5)
    task = Task(torch.as_tensor(network.initial_weights()), np.arange(7, 30), 11)
    options = SGDOptions((Phase(2, "personal"),), batch_size=10, learning_rate=0.2, momentum=0.5)
    values = {
        name: value.numpy().astype(np.float64)
        for name, value in network.tensors(task.weights).items()
    }
    hidden = np.tanh(dataset.X.numpy() @ values["0.weight"].T + values["0.bias"])
    w, b = values["2.weight"].copy(), values["2.bias"].copy()
    v, u, losses = np.zeros_like(w), np.zeros_like(b), []
    for epoch in range(2):
        losses = []
        for rows in np.split(epoch_rows(task, epoch), [10, 20]):
            logits = hidden[rows] @ w.T + b
            chance = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            y = dataset.y.numpy()[rows]
            losses.append(-np.log(chance[np.arange(len(rows)), y]).mean())
            error = (chance - np.eye(4)[y]) / len(rows)
            v, u = 0.5 * v + error.T @ hidden[rows], 0.5 * u + error.sum(axis=0)
            w, b = w - 0.2 * v, b - 0.2 * u
    for together in (False, True):
        (found,) = train(network, dataset, [task], options, stacked=together)
        moved = network.tensors(found.weights)
        np.testing.assert_allclose(moved["2.weight"], w, atol=1e-5)
        np.testing.assert_allclose(moved["2.bias"], b, atol=1e-5)
        torch.testing.assert_close(
            moved["0.weight"], network.tensors(task.weights)["0.weight"], rtol=0, atol=0
        )
        assert found.loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_seed_decides_and_the_company_does_not():
    network, dataset, tasks = problem("mlp", 6)
    options = SGDOptions((Phase(1),), learning_rate=0.1)
    first = train(network, dataset, tasks, options)
    again = train(network, dataset, tasks, options)
    assert all(
        torch.equal(one.weights, other.weights) for one, other in zip(first, again, strict=True)
    )
    pair = train(network, dataset, tasks[1:3], options)
    torch.testing.assert_close(pair[0].weights, first[1].weights, rtol=1e-5, atol=1e-7)
    other = train(network, dataset, [Task(tasks[0].weights, tasks[0].rows, 99)], options)[0]
    assert not torch.allclose(other.weights, first[0].weights, atol=1e-6)


def test_dropout_is_trained_one_by_one_and_repeats():
    network, dataset, tasks = problem("test_descent:dropping", 5)
    state = torch.random.get_rng_state()
    first = train(network, dataset, tasks, SGDOptions(learning_rate=0.1))
    again = train(network, dataset, tasks, SGDOptions(learning_rate=0.1))
    assert all(
        torch.equal(one.weights, other.weights) for one, other in zip(first, again, strict=True)
    )
    assert torch.equal(
        state, torch.random.get_rng_state()
    )  # nobody else's random numbers were used up


def test_augmentation_touches_shared_layers_only():
    network, dataset, tasks = problem("mlp", 6)
    seen = []

    def augment(x, chance):
        seen.append(x.shape)
        return x + torch.randn(x.shape, generator=chance)

    plain = train(network, dataset, tasks, SGDOptions((Phase(2, "personal"),)), True)
    altered = train(network, dataset, tasks, SGDOptions((Phase(2, "personal"),)), True, augment)
    assert not seen
    assert all(
        torch.equal(one.weights, other.weights) for one, other in zip(plain, altered, strict=True)
    )
    train(network, dataset, tasks, SGDOptions((Phase(1),)), True, augment)
    assert {shape[1:] for shape in seen} == {(10, 6)}


def test_half_precision_is_close():
    network, dataset, tasks = problem("mlp", 6)
    options = SGDOptions((Phase(2),), learning_rate=0.1)
    for one, other in zip(
        train(network, dataset, tasks, options, True),
        train(network, dataset, tasks, options, True, None, True),
        strict=True,
    ):
        assert other.weights.dtype == torch.float32
        assert (
            0
            < torch.linalg.vector_norm(one.weights - other.weights)
            < 0.05 * torch.linalg.vector_norm(one.weights)
        )


@pytest.mark.parametrize("stacked", [False, True])
def test_the_loss_of_a_training_that_diverges_is_nan(stacked):
    network, dataset, tasks = problem("mlp", 6)
    huge = TensorDataset(1e30 * dataset.X, dataset.y)
    options = SGDOptions((Phase(2),), learning_rate=100.0)
    assert all(np.isnan(one.loss) for one in train(network, huge, tasks, options, stacked=stacked))
    nothing = train(network, dataset, tasks, SGDOptions((Phase(0),)), stacked=stacked)
    assert all(one.loss is None for one in nothing)


def test_correct_counts():
    network, dataset, tasks = problem("mlp", 6)
    weights = tasks[0].weights
    with torch.no_grad():
        network.module.load_state_dict(network.tensors(weights))
        expected = (network.module(dataset.X).argmax(1) == dataset.y).numpy()
    np.testing.assert_array_equal(
        correct_mask(network, dataset, weights, np.array([5, 3, 59])), expected[[5, 3, 59]]
    )
