"""Loading a dataset that is on every machine: "heart" or "digits"."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_choice, check_integer
from fedwad.errors import InputError

#: The datasets that `load` knows.
NAMES = ("heart", "digits")
#: Cleveland Clinic Foundation; Hungarian Institute of Cardiology, Budapest; University Hospitals,
#: Zurich and Basel; V.A. Medical Center, Long Beach.
HEART_SITES = ("cleveland", "hungarian", "switzerland", "va")
#: The column with the diagnosis: 0 is no heart disease, 1 to 4 are degrees of disease.
HEART_LABEL = "num"


def heart_files() -> dict[str, Path]:
    """The file of each hospital; `heart/README.md` has the source and the licence (CC BY 4.0).

    >>> [(site, path.name) for site, path in heart_files().items()][:2]
    [('cleveland', 'cleveland.csv'), ('hungarian', 'hungarian.csv')]
    """
    folder = Path(__file__).parent / "heart"
    return {site: folder / f"{site}.csv" for site in HEART_SITES}


@overload
def load(name: Literal["heart"]) -> dict[str, Path]: ...  # type: ignore[overload-overlap]
@overload
def load(
    name: str, *, samples: int | None = None, seed: int = 0, pixels: str = "raw"
) -> tuple[NDArray[Any], NDArray[np.int64]]: ...
def load(
    name: str, *, samples: int | None = None, seed: int = 0, pixels: str = "raw"
) -> tuple[NDArray[Any], NDArray[np.int64]] | dict[str, Path]:
    """The tables of "heart", or samples (n, 64) and labels (n,) of "digits".

    "heart" comes with this package: the raw tables of four hospitals (UCI Heart Disease), as a
    mapping from hospital to file. Their label column is "num". "heart" takes no other option.
    "digits" comes with scikit-learn: 1797 images of 8 x 8 pixels, with labels 0..9.

    Parameters
    ----------
    name : "heart" or "digits"
    samples : number of samples to draw without replacement, in random order; by default all of
        them, in their order
    seed : of that draw; `pixels` does not change which samples are drawn
    pixels : "raw" are grey levels 0..16 in float64; "unit" are these by 16, in float32

    Examples
    --------
    >>> X, y = load("digits")
    >>> X.shape, X.dtype
    ((1797, 64), dtype('float64'))
    >>> X, y = load("digits", samples=100, seed=1, pixels="unit")
    >>> X.shape, X.dtype
    ((100, 64), dtype('float32'))
    """
    if not isinstance(name, str) or name not in NAMES:
        shown = repr(name) if isinstance(name, str) else f"of type {type(name).__name__}"
        raise InputError(
            f"There is no dataset {shown}; the datasets are {', '.join(map(repr, NAMES))}.",
            "unknown-dataset",
        )
    if name == "heart":
        if (samples, seed, pixels) != (None, 0, "raw"):
            raise InputError(
                "The tables of 'heart' come as they are; load it without options.", "bad-option"
            )
        return heart_files()
    check_choice(pixels, "pixels", ("raw", "unit"))
    rng = np.random.default_rng(check_integer(seed, "seed", 0))
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    if samples is not None:
        if check_integer(samples, "samples") > len(X):
            raise InputError(
                f"digits has {len(X)} samples and {samples} were asked for; ask for at most"
                f" {len(X)}.",
                "too-few-samples",
            )
        rows = rng.choice(len(X), samples, replace=False)
        X, y = X[rows], y[rows]
    return (X / 16).astype(np.float32) if pixels == "unit" else X, y.astype(np.int64)
