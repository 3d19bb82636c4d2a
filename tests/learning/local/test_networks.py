"""Networks by a word."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedwad.errors import InputError  # noqa: E402
from fedwad.learning.local import networks  # noqa: E402


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
        (64, 75),
        (64, 1600),
        (120, 1600),
        (64, 120),
        (10, 64),
    ]


def test_the_cnn_is_a_convolutional_network():
    """The same numbers, and the same gradients, as PyTorch's own convolutions and pooling."""
    network = networks.build("cnn", 3072, 10, seed=3)
    ours = network.module
    first, second = nn.Conv2d(3, 64, 5), nn.Conv2d(64, 64, 5)
    with torch.no_grad():
        for layer, own, channels in ((first, ours.first, 3), (second, ours.second, 64)):
            layer.weight.copy_(own.weight.reshape(64, 5, 5, channels).permute(0, 3, 1, 2))
            layer.bias.copy_(own.bias)
    x = torch.randn((4, 3072), generator=torch.Generator().manual_seed(0))
    images = x.reshape(4, 32, 32, 3).permute(0, 3, 1, 2)
    pool = nn.functional.max_pool2d
    hidden = pool(torch.relu(second(pool(torch.relu(first(images)), 2))), 2)
    expected = torch.relu(ours.third(hidden.permute(0, 2, 3, 1).flatten(1)))
    expected = ours.head(torch.relu(ours.fourth(expected)))
    torch.testing.assert_close(ours(x), expected)
    target = torch.tensor([0, 3, 9, 3])
    own, others = (
        torch.autograd.grad(nn.functional.cross_entropy(logits, target), weights)
        for logits, weights in (
            (ours(x), (ours.first.weight, ours.second.weight)),
            (expected, (first.weight, second.weight)),
        )
    )
    for mine, theirs in zip(own, others, strict=True):
        torch.testing.assert_close(
            mine, theirs.permute(0, 2, 3, 1).reshape(mine.shape), rtol=1e-4, atol=1e-7
        )


def test_odd_and_grey_images():
    assert networks.build("cnn", 28 * 28, 10).module(torch.zeros(2, 784)).shape == (2, 10)
    assert networks.build("cnn", 27 * 27, 3).module(torch.zeros(2, 729)).shape == (2, 3)
    with pytest.raises(InputError, match="not square images"):
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
    body, head = network.body_and_head()
    x = torch.randn(5, 8)
    torch.testing.assert_close(head(body(x)), network.module(x))
    assert networks.build("mlp", 8, 3, personal=["first"]).body_and_head() is None
    assert not networks.build("mlp", 8, 3, personal=()).personal_mask.any()


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("rnn", "There is no model 'rnn'"),
        ("os:system;x", "There is no model"),
        ("nowhere_at_all:f", "cannot be imported here"),
        ("test_networks:nothing", "cannot be imported here"),
        ("test_networks:normalised", "running statistics"),
        ("test_networks:doubles", "float32"),
        ("test_networks:broken", "cannot be made"),
        ("test_networks:number", "torch.nn.Module"),
    ],
)
def test_wrong_models_are_stated_in_a_sentence(word, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        networks.build(word, 8, 3)
    assert "secret" not in str(caught.value)


def test_wrong_layers():
    with pytest.raises(InputError, match=r"no layer 'neck'; it has first, second, third, head"):
        networks.build("mlp", 8, 3, personal=["neck"])
    with pytest.raises(InputError, match="at least one has to be shared"):
        networks.build("mlp", 8, 3, personal=["first", "second", "third", "head"])
