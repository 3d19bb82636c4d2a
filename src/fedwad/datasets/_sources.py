"""The public sources of the datasets, and how to read their formats.

The checksums are SHA-256 of the files as published. Those of MNIST, Fashion-MNIST and the test
split of KMNIST were computed from their bytes; those of KMNIST's training split and of USPS are
torchvision's, that of CIFAR-10 is the one of TensorFlow Datasets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.datasets._fetch import Remote, fetch
from fedwad.datasets._folder import FILES
from fedwad.errors import InputError

__all__ = ["SOURCES", "PublicArchive"]

_IDX = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _idx(mirrors: tuple[str, ...], *sums: str) -> dict[str, Remote]:
    keys = ("x_train", "y_train", "x_test", "y_test")
    return {
        key: Remote(file, mirrors, sha256)
        for key, file, sha256 in zip(keys, _IDX, sums, strict=True)
    }


_LIBSVM = ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",)

#: Where each dataset is, and under which checksum: a file for each array, or for each split, or
#: for all.
SOURCES: dict[str, dict[str, Remote]] = {
    "mnist": _idx(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "fashion_mnist": _idx(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    "kmnist": _idx(
        (
            "https://codh.rois.ac.jp/kmnist/dataset/kmnist/",
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        ),
        "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
        "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
        "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
        "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
    ),
    "usps": {
        "train": Remote(
            "usps.bz2", _LIBSVM, "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f"
        ),
        "test": Remote(
            "usps.t.bz2",
            _LIBSVM,
            "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
        ),
    },
    "cifar10": {
        "all": Remote(
            "cifar-10-binary.tar.gz",  # not the Python version of it, which is a pickle
            ("https://www.cs.toronto.edu/~kriz/",),
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        )
    },
}


class PublicArchive:
    """One dataset from its public source, through the cache."""

    splits = ("train", "test")

    def __init__(self, name: str) -> None:
        self._name = name
        self._read: dict[str, NDArray[Any]] = {}  # what one call of `load` has read so far

    @property
    def location(self) -> str:
        return "the public source"

    def labels(self, split: str) -> NDArray[Any]:
        return self._array(f"y_{split}")

    def images(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.asarray(self._array(f"x_{split}")[rows], dtype=np.uint8)

    def _array(self, key: str) -> NDArray[Any]:
        if key not in self._read:
            remotes = SOURCES[self._name]
            split = key.removeprefix("x_").removeprefix("y_")
            remote = next(remotes[part] for part in (key, split, "all") if part in remotes)
            path = fetch(self._name, remote, FILES[self._name])
            try:
                if self._name == "usps":
                    self._read[f"x_{split}"], self._read[f"y_{split}"] = _read_usps(path)
                elif self._name == "cifar10":
                    self._read[f"x_{split}"], self._read[f"y_{split}"] = _read_cifar(path, split)
                else:
                    self._read[key] = _read_idx(path)
            except (
                Exception
            ):  # the checksum was right, so this is us: no traceback for the user all the same
                raise InputError(
                    f"{path} cannot be read as {self._name}; delete it and try again."
                ) from None
        return self._read[key]


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """The format of MNIST: 0, 0, 8 (unsigned bytes), the number of axes, their lengths, then the
    bytes."""
    import gzip

    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of unsigned bytes")
    axes = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def _read_usps(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """LIBSVM's format: a label 1..10 for the digits 0..9 and 256 values in [-1, 1], brought to
    0..255 by rounding."""
    import bz2

    from sklearn.datasets import load_svmlight_file

    with bz2.open(path) as file:
        values, labels = load_svmlight_file(file, n_features=256)
    pixels = np.rint((values.toarray() + 1) / 2 * 255)
    return pixels.astype(np.uint8).reshape(-1, 16, 16), labels.astype(np.int64) - 1


def _read_cifar(path: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Records of 3073 bytes: the label, then 32 x 32 red, green and blue values."""
    import tarfile

    wanted = {"train": [f"data_batch_{k}.bin" for k in range(1, 6)], "test": ["test_batch.bin"]}[
        split
    ]
    found = {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:  # in the order of the file: going back would unpack it again
            name = member.name.rpartition("/")[2]
            content = archive.extractfile(member) if name in wanted else None
            if content is not None:
                found[name] = np.frombuffer(content.read(), dtype=np.uint8)
    records = np.concatenate([found[name] for name in wanted]).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]
