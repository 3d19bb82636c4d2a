"""Loading a dataset by its name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice, check_integer
from fedwad.datasets._archive import Archive, Digits
from fedwad.datasets._heart import heart_files
from fedwad.datasets._images import grey_level_values, resize
from fedwad.errors import InputError

__all__ = ["NAMES", "load"]


@dataclass(frozen=True)
class _Layout:
    """How images of a dataset are stored, and how `load` returns them by default.

    `side` is that of stored images and `default_side` that of returned ones, in pixels; grey levels
    are 0..peak. `means` and `stds`, one per channel, are those by which pixels are normalised.
    """

    side: int
    default_side: int
    peak: int = 255
    means: tuple[float, ...] = (0.1307,)
    stds: tuple[float, ...] = (0.3081,)


_LAYOUTS = {
    "digits": _Layout(8, 8, peak=16),
    "mnist": _Layout(28, 28),
    "fashion_mnist": _Layout(28, 28),
    "kmnist": _Layout(28, 28),
    "usps": _Layout(16, 28),
    "cifar10": _Layout(32, 32, means=(0.485, 0.456, 0.406), stds=(0.229, 0.224, 0.225)),
}

#: The types of pixel values; "stored" are grey levels as floats.
_DTYPES = {"normalised": np.float32, "unit": np.float32, "raw": np.uint8, "stored": np.float64}
_CHUNK = 4096  # images converted at a time, so that little memory is needed besides the result

#: The datasets that `load` knows.
NAMES = ("heart", *_LAYOUTS)


@overload
def load(name: Literal["heart"]) -> dict[str, Path]: ...  # type: ignore[overload-overlap]
@overload
def load(
    name: str,
    split: str = "all",
    *,
    samples: int | None = None,
    seed: int = 0,
    pixels: str | None = None,
    size: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64]]: ...
def load(
    name: str,
    split: str = "all",
    *,
    samples: int | None = None,
    seed: int = 0,
    pixels: str | None = None,
    size: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64]] | dict[str, Path]:
    """Samples (n, d) and labels (n,) of a well-known dataset of images, or the tables of "heart".

    "heart" comes with this package: the raw tables of four hospitals (UCI Heart Disease), as a
    mapping from hospital to file. Their label column is "num". "heart" takes no other option.
    "digits" comes with scikit-learn. The others are read from the folder that the environment
    variable FEDWAD_DATA names. Without it, they are downloaded once from their public source and
    checked against its checksum.

    Parameters
    ----------
    name : "heart", "digits", "mnist", "fashion_mnist", "kmnist", "usps" or "cifar10"
    split : "train", "test", or "all" for both where they exist, training samples first
    samples : number of samples to draw without replacement, in random order; by default all of
        them, in their order
    seed : of that draw; `pixels` and `size` do not change which samples are drawn
    pixels : what becomes of a grey level v in 0..peak, where the peak is 16 for digits and else
        255. "normalised", float32, is (v/peak - 0.1307) / 0.3081, as in the code of the paper
        (CIFAR-10: with means 0.485, 0.456, 0.406 and standard deviations 0.229, 0.224, 0.225 of the
        channels). "unit", float32, is v/peak. "raw", uint8, is v. By default digits are v as
        float64 and the others are normalised.
    size : side of the images in pixels. By default 8 for digits, 32 for CIFAR-10 and 28 for the
        others; USPS, whose stored side is 16, is enlarged by bilinear interpolation.

    Returns
    -------
    X : one row per image, its rows of pixels one after the other: X.reshape(-1, 28, 28), for
        CIFAR-10 X.reshape(-1, 32, 32, 3)
    y : class numbers 0..9

    Examples
    --------
    >>> X, y = load("digits")
    >>> X.shape, X.dtype
    ((1797, 64), dtype('float64'))
    >>> X, y = load("digits", samples=100, seed=1, pixels="unit")
    >>> X.shape, X.dtype
    ((100, 64), dtype('float32'))
    """
    if isinstance(name, str) and name == "heart":
        if (split, samples, seed, pixels, size) != ("all", None, 0, None, None):
            raise InputError("The tables of 'heart' come as they are; load it without options.")
        return heart_files()
    layout = _get_layout(name)
    check_choice(split, "split", ("train", "test", "all"))
    form = _pixel_form(pixels, name)
    side = layout.default_side if size is None else check_integer(size, "size")
    seed = check_integer(seed, "seed", 0)
    archive = _open_archive(name, layout)
    splits = _select_splits(archive, name, split)
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


def _pixel_form(pixels: str | None, name: str) -> str:
    """A key of `_DTYPES`."""
    if pixels is None:
        return "stored" if name == "digits" else "normalised"
    return check_choice(pixels, "pixels", ("normalised", "unit", "raw"))


def _get_layout(name: Any) -> _Layout:
    if not isinstance(name, str) or name not in _LAYOUTS:
        shown = repr(name) if isinstance(name, str) else f"of type {type(name).__name__}"
        raise InputError(
            f"There is no dataset {shown}; the datasets are {', '.join(map(repr, NAMES))}."
        )
    return _LAYOUTS[name]


def _write_images(
    X: NDArray[Any], indices: NDArray[np.int64], images: NDArray[Any], form: str, layout: _Layout
) -> None:
    """Write images into these rows of X, some at a time, which needs little memory."""
    for chunk in np.split(np.arange(len(indices)), range(_CHUNK, len(indices), _CHUNK)):
        X[indices[chunk]] = _pixel_values(resize(images[chunk], X.shape[1]), form, layout)


def _open_archive(name: str, layout: _Layout) -> Archive:
    if name == "digits":
        return Digits()
    folder = os.environ.get("FEDWAD_DATA")
    if folder:
        from fedwad.datasets._folder import FolderArchive

        return FolderArchive(folder, name, layout.side)
    from fedwad.datasets._sources import PublicArchive

    return PublicArchive(name)


def _select_splits(archive: Archive, name: str, split: str) -> tuple[str, ...]:
    if split == "all":
        return archive.splits
    if split not in archive.splits:
        raise _no_samples_error(archive, name, split)
    return (split,)


def _no_samples_error(archive: Archive, name: str, split: str) -> InputError:
    others = [part for part in archive.splits if part != split] or ["all"]
    or_download = "" if name == "digits" else ", or unset FEDWAD_DATA to download the whole set"
    return InputError(
        f"{name} has no samples of split '{split}' in {archive.location}; use split='{others[0]}'"
        f" and divide it yourself{or_download}."
    )


def _draw_rows(count: int, samples: int | None, seed: int, subject: str) -> NDArray[np.int64]:
    if samples is None:
        return np.arange(count)
    if check_integer(samples, "samples") > count:
        raise InputError(
            f"{subject} has {count} samples and {samples} were asked for; ask for at most {count}."
        )
    return np.random.default_rng(seed).choice(count, samples, replace=False)


def _pixel_values(images: NDArray[np.uint8], form: str, layout: _Layout) -> NDArray[Any]:
    """The values of the pixels of images, (n, side, side, channels)."""
    images = images.reshape(*images.shape[:3], -1)
    if form in ("raw", "stored"):
        return images
    channels = [
        grey_level_values(form, layout.peak, mean, std)[images[..., k]]
        for k, (mean, std) in enumerate(zip(layout.means, layout.stds, strict=True))
    ]
    return np.stack(channels, axis=-1)
