"""Datasets in the folder of .npz files that the environment variable FEDWAD_DATA names.

A file holds the arrays `x_train`, `y_train`, `x_test` and `y_test`, or only those of one split.
CIFAR-10 is stored as JPEGs that share one header: `jpeg_header` is the header, `jpeg_train` has the
scans of a split one after the other, and `len_train` has their lengths in bytes. Image i is the
header, its scan and the end marker FF D9. All bytes are uint8.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError

__all__ = ["FILES", "FolderArchive"]

#: The file of each dataset.
FILES = {
    "mnist": "mnist.npz",
    "fashion_mnist": "fashion_mnist.npz",
    "kmnist": "kmnist_test.npz",
    "usps": "usps.npz",
    "cifar10": "cifar10_jpeg.npz",
}

_END_OF_JPEG = b"\xff\xd9"


class FolderArchive:
    """One dataset in one .npz file, whose images have the given side in pixels."""

    def __init__(self, folder: str, name: str, side: int) -> None:
        self._path = Path(folder).expanduser() / FILES[name]
        self._side, self._is_jpeg = side, name == "cifar10"
        if not self._path.parent.is_dir():
            raise InputError(
                f"FEDWAD_DATA names {folder}, which is no folder; correct it, or unset it to"
                f" download {name}."
            )
        if not self._path.is_file():
            raise InputError(
                f"The folder {folder} that FEDWAD_DATA names has no file {self._path.name};"
                f" put it there, or unset FEDWAD_DATA to download {name}."
            )
        with self._open() as file:
            keys = set(file.files)
        self.splits = tuple(
            split for split in ("train", "test") if keys.issuperset(self._keys(split))
        )
        if not self.splits:
            needed = ", ".join(dict.fromkeys(self._keys("train") + self._keys("test")))
            present = ", ".join(sorted(keys)[:8]) or "none"
            raise InputError(f"{self._path} needs the arrays {needed}; it holds {present}.")

    @property
    def location(self) -> str:
        return str(self._path)

    def labels(self, split: str) -> NDArray[Any]:
        with self._open() as file:
            labels = file[f"y_{split}"]
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            self._refuse(f"y_{split}", labels, "one integer for each image")
        return np.asarray(labels)

    def images(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        if self._is_jpeg:
            return self._decode_jpegs(split, rows)
        with self._open() as file:
            images = file[f"x_{split}"]
            count = len(file[f"y_{split}"])
        if images.dtype != np.uint8 or images.shape != (count, self._side, self._side):
            self._refuse(f"x_{split}", images, f"({count}, {self._side}, {self._side}) of uint8")
        # All rows in their order need no copy.
        return np.asarray(images if np.array_equal(rows, np.arange(count)) else images[rows])

    def _decode_jpegs(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        from PIL import Image

        size = (self._side, self._side)
        with self._open() as file:
            header, scans = file["jpeg_header"].tobytes(), file[f"jpeg_{split}"]
            lengths, count = file[f"len_{split}"], len(file[f"y_{split}"])
            stops = np.cumsum(lengths, dtype=np.int64)
            if lengths.shape != (count,):
                self._refuse(f"len_{split}", lengths, f"one number for each of {count} labels")
            if scans.size != (stops[-1] if count else 0):
                total = int(stops[-1:].sum())
                self._refuse(f"jpeg_{split}", scans, f"as many bytes as len_{split} says, {total}")
            starts, content = stops - lengths, scans.tobytes()
            result = np.empty((len(rows), *size, 3), dtype=np.uint8)
            for i, row in enumerate(rows):
                jpeg = header + content[starts[row] : stops[row]] + _END_OF_JPEG
                # This is twice as fast as Image.open, which first detects the format.
                result[i] = np.asarray(Image.frombytes("RGB", size, jpeg, "jpeg", "RGB", ""))
        return result

    def _keys(self, split: str) -> tuple[str, ...]:
        """The names of the arrays of a split."""
        if self._is_jpeg:
            return ("jpeg_header", f"jpeg_{split}", f"len_{split}", f"y_{split}")
        return (f"x_{split}", f"y_{split}")

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            # NumPy would leave a damaged file open.
            with self._path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                yield file
        except (InputError, MemoryError):
            raise
        except Exception:  # zipfile, lzma, NumPy and Pillow raise many types of errors
            raise InputError(
                f"{self._path} cannot be read; is it a complete .npz file, as numpy.savez writes"
                " it?"
            ) from None

    def _refuse(self, key: str, array: NDArray[Any], expected: str) -> None:
        raise InputError(
            f"{key} in {self._path} has shape {array.shape} of {array.dtype}; it must be"
            f" {expected}."
        )
