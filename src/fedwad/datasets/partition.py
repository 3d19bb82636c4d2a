"""Partitions of labelled data among clients, as in the experiments of the paper and of federated
learning.

Each takes samples X (n, ...) and labels y (n,) of any type, is random by its seed alone, never
gives a sample to two clients, and returns a `Partition`: a mapping from client names to (X, y) with
the true `groups` and the `indices`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_flag, check_integer
from fedwad.datasets._partition import Labelled, Partition
from fedwad.errors import InputError

__all__ = ["by_size", "class_pairs", "classes_per_client", "dirichlet", "random_pairs"]

_DRAWS = 100  # of Dirichlet proportions, before we say that they do not fit the data


def class_pairs(
    X: Any,
    y: Any,
    clients: int = 20,
    samples: int | None = 300,
    seed: int = 0,
    *,
    balanced: bool = False,
) -> Partition:
    """Clients in groups, one for each pair of classes that follow one another: (0, 1), (2, 3), ...
    (8, 9).

    Every pair has two clients; the others choose a pair at random, as in the paper. With
    `balanced`, pairs have equally many clients, to within one. The clients of a pair follow one
    another, and `groups` numbers the pairs.

    Parameters
    ----------
    X, y : samples and labels; the number of different labels must be even
    clients : at least twice the number of pairs
    samples : of each client, half of them from either class; None deals out everything

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
    data, rng = Labelled(X, y), _generator(seed)
    kinds = len(data.classes)
    if kinds % 2:
        raise InputError(
            f"y has {kinds} different labels, which make no pairs; leave one class out."
        )
    pairs, clients = kinds // 2, check_integer(clients, "clients")
    if clients < 2 * pairs:
        raise InputError(
            f"{pairs} pairs of classes need at least {2 * pairs} clients; {clients} were asked for."
        )
    if balanced:
        groups = np.arange(clients) % pairs
    else:
        groups = np.concatenate(
            [np.repeat(np.arange(pairs), 2), rng.integers(pairs, size=clients - 2 * pairs)]
        )
    groups = np.sort(groups)
    holds = np.arange(kinds) // 2 == groups[:, None]
    return data.assign(_demand(holds, samples, data), groups, rng)


def random_pairs(
    X: Any,
    y: Any,
    clients: int = 20,
    samples: int | None = 300,
    seed: int = 0,
    *,
    balanced: bool = False,
) -> Partition:
    """Each client has two classes, drawn at random: the paper's setting without cluster structure.

    Equal to `classes_per_client` with two classes.
    """
    return classes_per_client(X, y, 2, clients, samples, seed, balanced=balanced)


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
    """Each client has the given number of classes, drawn at random without replacement.

    Clients with the same classes are one group; groups are numbered as they first occur.

    Parameters
    ----------
    X, y : samples and labels
    classes : how many different labels a client has
    clients : how many clients
    samples : of each client, equally many from each of its classes to within one; None deals out
        everything that is of a class that was drawn
    balanced : draw among the classes that were drawn least so far, so that each class is held by
        equally many clients to within one; without it, a class may be asked for more samples than
        it has
    """
    balanced = check_flag(balanced, "balanced")
    data, rng = Labelled(X, y), _generator(seed)
    kinds, classes, clients = (
        len(data.classes),
        check_integer(classes, "classes"),
        check_integer(clients, "clients"),
    )
    if classes > kinds:
        raise InputError(
            f"y has {kinds} different labels and {classes} were asked for each client; ask for"
            " fewer."
        )
    holds = np.zeros((clients, kinds), dtype=bool)
    for client in range(clients):
        held = holds.sum(axis=0) if balanced else np.zeros(kinds)
        holds[client, np.argsort(held + rng.random(kinds))[:classes]] = True
    _, first, groups = np.unique(holds, axis=0, return_index=True, return_inverse=True)
    renumbered = np.argsort(np.argsort(first))
    return data.assign(_demand(holds, samples, data), renumbered[groups.reshape(-1)], rng)


def dirichlet(
    X: Any, y: Any, alpha: float = 0.5, clients: int = 20, samples: int | None = 300, seed: int = 0
) -> Partition:
    """Class proportions drawn from a Dirichlet distribution.

    With small alpha a client has few classes; with large alpha all clients are similar.

    With `samples`, client i draws its own proportions q_i ~ Dirichlet(alpha, ..., alpha) over the
    classes, and its class counts are multinomial(samples, q_i) (Hsu, Qi and Brown 2019). With
    samples=None all samples are assigned: class c draws proportions over the clients, r_c ~
    Dirichlet(alpha, ..., alpha), and is divided by them (Yurochkin et al. 2019). Proportions that a
    class has too few samples for, or that leave a client empty, are drawn again, up to 100 times.
    Every client has a distribution of its own, so every client is a group of its own.
    """
    data, rng = Labelled(X, y), _generator(seed)
    clients, kinds = check_integer(clients, "clients"), len(data.classes)
    _check_alpha(alpha)
    wanted = clients * (1 if samples is None else check_integer(samples, "samples"))
    if wanted > len(data.y):
        raise InputError(
            f"The clients need {wanted} samples and there are {len(data.y)}; ask for fewer."
        )
    for _ in range(_DRAWS):
        if samples is None:
            reached = np.cumsum(rng.dirichlet(np.full(clients, alpha), size=kinds), axis=1)
            ends = np.rint(reached / reached[:, -1:] * data.supply[:, None]).astype(np.int64)
            demand = np.diff(ends, prepend=0, axis=1).T
        else:
            demand = rng.multinomial(samples, rng.dirichlet(np.full(kinds, alpha), size=clients))
        if (demand.sum(axis=0) <= data.supply).all() and demand.sum(axis=1).all():
            return data.assign(demand, np.arange(clients), rng)
    raise InputError(
        f"{_DRAWS} draws of Dirichlet({alpha:g}) proportions did not fit {clients} clients to these"
        f" {len(data.y)} samples; ask for fewer clients or samples, or a larger alpha."
    )


def _check_alpha(alpha: Any) -> None:
    number = isinstance(alpha, int | float | np.number) and not isinstance(alpha, bool)
    if not number or not 0 < alpha <= 1e9:
        shown = repr(alpha) if np.isscalar(alpha) else f"a {type(alpha).__name__}"
        raise InputError(f"alpha is {shown}; give a number above 0 and up to 1e9.")


def by_size(X: Any, y: Any, sizes: Iterable[int], seed: int = 0) -> Partition:
    """Clients that draw from the same distribution and differ only in size: one group.

    Parameters
    ----------
    X, y : samples and labels
    sizes : how many samples each client has
    """
    data, rng = Labelled(X, y), _generator(seed)
    try:
        listed = list(sizes)
    except TypeError:
        raise InputError(
            f"sizes is a {type(sizes).__name__}; give a list with the size of each client."
        ) from None
    counts = [check_integer(size, "A size") for size in listed]
    if not counts:
        raise InputError("sizes is empty; give the size of each client.")
    if sum(counts) > len(data.y):
        raise InputError(
            f"The clients need {sum(counts)} samples and there are {len(data.y)}; ask for fewer."
        )
    rows = np.split(rng.permutation(len(data.y)), np.cumsum(counts))[:-1]
    return Partition(data, rows, np.zeros(len(counts), dtype=np.int64))


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(check_integer(seed, "seed", 0))


def _demand(holds: NDArray[np.bool_], samples: int | None, data: Labelled) -> NDArray[np.int64]:
    """How many samples of each class each client takes, given which classes it holds."""
    if samples is None:
        holders = holds.sum(axis=0)
        few = np.flatnonzero(holders > data.supply)
        if len(few):
            raise InputError(
                f"Class {data.classes[few[0]]} has {data.supply[few[0]]} samples for"
                f" {holders[few[0]]} clients;"
                " ask for fewer clients."
            )
        return _evenly(holds.T, data.supply).T
    classes = int(holds[0].sum())
    if check_integer(samples, "samples") < classes:
        raise InputError(
            f"{samples} samples cannot hold {classes} classes; ask for at least {classes}."
        )
    return _evenly(holds, np.full(len(holds), samples))


def _evenly(holds: NDArray[np.bool_], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Divide each row's amount among its marked cells, to within one; the first ones get the
    remainder."""
    share, rest = np.divmod(amounts, np.maximum(holds.sum(axis=1), 1))
    rank = np.cumsum(holds, axis=1) - 1
    return np.where(holds, share[:, None] + (rank < rest[:, None]), 0).astype(np.int64)
