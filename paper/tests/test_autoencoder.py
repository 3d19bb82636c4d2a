"""The autoencoder: learns, repeats itself bit for bit, travels as plain arrays."""

import subprocess
import sys

import numpy as np
import pytest

from failing import fails
from fedwad.datasets import load
from fedwad.errors import InputError
from paper.autoencoder import Autoencoder, fit

RNG = np.random.default_rng(0)
PLANE = RNG.standard_normal((400, 3)) @ RNG.standard_normal((3, 12)) + 5.0


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("torch")
    return fit(PLANE, dimension=3, hidden=32, epochs=80, batch_size=32)


def test_samples_of_a_plane_come_back(model):
    codes = model.encode(PLANE)
    assert codes.shape == (400, 3)
    error = np.mean((model.decode(codes) - PLANE) ** 2) / np.var(PLANE - PLANE.mean(axis=0))
    assert error < 0.05
    np.testing.assert_allclose(error, model.losses[-1], rtol=1.0)
    assert model.losses[-1] < model.losses[0] / 5


def test_the_code_is_what_torch_computes(model):
    import torch

    layers = [torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3)]
    with torch.no_grad():
        for layer, (matrix, offset) in zip(
            layers[::2], (model.down[:2], model.down[2:]), strict=True
        ):
            layer.weight.copy_(torch.from_numpy(matrix.T.copy()))
            layer.bias.copy_(torch.from_numpy(offset))
        centred = torch.from_numpy(((PLANE - PLANE.mean(axis=0)) / model.scale).astype(np.float32))
        expected = torch.nn.Sequential(*layers)(centred).numpy()
    np.testing.assert_allclose(model.encode(PLANE), expected, atol=1e-4)


def test_the_same_seed_gives_the_same_bits_whatever_the_threads(model):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        again = fit(PLANE, dimension=3, hidden=32, epochs=80, batch_size=32)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(again.down + again.up, model.down + model.up, strict=True):
        np.testing.assert_array_equal(one, other)
    different = fit(PLANE, dimension=3, hidden=32, epochs=1, batch_size=32, seed=1)
    assert not np.array_equal(different.down[0], model.down[0])


def test_progress_is_stated():
    pytest.importorskip("torch")
    seen = []
    fit(
        PLANE,
        dimension=2,
        hidden=4,
        epochs=3,
        callback=lambda epoch, loss: seen.append((epoch, loss)),
    )
    assert [epoch for epoch, _ in seen] == [1, 2, 3]


def test_saved_and_loaded_codes_are_the_same_bits(model, tmp_path):
    model.save(tmp_path / "model.npz")
    loaded = Autoencoder.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.encode(PLANE), model.encode(PLANE))
    np.testing.assert_array_equal(loaded.decode(PLANE[:, :3]), model.decode(PLANE[:, :3]))
    assert repr(loaded) == repr(model)


def test_encoding_needs_no_torch(model, tmp_path):
    model.save(tmp_path / "model.npz")
    code = (
        "import sys, numpy as np; from paper.autoencoder import Autoencoder;"
        "print(Autoencoder.load(sys.argv[1]).encode(np.ones((2, 12))).shape, 'torch' in"
        " sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.npz")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["(2,", "3)", "False"]


def test_files_that_are_no_autoencoder(model, tmp_path):
    with fails(InputError, "no-such-file"):
        Autoencoder.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", X=PLANE)
    for name in ("text.npz", "other.npz"):
        with fails(InputError, "wrong-format"):
            Autoencoder.load(tmp_path / name)
    model.save(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as archive:
        parts = dict(archive)
    missing = {name: part for name, part in parts.items() if name != "up3"}
    for k, damaged in enumerate(
        [missing, parts | {"down0": parts["down0"][:5]}, parts | {"scale": np.array(0.0)}]
    ):
        np.savez(tmp_path / f"{k}.npz", **damaged)
        with fails(InputError, "damaged-content"):
            Autoencoder.load(tmp_path / f"{k}.npz")


@pytest.mark.parametrize(
    ("X", "options", "code"),
    [
        (np.zeros(5), {}, "wrong-shape"),
        (np.zeros((0, 3)), {}, "wrong-shape"),
        ([["a"]], {}, "wrong-shape"),
        ([[np.nan]], {}, "infinite-values"),
        (PLANE, {"dimension": 0}, "bad-option"),
        (PLANE, {"epochs": 1.5}, "bad-option"),
        (PLANE, {"learning_rate": 2}, "bad-option"),
        (PLANE, {"seed": -1}, "bad-option"),
    ],
)
def test_wrong_input(X, options, code):
    with fails(InputError, code, *options):
        fit(X, **options)


def test_wrong_samples_to_encode(model):
    with fails(InputError, "wrong-shape"):
        model.encode(np.zeros((2, 5)))
    with fails(InputError, "wrong-shape"):
        model.decode(PLANE)


def test_equal_samples_train_without_a_warning():
    pytest.importorskip("torch")
    model = fit(np.ones((20, 4)), dimension=2, hidden=4, epochs=2)
    np.testing.assert_allclose(model.decode(model.encode(np.ones((3, 4)))), 1.0, atol=0.5)


def test_digits_keep_their_classes():
    pytest.importorskip("torch")
    from sklearn.neighbors import KNeighborsClassifier

    X, y = load("digits")
    code = fit(X[:900], dimension=16, hidden=64, epochs=30, batch_size=64).encode(X)
    assert (
        KNeighborsClassifier(1).fit(code[900:1400], y[900:1400]).score(code[1400:], y[1400:]) > 0.8
    )  # 0.94 on all 64 pixels
