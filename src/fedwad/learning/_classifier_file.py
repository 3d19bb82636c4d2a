"""The coreset classifier in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwad._files import read_arrays, write_arrays
from fedwad.errors import InputError
from fedwad.federation import Traffic
from fedwad.privacy import DP
from fedwad.tables import Schema

if TYPE_CHECKING:
    from fedwad.learning._coreset_classifier import CoresetClassifier

__all__ = ["load", "save"]

_FORMAT = "fedwad coreset classifier 3"
_ARRAYS = ("points_", "weights_", "labels_", "owners_", "classes_")


def save(model: CoresetClassifier, path: str | Path) -> None:
    """Write a fitted classifier: its arrays, and the entry "about" with all else as JSON."""
    arrays = {name: getattr(model, name) for name in _ARRAYS}
    if arrays["classes_"].dtype.kind == "O":  # such as strings: let NumPy find their type
        arrays["classes_"] = np.array(arrays["classes_"].tolist())
    if arrays["classes_"].dtype.kind == "O":
        raise InputError("The labels are of a type that cannot be saved; give strings or numbers.")
    about = {
        "format": _FORMAT,
        "options": {name: _to_json(value) for name, value in model.get_params().items()},
        "sites": list(model.sites_),
        "failed": model.failed_,
        "notes": model.notes_,
        "traffic": [model.traffic_.up, model.traffic_.down, model.traffic_.messages],
        "schema": "" if model.schema_ is None else model.schema_.to_toml(),
        "features": np.asarray(getattr(model, "feature_names_in_", [])).tolist(),
    }
    write_arrays(path, {"about": np.array(json.dumps(about)), **arrays})


def load(cls: type[CoresetClassifier], path: str | Path) -> CoresetClassifier:
    """Read what `save` wrote; InputError for anything else."""
    arrays = read_arrays(path)
    try:
        about = json.loads(str(arrays.pop("about", "null")))
    except ValueError:
        about = None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise InputError(f"{path} is not a saved classifier; give a file written by `save`.")
    try:
        model = cls(**about["options"])
        for name in _ARRAYS:
            setattr(model, name, arrays[name])
        model.sites_ = tuple(about["sites"])
        model.failed_, model.notes_ = about["failed"], about["notes"]
        model.traffic_ = Traffic(*about["traffic"])
        model.n_features_in_ = model.points_.shape[1]
        schema = about.get("schema", "")
        model.schema_ = Schema.from_toml(schema) if schema else None
        if about["features"]:
            model.feature_names_in_ = np.array(about["features"], dtype=object)
        if not _is_consistent(model):
            raise ValueError("inconsistent arrays")
    except (KeyError, TypeError, ValueError, IndexError):
        raise InputError(
            f"{path} is damaged: parts of the classifier are missing or were changed."
        ) from None
    return model


def _is_consistent(model: CoresetClassifier) -> bool:
    """Whether the shapes, types and indices of the arrays fit each other."""
    points, weights, labels, owners = (getattr(model, name) for name in _ARRAYS[:4])
    return bool(
        len(points) > 0
        and points.dtype == weights.dtype == np.float64
        and np.isfinite(points).all()
        and weights.shape == labels.shape == owners.shape == (len(points),)
        and 0 <= labels.min() <= labels.max() < len(model.classes_)
        and 0 <= owners.min() <= owners.max() < len(model.sites_)
    )


def _to_json(value: Any) -> Any:
    """A NumPy number as a Python number, and a privacy guarantee as a dictionary."""
    if isinstance(value, DP):
        return value.to_dict()
    return value.item() if isinstance(value, np.generic) else value
