"""Files that are missing, damaged, incomplete or of another form get a sentence that names them."""

import numpy as np
import pytest

from fedwad import InputError
from paper.data import load
from paper.tests.dataset_files import grey, jpegs, write_npz


def sentence(*arguments, **options):
    with pytest.raises(InputError) as caught:
        load(*arguments, **options)
    return str(caught.value)


def test_a_folder_that_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDWAD_DATA", str(tmp_path / "nowhere"))
    assert "nowhere, which is no folder" in sentence("mnist")


def test_a_missing_file(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDWAD_DATA", str(tmp_path))
    said = sentence("usps")
    assert "has no file usps.npz" in said
    assert "unset FEDWAD_DATA to download usps" in said


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text"])
def test_a_damaged_file(folder, name, damage):
    path = folder.path / {"mnist": "mnist.npz", "cifar10": "cifar10_jpeg.npz"}[name]
    content = bytearray(path.read_bytes())
    if damage == "empty":
        content = b""
    elif damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "text":
        content = b"PK but not really"
    else:
        content[len(content) // 3] ^= 0xFF
    path.write_bytes(bytes(content))
    assert f"{path} cannot be read; is it a complete .npz file" in sentence(name)


def test_objects_are_not_unpickled(folder):
    np.savez(
        folder.path / "mnist.npz",
        x_train=np.array([{}], dtype=object),
        y_train=np.zeros(1, dtype=np.uint8),
    )
    assert "cannot be read" in sentence("mnist")


def test_other_keys(folder):
    np.savez(folder.path / "mnist.npz", images=np.zeros((1, 28, 28)), labels=np.zeros(1))
    assert (
        "needs the arrays x_train, y_train, x_test, y_test; it holds images, labels."
        in sentence("mnist")
    )
    np.savez(
        folder.path / "cifar10_jpeg.npz", x_train=np.zeros((1, 32, 32, 3)), y_train=np.zeros(1)
    )
    assert "needs the arrays jpeg_header, jpeg_train, len_train, y_train, jpeg_test" in sentence(
        "cifar10"
    )


def test_images_without_labels_are_no_split(folder):
    x, y = grey(10, 28, 0)
    write_npz(folder.path / "mnist.npz", x_train=x, x_test=x, y_test=y)
    assert "no samples of split 'train'" in sentence("mnist", "train")
    assert len(load("mnist")[0]) == 10


def test_an_empty_split_is_not_there(folder):
    x, y = grey(10, 28, 0)
    write_npz(folder.path / "kmnist_test.npz", x_train=x[:0], y_train=y[:0], x_test=x, y_test=y)
    assert "no samples of split 'train'" in sentence("kmnist", "train")
    assert load("kmnist")[0].shape == (10, 784)


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (
            np.zeros((10, 28, 28)),
            np.zeros(10, dtype=int),
            "x_train .* of float64; it must be .10, 28, 28. of uint8",
        ),
        (np.zeros((9, 28, 28), dtype=np.uint8), np.zeros(10, dtype=int), "x_train"),
        (np.zeros((10, 16, 16), dtype=np.uint8), np.zeros(10, dtype=int), "x_train"),
        (
            np.zeros((10, 28, 28), dtype=np.uint8),
            np.zeros(10),
            "y_train .* one integer for each image",
        ),
        (np.zeros((10, 28, 28), dtype=np.uint8), np.zeros((10, 1), dtype=int), "y_train"),
    ],
)
def test_other_shapes(folder, images, labels, words):
    np.savez(folder.path / "mnist.npz", x_train=images, y_train=labels)
    with pytest.raises(InputError, match=words):
        load("mnist")


def test_jpegs_that_are_not_as_long_as_they_say(folder):
    header, scans, lengths, _ = jpegs(5, 0)
    path, y = folder.path / "cifar10_jpeg.npz", np.arange(5, dtype=np.uint8)
    write_npz(path, jpeg_header=header, jpeg_train=scans[:-1], len_train=lengths, y_train=y)
    assert "jpeg_train" in sentence("cifar10")
    write_npz(path, jpeg_header=header, jpeg_train=scans, len_train=lengths, y_train=y[:4])
    assert "len_train" in sentence("cifar10")
    write_npz(path, jpeg_header=header[:4], jpeg_train=scans, len_train=lengths, y_train=y)
    assert "cannot be read" in sentence("cifar10")


def test_a_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.path.parent))
    monkeypatch.setenv("FEDWAD_DATA", "~/data")
    assert len(load("usps")[0]) == 60
