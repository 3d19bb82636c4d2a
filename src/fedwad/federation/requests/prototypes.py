"""A few labelled points that stand for a client's data: all that a nearest-neighbour classifier
needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_whole
from fedwad.federation.message import Reply, Request, check_weights, is_finite, plain_word, require
from fedwad.federation.requests.labels import (
    LabelName,
    check_names,
    label_names,
    may_tell_names,
    too_few,
)
from fedwad.ot import Floats, Masses, Per, distil_labelled, large_classes

if TYPE_CHECKING:
    from fedwad.federation.context import ClientContext
    from fedwad.federation.policy import Policy

__all__ = ["Prototypes", "PrototypesRequest"]


@dataclass(frozen=True, eq=False)
class Prototypes(Reply):
    """Atoms of a client's data.

    Attributes
    ----------
    points, weights : arrays (S, d) and (S,)
        The atoms and their masses, sum one.
    labels : array (S,) of int64
        The place of each atom's label in `names`.
    names : tuple
        Names of the client's labels, in ascending order.
    complete : bool
        False when classes were left out that have fewer samples than the client's policy asks for.
    """

    points: Floats
    weights: Floats
    labels: NDArray[np.int64]
    names: tuple[LabelName, ...]
    complete: bool

    def check_alone(self) -> None:
        require(is_finite(self.points, 2) and self.points.size > 0, "atoms are not finite.")
        check_weights(self.weights, len(self.points))
        check_names(self.names)
        require(list(self.names) == sorted(self.names), "names of labels are not in order.")
        proper = isinstance(self.labels, np.ndarray) and self.labels.dtype == np.int64
        require(proper and self.labels.shape == self.weights.shape, "it does not label each atom.")
        require(
            int(self.labels.min()) >= 0 and int(self.labels.max()) < len(self.names),
            "labels are out of range.",
        )
        require(type(self.complete) is bool, "it does not say whether classes are left out.")


@dataclass(frozen=True)
class PrototypesRequest(Request):
    """Distil the samples to `size` atoms, class by class or all together, and label each.

    See `fedwad.ot.distil_labelled`. Each atom averages at least as many samples as the policy's
    smallest cell, which may leave fewer atoms than asked for; smaller classes are left out. One
    atom a class is told at least.
    """

    kind: ClassVar[str] = "prototypes"
    lasting: ClassVar[bool] = True
    answer: ClassVar[type[Reply]] = Prototypes
    size: int
    per: Per
    weights: Masses
    seed: int

    def validate(self) -> PrototypesRequest:
        return PrototypesRequest(
            check_whole(self.size, "size"),
            plain_word(self.per, "per", get_args(Per)),
            plain_word(self.weights, "weights", get_args(Masses)),
            check_whole(self.seed, "seed", 0),
        )

    def admit(self, policy: Policy) -> None:
        may_tell_names(policy)
        policy.check_size(self.size)

    def execute(self, context: ClientContext) -> tuple[Prototypes, int]:
        names, measure, codes = (
            label_names(context.data),
            context.data.measure,
            context.data.known_labels(),
        )
        floor = context.policy.min_cell_size
        known = large_classes(measure, codes, floor)
        if not len(known):
            raise too_few(context.policy)
        if self.per == "class":
            context.policy.check_size(
                len(known)
            )  # one atom a class at least, however few were asked for
        atoms = distil_labelled(measure, codes, self.size, self.per, self.weights, floor, self.seed)
        told = sorted(names[code] for code in known)
        place = {code: told.index(names[code]) for code in known.tolist()}
        labels = np.array([place[code] for code in atoms.codes.tolist()], dtype=np.int64)
        return Prototypes(
            atoms.points, atoms.weights, labels, tuple(told), atoms.complete
        ), atoms.min_cell_size

    def check(self, reply: Prototypes) -> None:
        most = self.size if self.per == "client" else max(self.size, len(reply.names))
        require(len(reply.points) <= most, "it has more atoms than were asked for.")
