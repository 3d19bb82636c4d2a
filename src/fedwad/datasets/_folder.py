"""Datasets in a folder of .npz files, the one that FEDWAD_DATA names.

A file holds `x_train, y_train, x_test, y_test`, or only one of the two splits. CIFAR-10 comes as
JPEGs that share one header: `jpeg_header`, the scans of a split one after the other in
`jpeg_train`, and their lengths in bytes in `len_train`; image i is header + scan + the end marker
FF D9. All bytes are uint8.
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
    """One dataset in one .npz file whose images have the given side."""

    def __init__(self, folder: str, name: str, side: int) -> None:
        self._path, self._side, self._jpeg = (
            Path(folder).expanduser() / FILES[name],
            side,
            name == "cifar10",
        )
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
        with self._opened() as file:
            keys = set(file.files)
        self.splits = tuple(
            split for split in ("train", "test") if keys.issuperset(self._keys(split))
        )
        if not self.splits:
            wanted = self._keys("train") + self._keys("test")
            found = ", ".join(sorted(keys)[:8]) or "none"
            raise InputError(
                f"{self._path} needs the arrays {', '.join(dict.fromkeys(wanted))}; it holds"
                f" {found}."
            )

    @property
    def location(self) -> str:
        return str(self._path)

    def labels(self, split: str) -> NDArray[Any]:
        with self._opened() as file:
            labels = file[f"y_{split}"]
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            self._refuse(f"y_{split}", labels, "one integer for each image")
        return np.asarray(labels)

    def images(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        if self._jpeg:
            return self._decoded(split, rows)
        with self._opened() as file:
            images = file[f"x_{split}"]
            count = len(file[f"y_{split}"])
        if images.dtype != np.uint8 or images.shape != (count, self._side, self._side):
            self._refuse(f"x_{split}", images, f"({count}, {self._side}, {self._side}) of uint8")
        # a whole split in its order needs no copy of it
        return np.asarray(images if np.array_equal(rows, np.arange(count)) else images[rows])

    def _decoded(self, split: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        from PIL import Image

        size = (self._side, self._side)
        with self._opened() as file:
            header, scans, lengths = (
                file["jpeg_header"].tobytes(),
                file[f"jpeg_{split}"],
                file[f"len_{split}"],
            )
            count = len(file[f"y_{split}"])
            stops = np.cumsum(lengths, dtype=np.int64)
            if len(lengths) != count or scans.size != (stops[-1] if count else 0):
                self._refuse(
                    f"jpeg_{split}",
                    scans,
                    f"as many bytes as len_{split} says, {int(stops[-1:].sum())}",
                )
            starts, content = stops - lengths, scans.tobytes()
            result = np.empty((len(rows), *size, 3), dtype=np.uint8)
            for i, row in enumerate(rows):
                jpeg = header + content[starts[row] : stops[row]] + _END_OF_JPEG
                # twice as fast as Image.open, which first finds out what the file is
                result[i] = np.asarray(Image.frombytes("RGB", size, jpeg, "jpeg", "RGB", ""))
        return result

    def _keys(self, split: str) -> tuple[str, ...]:
        images = ("jpeg_header", f"jpeg_{split}", f"len_{split}") if self._jpeg else (f"x_{split}",)
        return (*images, f"y_{split}")

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            # numpy would leave a damaged file open
            with self._path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                yield file
        except (InputError, MemoryError):
            raise
        except Exception:  # zipfile, lzma, numpy and Pillow each have their own ways to say it
            raise InputError(
                f"{self._path} cannot be read; is it a complete .npz file, as numpy.savez writes"
                " it?"
            ) from None

    def _refuse(self, key: str, array: NDArray[Any], wanted: str) -> None:
        raise InputError(
            f"{key} in {self._path} has shape {array.shape} of {array.dtype}; it must be {wanted}."
        )
