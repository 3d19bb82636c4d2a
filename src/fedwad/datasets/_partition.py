"""Labelled data partitioned among clients: the result, and what all kinds of partition share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer
from fedwad.errors import InputError

__all__ = ["LabelledSamples", "Partition"]


class LabelledSamples:
    """Samples with one label each, of any type.

    `classes` are the different labels in order, `codes` the index of each sample's label among
    them, and `class_sizes` the number of samples of each class.
    """

    def __init__(self, X: Any, y: Any) -> None:
        try:
            self.X, self.y = np.asarray(X), np.asarray(y)
        except ValueError:
            raise InputError(
                "The samples or labels are lists of different lengths; give arrays."
            ) from None
        if self.X.ndim == 0 or self.y.ndim != 1 or len(self.X) != len(self.y):
            raise InputError(
                f"Samples of shape {self.X.shape} came with labels of shape {self.y.shape}; give"
                " one label per sample."
            )
        if len(self.y) == 0:
            raise InputError("There are no samples to partition; give at least one.")
        self.classes, self.codes = _encode_labels(self.y)
        if any(_is_missing(label) for label in self.classes):
            raise InputError(
                "Some labels are missing; leave those samples out, or give them a label of their"
                " own."
            )
        self.class_sizes = np.bincount(self.codes, minlength=len(self.classes))

    def assign(
        self, counts: NDArray[np.int64], groups: NDArray[np.int64], rng: np.random.Generator
    ) -> Partition:
        """Give client i counts[i, c] random samples of class c, no sample twice."""
        lack = counts.sum(axis=0) - self.class_sizes
        if lack.max() > 0:
            worst = int(np.argmax(lack))
            raise InputError(
                f"Class {self.classes[worst]} has {self.class_sizes[worst]} samples and the clients"
                f" need {counts[:, worst].sum()} of them; ask for fewer samples or fewer clients."
            )
        rows_of: list[list[NDArray[np.int64]]] = [[] for _ in counts]  # of each client, by class
        for code, class_counts in enumerate(counts.T):
            rows = rng.permutation(np.flatnonzero(self.codes == code))
            parts = np.split(rows, np.cumsum(class_counts))[:-1]  # the last part is left over
            for client_rows, part in zip(rows_of, parts, strict=True):
                client_rows.append(part)
        shuffled = [rng.permutation(np.concatenate(client_rows)) for client_rows in rows_of]
        return Partition(self, shuffled, groups)


class Partition(Mapping[str, tuple[NDArray[Any], NDArray[Any]]]):
    """Clients and their samples: a mapping from names to pairs (X, y), for `fedwad.local`.

    No two clients share a sample, and every client has at least one.

    Attributes
    ----------
    clients : names, "client0", "client1", ..., with as many digits as the last one needs
    indices : the rows of each client in the data that were partitioned, by name
    groups : the true group of each client, (clients,); clients of one group have the same
        distribution
    classes : the different labels, in order
    counts : how many samples of each class each client has, (clients, classes)
    """

    def __init__(
        self, data: LabelledSamples, rows: Sequence[NDArray[np.int64]], groups: NDArray[np.int64]
    ) -> None:
        width = len(str(len(rows) - 1))
        self._data = data
        self.indices = {f"client{k:0{width}d}": np.asarray(part) for k, part in enumerate(rows)}
        self.groups = np.asarray(groups, dtype=np.int64)
        self.classes = data.classes
        k = len(data.classes)
        self.counts = np.array([np.bincount(data.codes[part], minlength=k) for part in rows])

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self.indices)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many samples each client has, (clients,)."""
        return np.asarray(self.counts.sum(axis=1))

    def apply(self, X: Any, y: Any, seed: int = 0) -> Partition:
        """Partition other data, such as test samples, in the same proportions.

        The samples of each class go to the clients that have that class here, in proportion to how
        many they have; every sample of such a class is used. Classes that no client has are left
        out.
        """
        other, rng = LabelledSamples(X, y), np.random.default_rng(check_integer(seed, "seed", 0))
        code_of = {label: code for code, label in enumerate(self.classes)}
        counts = np.zeros((len(self), len(other.classes)), dtype=np.int64)
        for code, label in enumerate(other.classes):
            if label in code_of and self.counts[:, code_of[label]].any():
                own = self.counts[:, code_of[label]]
                stops = np.rint(np.cumsum(own) / own.sum() * other.class_sizes[code])
                counts[:, code] = np.diff(stops.astype(np.int64), prepend=0)
        empty = np.flatnonzero(counts.sum(axis=1) == 0)
        if len(empty):
            raise InputError(
                f"{len(other.y)} samples are too few to give every client some of its classes:"
                f" {self.clients[empty[0]]} would have none; give more."
            )
        return other.assign(counts, self.groups, rng)

    def __getitem__(self, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        rows = self.indices[name]
        return self._data.X[rows], self._data.y[rows]

    def __iter__(self) -> Iterator[str]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:  # no samples: what is printed may end up anywhere
        least, most = int(self.sizes.min()), int(self.sizes.max())
        each = f"{least} samples each" if least == most else f"{least} to {most} samples each"
        groups = len(np.unique(self.groups))
        return (
            f"Partition({len(self)} clients, {each}, {self.sizes.sum()} of {len(self._data.y)}"
            f" samples, {groups} group{'s' if groups > 1 else ''})"
        )

    __eq__ = object.__eq__  # comparing arrays element by element has no single answer
    __hash__ = object.__hash__


def _encode_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different labels in order, and the index of each sample's label among them."""
    if labels.dtype != object:
        classes, codes = np.unique(labels, return_inverse=True)
        return classes, np.asarray(codes, dtype=np.int64)
    try:
        values = set(labels.tolist())
    except TypeError:
        raise InputError(
            "Labels must be single values, such as numbers or words; give one per sample."
        ) from None
    try:
        ordered = sorted(values)
    except TypeError:  # labels of several types cannot be compared
        ordered = sorted(values, key=lambda value: (type(value).__name__, repr(value)))
    code_of = {value: code for code, value in enumerate(ordered)}
    classes = np.empty(len(ordered), dtype=object)
    classes[:] = ordered
    return classes, np.array([code_of[value] for value in labels.tolist()], dtype=np.int64)


def _is_missing(label: Any) -> bool:
    return label is None or (not isinstance(label, str) and str(label) in ("nan", "NaT", "<NA>"))
