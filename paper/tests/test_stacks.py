"""Networks that train in a stack do what each does by itself, up to rounding."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `learn` is not installed")

from fedwad.learning.local import (  # noqa: E402
    Phase,
    SGDOptions,
    Task,
    TensorDataset,
    build,
    train,
)
from paper.training import train_stack  # noqa: E402

PHASES = {
    "fedavg": (Phase(2),),
    "fedrep": (Phase(2, "personal"), Phase(1, "shared")),
    "closing": (Phase(3, "personal"),),
}


def problem(word, features, sizes=(23, 40, 3, 31)):
    rng = np.random.default_rng(0)
    network = build(word, features, 4)
    dataset = TensorDataset.of(
        rng.standard_normal((60, features)), rng.integers(4, size=60), torch.device("cpu")
    )
    start = torch.as_tensor(network.initial_weights())
    return network, dataset, [Task(start, rng.permutation(60)[:n], n) for n in sizes]


@pytest.mark.parametrize("phases", PHASES.values(), ids=PHASES)
@pytest.mark.parametrize(
    ("word", "features"), [("mlp", 6), ("cnn", 256), ("paper.training:softmax_mlp", 6)]
)
def test_together_and_alone_agree(word, features, phases):
    network, dataset, tasks = problem(word, features)
    options = SGDOptions(phases, batch_size=10, learning_rate=0.1)
    alone = train(network, dataset, tasks, options)
    together = train_stack(network, dataset, tasks, options)
    for one, other, task in zip(alone, together, tasks, strict=True):
        assert torch.linalg.vector_norm(one.weights - task.weights) > 1e-4  # it learned something
        torch.testing.assert_close(one.weights, other.weights, rtol=1e-4, atol=1e-6)
        assert one.loss == pytest.approx(other.loss, rel=1e-4)


def test_augmentation_touches_shared_layers_only():
    network, dataset, tasks = problem("mlp", 6)
    seen = []

    def augment(x, generator):
        seen.append(x.shape)
        return x + torch.randn(x.shape, generator=generator)

    personal = SGDOptions((Phase(2, "personal"),))
    plain = train_stack(network, dataset, tasks, personal)
    altered = train_stack(network, dataset, tasks, personal, augment)
    assert not seen
    for one, other in zip(plain, altered, strict=True):
        assert torch.equal(one.weights, other.weights)
    train_stack(network, dataset, tasks, SGDOptions((Phase(1),)), augment)
    assert {shape[1:] for shape in seen} == {(10, 6)}


def test_half_precision_is_close_and_no_epoch_has_no_loss():
    network, dataset, tasks = problem("mlp", 6)
    options = SGDOptions((Phase(2),), learning_rate=0.1)
    full = train_stack(network, dataset, tasks, options)
    half = train_stack(network, dataset, tasks, options, half_precision=True)
    for one, other in zip(full, half, strict=True):
        assert other.weights.dtype == torch.float32
        apart = torch.linalg.vector_norm(one.weights - other.weights)
        assert 0 < apart < 0.05 * torch.linalg.vector_norm(one.weights)
    assert train_stack(network, dataset, tasks, SGDOptions((Phase(0),)))[0].loss is None
