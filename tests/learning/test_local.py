"""Training on one machine does what a loop written by hand does; networks come by name."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from failing import fails  # noqa: E402
from fedwad.errors import InputError  # noqa: E402
from fedwad.learning import local as networks  # noqa: E402
from fedwad.learning.local import (  # noqa: E402
    Phase,
    SGDOptions,
    Task,
    TensorDataset,
    epoch_rows,
    predicted_classes,
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


def dropping_by_a_function(features, classes):
    class Dropping(nn.Linear):
        def forward(self, x):
            return super().forward(nn.functional.dropout(x, 0.5, self.training))

    return Dropping(features, classes)


def residual(features, classes):
    class Residual(nn.Module):  # no chain of layers
        def __init__(self):
            super().__init__()
            self.head, self.body = nn.Linear(features, classes), nn.Linear(features, features)

        def forward(self, x):
            return self.head(x + torch.relu(self.body(x)))

    return Residual()


def normalised(features, classes):
    return nn.Sequential(nn.Linear(features, 5), nn.BatchNorm1d(5), nn.Linear(5, classes))


def doubles(features, classes):
    return nn.Linear(features, classes).double()


def broken(features, classes):  # noqa: ARG001
    raise RuntimeError("secret")


def number(features, classes):  # noqa: ARG001
    return 3


def test_sizes_are_the_papers():
    mlp = networks.build("mlp", 784, 10)
    assert [tuple(shape) for shape in mlp.shapes[::2]] == [
        (512, 784),
        (256, 512),
        (64, 256),
        (10, 64),
    ]
    assert mlp.personal_names == {"head.weight", "head.bias"}
    cnn = networks.build("cnn", 3072, 10)
    assert [tuple(shape) for shape in cnn.shapes[::2]] == [
        (64, 3, 5, 5),
        (64, 64, 5, 5),
        (120, 1600),
        (64, 120),
        (10, 64),
    ]


def problem(word, features, sizes=(23, 40, 3, 31), seed=0):
    rng = np.random.default_rng(seed)
    network = networks.build(word, features, 4, seed=seed)
    dataset = TensorDataset.of(rng.standard_normal((60, features)), rng.integers(4, size=60), CPU)
    start = torch.as_tensor(network.initial_weights())
    tasks = [
        Task(start, rng.permutation(60)[:size], seed=5 + place) for place, size in enumerate(sizes)
    ]
    return network, dataset, tasks


def test_a_linear_model_by_hand():
    """SGD with momentum on softmax regression, in NumPy."""
    network = networks.build("test_local:two_layers", 5, 4, personal=["2"])
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
    (found,) = train(network, dataset, [task], options)
    moved = network.tensors(found.weights)
    np.testing.assert_allclose(moved["2.weight"], w, atol=1e-5)
    np.testing.assert_allclose(moved["2.bias"], b, atol=1e-5)
    torch.testing.assert_close(
        moved["0.weight"], network.tensors(task.weights)["0.weight"], rtol=0, atol=0
    )
    assert found.loss == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("phases", PHASES.values(), ids=PHASES)
@pytest.mark.parametrize(
    ("word", "features"),
    [
        ("mlp", 6),
        ("cnn", 256),
        ("test_local:two_layers", 5),
        ("test_local:one_rectifier", 5),
        ("test_local:one_layer_twice", 4),
        ("test_local:residual", 5),
    ],
)
def test_networks_that_train_at_once_train_as_they_do_alone(word, features, phases):
    network, dataset, tasks = problem(word, features)
    options = SGDOptions(phases, batch_size=10, learning_rate=0.1)
    for found, task in zip(train(network, dataset, tasks, options), tasks, strict=True):
        (alone,) = train(network, dataset, [task], options)
        assert torch.linalg.vector_norm(found.weights - task.weights) > 1e-3  # it learned something
        assert torch.equal(found.weights, alone.weights)
        assert found.loss == alone.loss


@pytest.mark.parametrize(
    "personal", [["first"], ["second", "head.bias"], ["third", "head"], ["head.weight"]]
)
def test_any_layers_may_be_personal_and_only_they_learn_in_their_phase(personal):
    _, dataset, (task, *_) = problem("mlp", 6)
    network = networks.build("mlp", 6, 4, personal=personal)
    for layers in ("personal", "shared"):
        (found,) = train(network, dataset, [task], SGDOptions((Phase(1, layers),)))
        changed = (found.weights != task.weights).numpy()
        mask = network.personal_mask if layers == "personal" else ~network.personal_mask
        assert changed.any()
        assert not changed[~mask].any()


def test_the_seed_decides_and_the_company_does_not():
    network, dataset, tasks = problem("mlp", 6)
    options = SGDOptions((Phase(1),), learning_rate=0.1)
    first = train(network, dataset, tasks, options)
    again = train(network, dataset, tasks, options)
    assert all(
        torch.equal(one.weights, other.weights) for one, other in zip(first, again, strict=True)
    )
    pair = train(network, dataset, tasks[1:3], options)
    assert torch.equal(pair[0].weights, first[1].weights)
    other = train(network, dataset, [Task(tasks[0].weights, tasks[0].rows, 99)], options)[0]
    assert not torch.allclose(other.weights, first[0].weights, atol=1e-6)


@pytest.mark.parametrize("word", ["dropping", "dropping_by_a_function"])
def test_dropout_repeats_and_uses_nobody_elses_random_numbers(word):
    network, dataset, tasks = problem(f"test_local:{word}", 5)
    state = torch.random.get_rng_state()
    first = train(network, dataset, tasks, SGDOptions(learning_rate=0.1))
    again = train(network, dataset, tasks, SGDOptions(learning_rate=0.1))
    for one, other, task in zip(first, again, tasks, strict=True):
        (alone,) = train(network, dataset, [task], SGDOptions(learning_rate=0.1))
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.weights, alone.weights)
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_loss_of_a_training_that_diverges_is_nan():
    network, dataset, tasks = problem("mlp", 6)
    huge = TensorDataset(1e30 * dataset.X, dataset.y)
    options = SGDOptions((Phase(2),), learning_rate=100.0)
    assert all(np.isnan(one.loss) for one in train(network, huge, tasks, options))
    nothing = train(network, dataset, tasks, SGDOptions((Phase(0),)))
    assert all(one.loss is None for one in nothing)


def test_predicted_classes():
    network, dataset, tasks = problem("mlp", 6)
    weights = tasks[0].weights
    with torch.no_grad():
        network.module.load_state_dict(network.tensors(weights))
        expected = network.module(dataset.X).argmax(1).numpy()
    np.testing.assert_array_equal(
        predicted_classes(network, dataset, weights, np.array([5, 3, 59])), expected[[5, 3, 59]]
    )


def test_the_cnn_takes_rows_with_channels_last():
    """A row of pixels is the image that `reshape(side, side, channels)` shows."""
    module = networks.build("cnn", 3072, 10, seed=3).module
    x = torch.randn((4, 3072), generator=torch.Generator().manual_seed(0))
    images = x.reshape(4, 32, 32, 3).permute(0, 3, 1, 2)
    hidden = nn.functional.max_pool2d(torch.relu(module.first(images)), 2)
    hidden = nn.functional.max_pool2d(torch.relu(module.second(hidden)), 2)
    expected = torch.relu(module.fourth(torch.relu(module.third(hidden.flatten(1)))))
    torch.testing.assert_close(module(x), module.head(expected))


def test_odd_and_grey_images():
    assert networks.build("cnn", 28 * 28, 10).module(torch.zeros(2, 784)).shape == (2, 10)
    assert networks.build("cnn", 27 * 27, 3).module(torch.zeros(2, 729)).shape == (2, 3)
    with fails(InputError, "bad-model"):
        networks.build("cnn", 50, 10)


def test_the_seed_decides_the_weights_and_nothing_else_is_drawn():
    state = torch.random.get_rng_state()
    one, same, other = (networks.build("mlp", 8, 3, seed).initial_weights() for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert torch.equal(state, torch.random.get_rng_state())


def test_personal_layers_come_and_go():
    network = networks.build("mlp", 8, 3, personal=["third", "head"])
    assert network.personal_names == {"third.weight", "third.bias", "head.weight", "head.bias"}
    whole = network.initial_weights()
    joined = network.join(whole[~network.personal_mask], whole[network.personal_mask])
    np.testing.assert_array_equal(joined, whole)
    assert not networks.build("mlp", 8, 3, personal=()).personal_mask.any()


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("rnn", "unknown-model"),
        ("os:system;x", "unknown-model"),
        ("nowhere_at_all:f", "bad-model"),
        ("test_local:nothing", "bad-model"),
        ("test_local:normalised", "bad-model"),
        ("test_local:doubles", "bad-model"),
        ("test_local:broken", "bad-model"),
        ("test_local:number", "bad-model"),
    ],
)
def test_wrong_models_are_stated_in_a_sentence(word, code):
    with fails(InputError, code) as caught:
        networks.build(word, 8, 3)
    assert "secret" not in str(caught.value)


def test_wrong_layers():
    with fails(InputError, "bad-model"):
        networks.build("mlp", 8, 3, personal=["neck"])
    with fails(InputError, "bad-model"):
        networks.build("mlp", 8, 3, personal=["first", "second", "third", "head"])
