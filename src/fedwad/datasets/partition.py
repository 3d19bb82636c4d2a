"""Partitions of labelled data among clients, as in the paper and in federated learning.

Each function takes samples X (n, ...) and labels y (n,) of any type, and returns a `Partition`: a
mapping from client names to (X, y) with the true `groups` and the `indices`. The seed alone decides
what is drawn at random. No sample is given to two clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_flag, check_integer, check_number
from fedwad.errors import InputError
from fedwad.transport import class_codes


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
                "The samples or labels are lists of different lengths; give arrays.", "ragged-rows"
            ) from None
        if self.X.ndim == 0 or self.y.ndim != 1 or len(self.X) != len(self.y):
            raise InputError(
                f"Samples of shape {self.X.shape} came with labels of shape {self.y.shape}; give"
                " one label per sample.",
                "wrong-shape",
            )
        if len(self.y) == 0:
            raise InputError("There are no samples to partition; give at least one.", "empty-table")
        self.codes = class_codes(self.y)
        self.classes = self.y[np.unique(self.codes, return_index=True)[1]]
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
                f" need {counts[:, worst].sum()} of them; ask for fewer samples or fewer clients.",
                "too-few-samples",
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
        other, rng = LabelledSamples(X, y), _generator(seed)
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
                f" {self.clients[empty[0]]} would have none; give more.",
                "too-few-samples",
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


def class_pairs(
    X: Any,
    y: Any,
    clients: int = 20,
    samples: int | None = 300,
    seed: int = 0,
    *,
    balanced: bool = False,
) -> Partition:
    """Groups of clients, each with one pair of successive classes: (0, 1), (2, 3), ... (8, 9).

    Every pair gets two clients, and the other clients choose a pair at random, as in the paper.
    With `balanced`, pairs get equally many clients, to within one. The clients of a pair are next
    to each other, and `groups` numbers the pairs.

    Parameters
    ----------
    X, y : samples and labels; the number of different labels must be even
    clients : number of clients, at least twice the number of pairs
    samples : number of samples of each client, half of them from either class, to within one;
        None assigns all samples

    Examples
    --------
    >>> from fedwad.datasets import load
    >>> p = class_pairs(*load("digits"), clients=12, samples=50, seed=0)
    >>> p.groups
    array([0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4])
    >>> X, y = p["client03"]
    >>> X.shape, sorted(set(y.tolist()))
    ((50, 64), [2, 3])
    """
    balanced = check_flag(balanced, "balanced")
    data, rng = LabelledSamples(X, y), _generator(seed)
    class_count = len(data.classes)
    if class_count % 2:
        raise InputError(
            f"y has {class_count} different labels, which make no pairs; leave one class out.",
            "no-partition",
        )
    pairs, clients = class_count // 2, check_integer(clients, "clients")
    if clients < 2 * pairs:
        raise InputError(
            f"{pairs} pairs of classes need at least {2 * pairs} clients; {clients} were asked"
            " for.",
            "no-partition",
        )
    if balanced:
        groups = np.arange(clients) % pairs
    else:
        groups = np.concatenate(
            [np.repeat(np.arange(pairs), 2), rng.integers(pairs, size=clients - 2 * pairs)]
        )
    groups = np.sort(groups)
    has_class = np.arange(class_count) // 2 == groups[:, None]
    return data.assign(_class_counts(has_class, samples, data), groups, rng)


def classes_per_client(
    X: Any,
    y: Any,
    classes: int = 2,
    clients: int = 20,
    samples: int | None = 300,
    seed: int = 0,
    *,
    balanced: bool = False,
) -> Partition:
    """The given number of random classes for each client, drawn without replacement.

    With two of them it is the paper's setting without cluster structure.

    Clients with the same classes are one group; groups are numbered as they first occur.

    Parameters
    ----------
    X, y : samples and labels
    classes : number of classes of each client
    clients : number of clients
    samples : number of samples of each client, equally many from each of its classes to within
        one; None assigns all samples of the classes that were drawn
    balanced : draw among the classes that were drawn least so far, so that equally many clients
        have each class, to within one. Without it, clients may need more samples of a class than
        there are, which is an error.
    """
    balanced = check_flag(balanced, "balanced")
    data, rng = LabelledSamples(X, y), _generator(seed)
    classes, clients = check_integer(classes, "classes"), check_integer(clients, "clients")
    class_count = len(data.classes)
    if classes > class_count:
        raise InputError(
            f"y has {class_count} different labels and {classes} were asked for each client; ask"
            " for fewer.",
            "no-partition",
        )
    has_class = np.zeros((clients, class_count), dtype=bool)
    for client in range(clients):
        drawn = has_class.sum(axis=0) if balanced else np.zeros(class_count)
        has_class[client, np.argsort(drawn + rng.random(class_count))[:classes]] = True
    _, first, groups = np.unique(has_class, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return data.assign(_class_counts(has_class, samples, data), order[groups.reshape(-1)], rng)


def dirichlet(
    X: Any, y: Any, alpha: float = 0.5, clients: int = 20, samples: int | None = 300, seed: int = 0
) -> Partition:
    """Class proportions drawn from a Dirichlet distribution, a group for each client.

    With small alpha a client has few classes; with large alpha all clients are similar.

    With `samples`, client i draws its own proportions q_i ~ Dirichlet(alpha, ..., alpha) over the
    classes, and its class counts are multinomial(samples, q_i) (Hsu, Qi and Brown 2019). With
    samples=None all samples are assigned: class c draws proportions over the clients, r_c ~
    Dirichlet(alpha, ..., alpha), and is divided by them (Yurochkin et al. 2019). If a class has too
    few samples for the proportions, or a client gets none, all proportions are drawn again, 100
    times in all.
    """
    data, rng = LabelledSamples(X, y), _generator(seed)
    clients, class_count = check_integer(clients, "clients"), len(data.classes)
    alpha = min(check_number(alpha, "alpha", positive=True), 1e9)  # a larger one draws the same
    needed = clients * (1 if samples is None else check_integer(samples, "samples"))
    _check_total(needed, data)
    for _ in range(draws := 100):
        if samples is None:
            sums = np.cumsum(rng.dirichlet(np.full(clients, alpha), size=class_count), axis=1)
            stops = np.rint(sums / sums[:, -1:] * data.class_sizes[:, None]).astype(np.int64)
            counts = np.diff(stops, prepend=0, axis=1).T
        else:
            proportions = rng.dirichlet(np.full(class_count, alpha), size=clients)
            counts = rng.multinomial(samples, proportions)
        if (counts.sum(axis=0) <= data.class_sizes).all() and counts.sum(axis=1).all():
            return data.assign(counts, np.arange(clients), rng)
    raise InputError(
        f"{draws} draws of Dirichlet({alpha:g}) proportions did not fit {clients} clients to"
        f" these {len(data.y)} samples; ask for fewer clients or samples, or a larger alpha.",
        "no-partition",
    )


def by_size(X: Any, y: Any, sizes: Iterable[int], seed: int = 0) -> Partition:
    """Clients of one group, with random samples of all data, that differ only in size.

    Parameters
    ----------
    X, y : samples and labels
    sizes : number of samples of each client
    """
    data, rng = LabelledSamples(X, y), _generator(seed)
    listed = sizes if isinstance(sizes, Iterable) else []
    counts = [check_integer(size, "A size") for size in listed]
    if not counts:
        raise InputError("sizes is empty or no list; give the size of each client.", "bad-option")
    _check_total(sum(counts), data)
    rows = np.split(rng.permutation(len(data.y)), np.cumsum(counts))[:-1]
    return Partition(data, rows, np.zeros(len(counts), dtype=np.int64))


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(check_integer(seed, "seed", 0))


def _check_total(needed: int, data: LabelledSamples) -> None:
    if needed > len(data.y):
        raise InputError(
            f"The clients need {needed} samples and there are {len(data.y)}; ask for fewer.",
            "too-few-samples",
        )


def _class_counts(
    has_class: NDArray[np.bool_], samples: int | None, data: LabelledSamples
) -> NDArray[np.int64]:
    """How many samples of each class each client gets, given which classes it has."""
    if samples is None:
        clients = has_class.sum(axis=0)
        few = np.flatnonzero(clients > data.class_sizes)
        if len(few):
            raise InputError(
                f"Class {data.classes[few[0]]} has {data.class_sizes[few[0]]} samples for"
                f" {clients[few[0]]} clients; ask for fewer clients.",
                "too-few-samples",
            )
        return _divide_evenly(data.class_sizes, has_class.T).T
    classes = int(has_class[0].sum())
    if check_integer(samples, "samples") < classes:
        raise InputError(
            f"{samples} samples cannot hold {classes} classes; ask for at least {classes}.",
            "too-few-samples",
        )
    return _divide_evenly(np.full(len(has_class), samples), has_class)


def _divide_evenly(totals: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Divide the total of each row among the entries that the mask has there, to within one.

    The first entries get the remainder.
    """
    quotient, remainder = np.divmod(totals, np.maximum(mask.sum(axis=1), 1))
    rank = np.cumsum(mask, axis=1) - 1
    return np.where(mask, quotient[:, None] + (rank < remainder[:, None]), 0).astype(np.int64)
