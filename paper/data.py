"""The images of the paper: from a folder, or from their public sources with a checksum.

The environment variable FEDWAD_DATA names a folder of .npz files. A file holds the arrays
`x_train`, `y_train`, `x_test` and `y_test`, or only those of one split. CIFAR-10 is stored as JPEGs
that share one header: `jpeg_header` is the header, `jpeg_train` has the scans of a split one after
the other, and `len_train` has their lengths in bytes. Image i is the header, its scan and the end
marker FF D9. All bytes are uint8.

The checksums of the public files are their SHA-256. Those of MNIST, Fashion-MNIST and the test
split of KMNIST were computed from the files; those of KMNIST's training split and of USPS are from
torchvision, and that of CIFAR-10 is from TensorFlow Datasets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice, check_integer
from fedwad.errors import InputError


@dataclass(frozen=True)
class _Layout:
    """How images of a dataset are stored, and how `load` returns them by default.

    `side` is that of stored images and `default_side` that of returned ones, in pixels. `means` and
    `stds`, one per channel, are those by which pixels are normalised.
    """

    side: int
    default_side: int
    means: tuple[float, ...] = (0.1307,)
    stds: tuple[float, ...] = (0.3081,)


_LAYOUTS = {
    "mnist": _Layout(28, 28),
    "fashion_mnist": _Layout(28, 28),
    "kmnist": _Layout(28, 28),
    "usps": _Layout(16, 28),
    "cifar10": _Layout(32, 32, means=(0.485, 0.456, 0.406), stds=(0.229, 0.224, 0.225)),
}

_DTYPES = {"normalised": np.float32, "unit": np.float32, "raw": np.uint8}
_CHUNK = 4096  # images converted at a time, so that little memory is needed besides the result

#: The datasets that `load` knows.
NAMES = tuple(_LAYOUTS)


def load(
    name: str,
    split: str = "all",
    *,
    samples: int | None = None,
    seed: int = 0,
    pixels: str = "normalised",
    size: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Samples (n, d) and labels (n,) of a well-known dataset of images.

    They are read from the folder that the environment variable FEDWAD_DATA names. Without it, they
    are downloaded once from their public source and checked against its checksum.

    Parameters
    ----------
    name : "mnist", "fashion_mnist", "kmnist", "usps" or "cifar10"
    split : "train", "test", or "all" for both where they exist, training samples first
    samples : number of samples to draw without replacement, in random order; by default all of
        them, in their order
    seed : of that draw; `pixels` and `size` do not change which samples are drawn
    pixels : what becomes of a grey level v in 0..255. "normalised", float32, is
        (v/255 - 0.1307) / 0.3081, as in the code of the paper (CIFAR-10: with means 0.485, 0.456,
        0.406 and standard deviations 0.229, 0.224, 0.225 of the channels). "unit", float32, is
        v/255. "raw", uint8, is v.
    size : side of the images in pixels. By default 32 for CIFAR-10 and 28 for the others; USPS,
        whose stored side is 16, is enlarged by bilinear interpolation.

    Returns
    -------
    X : one row per image, its rows of pixels one after the other: X.reshape(-1, 28, 28), for
        CIFAR-10 X.reshape(-1, 32, 32, 3)
    y : class numbers 0..9
    """
    if not isinstance(name, str) or name not in _LAYOUTS:
        shown = repr(name) if isinstance(name, str) else f"of type {type(name).__name__}"
        raise InputError(
            f"There is no dataset of images {shown}; they are {', '.join(map(repr, NAMES))}.",
            "unknown-dataset",
        )
    layout = _LAYOUTS[name]
    check_choice(split, "split", ("train", "test", "all"))
    form = check_choice(pixels, "pixels", tuple(_DTYPES))
    side = layout.default_side if size is None else check_integer(size, "size")
    seed = check_integer(seed, "seed", 0)
    folder = os.environ.get("FEDWAD_DATA")
    archive = FolderArchive(folder, name, layout.side) if folder else PublicArchive(name)
    if split != "all" and split not in archive.splits:
        raise _no_samples_error(archive, name, split)
    splits = archive.splits if split == "all" else (split,)
    labels = [archive.labels(part) for part in splits]
    bounds = np.cumsum([0, *(len(part) for part in labels)])
    if bounds[-1] == 0:
        raise _no_samples_error(archive, name, split)
    rows = _draw_rows(int(bounds[-1]), samples, seed, f"{name}, split '{split}',")
    X = np.empty((len(rows), side, side, len(layout.means)), dtype=_DTYPES[form])
    for part, start, stop in zip(splits, bounds[:-1], bounds[1:], strict=True):
        indices = np.flatnonzero((start <= rows) & (rows < stop))
        if len(indices):
            _write_images(X, indices, archive.images(part, rows[indices] - start), form, layout)
    return X.reshape(len(rows), -1), np.concatenate(labels)[rows].astype(np.int64)


def _write_images(
    X: NDArray[Any], indices: NDArray[np.int64], images: NDArray[Any], form: str, layout: _Layout
) -> None:
    """Write images into these rows of X, some at a time, which needs little memory."""
    for chunk in np.split(np.arange(len(indices)), range(_CHUNK, len(indices), _CHUNK)):
        X[indices[chunk]] = _pixel_values(resize(images[chunk], X.shape[1]), form, layout)


def _no_samples_error(archive: FolderArchive | PublicArchive, name: str, split: str) -> InputError:
    others = [part for part in archive.splits if part != split] or ["all"]
    return InputError(
        f"{name} has no samples of split '{split}' in {archive.location}; use split='{others[0]}'"
        " and divide it yourself, or unset FEDWAD_DATA to download the whole set.",
        "no-samples",
    )


def _draw_rows(count: int, samples: int | None, seed: int, subject: str) -> NDArray[np.int64]:
    if samples is None:
        return np.arange(count)
    if check_integer(samples, "samples") > count:
        raise InputError(
            f"{subject} has {count} samples and {samples} were asked for; ask for at most {count}.",
            "too-few-samples",
        )
    return np.random.default_rng(seed).choice(count, samples, replace=False)


def _pixel_values(images: NDArray[np.uint8], form: str, layout: _Layout) -> NDArray[Any]:
    """The values of the pixels of images, (n, side, side, channels)."""
    images = images.reshape(*images.shape[:3], -1)
    if form == "raw":
        return images
    channels = [
        grey_level_values(form, mean, std)[images[..., k]]
        for k, (mean, std) in enumerate(zip(layout.means, layout.stds, strict=True))
    ]
    return np.stack(channels, axis=-1)


def resize(images: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Square images with another side, by Pillow's bilinear filter on integer grey levels.

    torchvision's `Resize`, which the code of the paper uses, does the same. Pixel k of n has its
    centre at (k + 1/2) / n. If images grow, a value is interpolated between the two nearest centres
    of the old image; at the edge it is that of the nearest one. If images shrink, a value is an
    average with triangular weights as wide as the ratio of the sides. Rows are resized first, then
    columns, and each result is rounded to integers.
    """
    if images.shape[1] == side:
        return images
    Image = _package("PIL.Image")

    result = np.empty((len(images), side, side, *images.shape[3:]), dtype=np.uint8)
    for i, image in enumerate(images):
        new = Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
        result[i] = np.asarray(new)
    return result


def _package(name: str) -> Any:
    """A package of the extra `paper`; an InputError says how to install it where it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(
            "The images of the paper need pooch and pillow; run: pip install 'fedwad[paper]'.",
            "missing-package",
        ) from None


def grey_level_values(form: str, mean: float, std: float) -> NDArray[np.float32]:
    """The value of each grey level v in 0..255.

    It is v / 255 if the form is "unit", and (v / 255 - mean) / std if it is "normalised".
    """
    values = np.arange(256) / 255
    if form == "normalised":
        values = (values - mean) / std
    return values.astype(np.float32)


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
                f" download {name}.",
                "no-folder",
            )
        if not self._path.is_file():
            raise InputError(
                f"The folder {folder} that FEDWAD_DATA names has no file {self._path.name};"
                f" put it there, or unset FEDWAD_DATA to download {name}.",
                "no-file",
            )
        with self._open() as file:
            keys = set(file.files)
        self.splits = tuple(
            split for split in ("train", "test") if keys.issuperset(self._keys(split))
        )
        if not self.splits:
            needed = ", ".join(dict.fromkeys(self._keys("train") + self._keys("test")))
            present = ", ".join(sorted(keys)[:8]) or "none"
            raise InputError(
                f"{self._path} needs the arrays {needed}; it holds {present}.", "missing-arrays"
            )

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
        Image = _package("PIL.Image")

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
                " it?",
                "unreadable-file",
            ) from None

    def _refuse(self, key: str, array: NDArray[Any], expected: str) -> None:
        raise InputError(
            f"{key} in {self._path} has shape {array.shape} of {array.dtype}; it must be"
            f" {expected}.",
            "wrong-array",
        )


@dataclass(frozen=True)
class RemoteFile:
    """A file, the mirrors that have it (as URLs that end in a slash), and its SHA-256."""

    name: str
    mirrors: tuple[str, ...]
    sha256: str


def fetch(dataset: str, remote: RemoteFile, alternative: str) -> Path:
    """The path of a dataset's file in the cache of the operating system.

    The file is downloaded from the first mirror that has it with the right checksum. `alternative`
    is the file that a folder named by FEDWAD_DATA would hold instead.
    """
    pooch = _package("pooch")

    folder = Path(pooch.os_cache("fedwad")) / dataset
    reasons = []
    for mirror in remote.mirrors:
        host = urlsplit(mirror).hostname
        # With streaming, a connection would stay open if the server answers with an error.
        downloader = pooch.HTTPDownloader(timeout=(10, 60), stream=False)
        url, checksum = mirror + remote.name, f"sha256:{remote.sha256}"
        try:
            path = pooch.retrieve(url, checksum, remote.name, folder, downloader=downloader)
        except OSError as error:
            if not hasattr(error, "response"):  # not from the requests library
                raise InputError(
                    f"The cache {folder} cannot be written"
                    f" ({error.strerror or 'no permission'}); mend that, or"
                    f" set FEDWAD_DATA to a folder that has {alternative}.",
                    "cache",
                ) from None
            if error.response is None:
                reasons.append(f"no answer from {host}")
            else:
                reasons.append(f"{host} answered {error.response.status_code}")
        except ValueError:  # the checksum is wrong
            reasons.append(f"{host} sent something else than the published file")
        else:
            return Path(path)
    with suppress(OSError):  # pooch makes the folder before it asks; one that has files stays
        folder.rmdir()
        folder.parent.rmdir()
    why = ", ".join(dict.fromkeys(reasons))  # two mirrors may be one host
    raise InputError(
        f"{dataset} is not on this machine and cannot be downloaded ({why}); connect to the"
        f" internet and try again, or set FEDWAD_DATA to a folder that has {alternative}.",
        "offline",
    )


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
                    f"{path} cannot be read as {self._name}; delete it and try again.",
                    "unreadable-file",
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


def random_code(X: Any, dimension: int = 784, hidden: int = 1024, seed: int = 0) -> NDArray[Any]:
    """Encode samples X (n, d) as (n, dimension) by a randomly initialised autoencoder's encoder.

    The encoder has two fully connected layers without biases and a rectifier between them:

        code(x) = B max(0, A x),   A: hidden x d,        A_jk ~ N(0, 2 / hidden),
                                   B: dimension x hidden, B_ij ~ N(0, 1 / dimension).

    The variances make E |code(x)|^2 = |x|^2 over the draw of A and B (the rectifier halves |A x|^2
    on average), so the scale of the data stays. The paper encodes CIFAR-10 in 784 dimensions this
    way without saying by which network; this one is ours. A and B depend on d, dimension, hidden
    and seed alone, so clients that agree on these compute comparable codes without seeing each
    other's data. The result is float32 for floats of up to 32 bits and integers of up to 16, else
    float64. It is the same on any machine, up to rounding.

    Examples
    --------
    >>> random_code(np.eye(3), dimension=2).shape
    (3, 2)
    """
    samples = np.asarray(X)
    if samples.ndim != 2 or 0 in samples.shape or samples.dtype.kind not in "biuf":
        raise InputError(
            f"X has shape {samples.shape} of {samples.dtype}; give numbers (n, d), one sample per"
            " row.",
            "wrong-shape",
        )
    dtype = np.result_type(samples, np.float32)
    hidden, dimension = check_integer(hidden, "hidden"), check_integer(dimension, "dimension")
    rng = np.random.default_rng(check_integer(seed, "seed", 0))
    first = (rng.standard_normal((samples.shape[1], hidden)) * np.sqrt(2 / hidden)).astype(dtype)
    second = (rng.standard_normal((hidden, dimension)) * np.sqrt(1 / dimension)).astype(dtype)
    result = np.empty((len(samples), dimension), dtype=dtype)
    for start in range(0, len(samples), _CHUNK):
        chunk = samples[start : start + _CHUNK].astype(dtype)
        result[start : start + _CHUNK] = np.maximum(chunk @ first, 0) @ second
    return result
