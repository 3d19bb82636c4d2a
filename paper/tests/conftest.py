"""Data sets for tests: small ones in the format of the folder, and the real ones where they are."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paper.tests.dataset_files import grey, jpegs, write_npz

BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """All five files, written once, and the pixels that they hold, by name."""
    path, pixels = tmp_path_factory.mktemp("written"), {}
    for name, side, train in [("mnist", 28, 60), ("fashion_mnist", 28, 30), ("usps", 16, 40)]:
        (x_train, y_train), (x_test, y_test) = grey(train, side, 1), grey(20, side, 2)
        write_npz(
            path / f"{name}.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test
        )
        pixels[name] = np.concatenate([x_train, x_test])
    pixels["kmnist"], labels = grey(50, 28, 3)
    write_npz(path / "kmnist_test.npz", x_test=pixels["kmnist"], y_test=labels)
    header, train, train_lengths, train_pixels = jpegs(30, 4)
    _, test, test_lengths, test_pixels = jpegs(20, 5)
    write_npz(
        path / "cifar10_jpeg.npz",
        jpeg_header=header,
        jpeg_train=train,
        len_train=train_lengths,
        y_train=(np.arange(30) % 10).astype(np.uint8),
        jpeg_test=test,
        len_test=test_lengths,
        y_test=(np.arange(20) % 10).astype(np.uint8),
    )
    pixels["cifar10"] = np.concatenate([train_pixels, test_pixels])
    return path, pixels


@pytest.fixture
def folder(written, tmp_path, monkeypatch):
    """A copy of the files that a test may spoil, named by FEDWAD_DATA."""
    source, pixels = written
    path = Path(shutil.copytree(source, tmp_path / "data"))
    monkeypatch.setenv("FEDWAD_DATA", str(path))
    return SimpleNamespace(path=path, pixels=pixels)


@pytest.fixture
def real_data(monkeypatch):
    """FEDWAD_DATA with the real data sets: as it is set, or the folder shared/data beside the
    repository."""
    if not os.environ.get("FEDWAD_DATA"):
        if not BESIDE.is_dir():
            pytest.skip("FEDWAD_DATA is not set and there is no folder ../shared/data")
        monkeypatch.setenv("FEDWAD_DATA", str(BESIDE))
