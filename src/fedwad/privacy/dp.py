"""The guarantee of a release: epsilon, delta, and what is public about the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any

import numpy as np

from fedwad.errors import InputError
from fedwad.privacy._mechanism import check_budget, is_number, mu_of
from fedwad.tables import Schema
from fedwad.transport import Floats

MOST_CLASSES = 1000  # a limit of memory


@dataclass(frozen=True, eq=False)
class DP:
    """Differential privacy for one release: (epsilon, delta) for each record, against anyone who
    sees it, whatever else they know.

    Parameters
    ----------
    epsilon : the guarantee of this release
    clip_norm : samples farther than this from the centre are moved to this distance. It is public:
        choose it from what the features can be, never from the data. Distances of plain features
        have histograms over this range. For tables with a public schema it may be left out:
        histograms follow from the schema, and a classifier takes twice the typical distance of a
        row (`Schema.clip_norm`).
    delta : the guarantee's delta, well below one over the number of samples
    centre : public point around which samples are clipped: one number for all features, or one for
        each; when left out, that of the schema (`Schema.centre`), or 0
    labels : public names of classes, for labelled data. The release then contains noisy means and
        shares of these classes and can train a classifier; samples of other classes count in the
        moments alone.

    Examples
    --------
    >>> import fedwad
    >>> fedwad.DP(epsilon=1, clip_norm=10)
    DP(epsilon=1, delta=1e-05, clip_norm=10)
    >>> import pyarrow as pa
    >>> text = 'version = 1\\n[columns.age]\\nkind = "number"\\nrange = [0, 100]'
    >>> ages = {"paris": pa.table({"age": [41, 52] * 99}), "oslo": pa.table({"age": [9, 27] * 99})}
    >>> fed = fedwad.local(ages, schema=fedwad.Schema.from_toml(text, public=True))
    >>> fedwad.distance(fed["paris"], fed["oslo"], privacy=fedwad.DP(1)).privacy["clip_norm"]
    2.0
    """

    epsilon: float
    _: KW_ONLY
    clip_norm: float | None = None
    delta: float = 1e-5
    centre: Any = None
    labels: Any = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        norm = self.clip_norm
        if norm is not None and (not is_number(norm) or not 1e-100 < norm < 1e100):
            raise InputError(
                f"clip_norm is {self.clip_norm!r}; give the largest distance of a sample from the"
                " centre, from public knowledge about the features.",
                "bad-option",
            )
        if self.centre_point.ndim != 1:
            raise InputError(
                "centre must be one number, or one number for each feature.", "bad-option"
            )
        if self.labels is None:
            return
        is_list = np.iterable(self.labels) and not isinstance(self.labels, str)
        if not is_list or not 1 <= len(self.class_names) <= MOST_CLASSES:
            raise InputError(
                f"labels must be a list of one to {MOST_CLASSES} public names of classes.",
                "bad-option",
            )

    def __repr__(self) -> str:
        norm = "" if self.clip_norm is None else f", clip_norm={self.clip_norm:g}"
        return f"DP(epsilon={self.epsilon:g}, delta={self.delta:g}{norm})"

    def completed(self, schema: Schema | None) -> DP:
        """This DP with the clip norm and the centre of a public schema, where they were left out.

        InputError if neither has a clip norm.
        """
        norm, centre = self.clip_norm, self.centre
        if schema is not None and schema.public:
            norm = schema.clip_norm if norm is None else norm
            centre = schema.centre if centre is None else centre
        if norm is None:
            raise InputError(
                "epsilon came without clip_norm, the largest distance of a sample from the centre;"
                " give it from public knowledge, or give a schema file, which has one.",
                "missing-option",
            )
        return replace(self, clip_norm=norm, centre=0.0 if centre is None else centre)

    @property
    def mu(self) -> float:
        """The privacy loss mu of the release; see `fedwad.privacy.mu_of`."""
        return mu_of(self.epsilon, self.delta)

    @property
    def centre_point(self) -> Floats:
        """The centre as an array, of one number if it is the same for all features."""
        try:
            array = np.array(0.0 if self.centre is None else self.centre, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                "centre contains something that is not a number; give numbers only.", "bad-option"
            ) from None
        if not np.isfinite(array).all() or array.size == 0 or np.abs(array).max() > 1e100:
            raise InputError(
                "centre must be finite numbers, one or more, of up to 1e100.", "bad-option"
            )
        return np.atleast_1d(array)

    @property
    def class_names(self) -> tuple[Any, ...]:
        """The public names of classes; empty without labels."""
        names = () if self.labels is None else self.labels
        return tuple(name.item() if isinstance(name, np.generic) else name for name in names)

    def to_dict(self) -> dict[str, Any]:
        """Numbers and strings from which `DP.of` builds an equal DP."""
        return {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "clip_norm": None if self.clip_norm is None else float(self.clip_norm),
            "centre": None if self.centre is None else self.centre_point.tolist(),
            **({} if self.labels is None else {"labels": list(self.class_names)}),
        }

    @classmethod
    def of(cls, given: Any) -> DP:
        """A DP from a DP, or from the mapping that `to_dict` returns."""
        if isinstance(given, DP):
            return given
        names = {field.name for field in fields(cls)}
        if not isinstance(given, Mapping) or not {"epsilon"} <= set(given) <= names:
            raise InputError(
                f"privacy is a {type(given).__name__}; give fedwad.DP(epsilon=..., clip_norm=...).",
                "bad-option",
            )
        return cls(**given)
