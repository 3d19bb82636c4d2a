"""The public sources of the datasets, and how to read their formats.

The checksums are SHA-256 of the files as published. Those of MNIST, Fashion-MNIST and the test
split of KMNIST were computed from the files; those of KMNIST's training split and of USPS are from
torchvision, and that of CIFAR-10 is from TensorFlow Datasets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.datasets._fetch import RemoteFile, fetch
from fedwad.datasets._folder import FILES
from fedwad.errors import InputError

__all__ = ["SOURCES", "PublicArchive"]

#: The names of the files of MNIST and of datasets in its format.
_IDX_FILES = {
    "x_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}


def _idx_files(mirrors: tuple[str, ...], *checksums: str) -> dict[str, RemoteFile]:
    return {
        key: RemoteFile(name, mirrors, sha256)
        for (key, name), sha256 in zip(_IDX_FILES.items(), checksums, strict=True)
    }


_LIBSVM = ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",)

#: The files of each dataset: one for each array ("x_train"), for each split ("train"), or "all".
SOURCES: dict[str, dict[str, RemoteFile]] = {
    "mnist": _idx_files(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "fashion_mnist": _idx_files(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    "kmnist": _idx_files(
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
        "train": RemoteFile(
            "usps.bz2", _LIBSVM, "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f"
        ),
        "test": RemoteFile(
            "usps.t.bz2",
            _LIBSVM,
            "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
        ),
    },
    "cifar10": {
        "all": RemoteFile(
            "cifar-10-binary.tar.gz",  # the Python version is a pickle, which can run code
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
        self._arrays: dict[str, NDArray[Any]] = {}  # those that one call of `load` has read so far

    @property
    def location(self) -> str:
        return "the public source"

    def labels(self, split: str) -> NDArray[Any]:
        return self._array(f"y_{split}")

    def images(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.asarray(self._array(f"x_{split}")[rows], dtype=np.uint8)

    def _array(self, key: str) -> NDArray[Any]:
        if key not in self._arrays:
            files, split = SOURCES[self._name], key.partition("_")[2]
            file = next(files[part] for part in (key, split, "all") if part in files)
            path = fetch(self._name, file, FILES[self._name])
            try:
                self._arrays |= self._read(path, key, split)
            except Exception:  # a fault of ours, since the checksum was right; still no traceback
                raise InputError(
                    f"{path} cannot be read as {self._name}; delete it and try again."
                ) from None
        return self._arrays[key]

    def _read(self, path: Path, key: str, split: str) -> dict[str, NDArray[Any]]:
        if self._name not in ("usps", "cifar10"):
            return {key: _read_idx(path)}
        x, y = _read_usps(path) if self._name == "usps" else _read_cifar(path, split)
        return {f"x_{split}": x, f"y_{split}": y}


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """An array in the format of MNIST.

    The file has the bytes 0, 0 and 8 (for unsigned bytes), the number of axes, their lengths, and
    the values.
    """
    import gzip

    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of unsigned bytes")
    axes = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def _read_usps(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images and labels in LIBSVM's format.

    The labels 1..10 stand for the digits 0..9. The 256 values in [-1, 1] are scaled to 0..255 and
    rounded.
    """
    import bz2

    from sklearn.datasets import load_svmlight_file

    with bz2.open(path) as file:
        values, labels = load_svmlight_file(file, n_features=256)
    pixels = np.rint((values.toarray() + 1) / 2 * 255)
    return pixels.astype(np.uint8).reshape(-1, 16, 16), labels.astype(np.int64) - 1


def _read_cifar(path: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images and labels from records of 3073 bytes.

    A record has the label, then 32 x 32 red, 32 x 32 green and 32 x 32 blue values.
    """
    import tarfile

    train = [f"data_batch_{k}.bin" for k in range(1, 6)]
    names = train if split == "train" else ["test_batch.bin"]
    batches = {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:  # in the order of the file: going back would unpack it again
            name = member.name.rpartition("/")[2]
            content = archive.extractfile(member) if name in names else None
            if content is not None:
                batches[name] = np.frombuffer(content.read(), dtype=np.uint8)
    records = np.concatenate([batches[name] for name in names]).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]
