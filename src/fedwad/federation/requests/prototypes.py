"""A few labelled points that represent the data, for a nearest-neighbour classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer
from fedwad.federation.context import ClientContext
from fedwad.federation.message import (
    Reply,
    Request,
    check_weights,
    is_finite,
    plain_choice,
    require,
)
from fedwad.federation.needs import Needs
from fedwad.federation.requests.labels import LabelName, allowed_classes, check_names, label_names
from fedwad.ot import AtomsPer, Floats, Masses, distil_labelled

__all__ = ["Prototypes", "PrototypesRequest"]


@dataclass(frozen=True, eq=False)
class Prototypes(Reply):
    """Atoms of a client's data.

    Attributes
    ----------
    points, weights : arrays (S, d) and (S,)
        The atoms and their masses, sum one.
    labels : array (S,) of int64
        The index of each atom's label in `names`.
    names : tuple
        Names of the labels that the client sends, in ascending order.
    complete : bool
        Whether all classes are here; False if some had too few samples for the client's policy.
    """

    points: Floats
    weights: Floats
    labels: NDArray[np.int64]
    names: tuple[LabelName, ...]
    complete: bool

    def check_values(self) -> None:
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
    """Ask for `size` labelled atoms of the samples, made class by class or from all together.

    See `fedwad.ot.distil_labelled`. Each atom averages at least `min_cell_size` samples, so there
    may be fewer atoms than asked for. Classes with fewer samples are left out. If atoms are made
    class by class, every other class has at least one.
    """

    kind: ClassVar[str] = "prototypes"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = Prototypes
    size: int
    atoms_per: AtomsPer
    masses: Masses
    seed: int

    def validate(self) -> PrototypesRequest:
        return PrototypesRequest(
            check_integer(self.size, "size"),
            plain_choice(self.atoms_per, "atoms_per", get_args(AtomsPer)),
            plain_choice(self.masses, "masses", get_args(Masses)),
            check_integer(self.seed, "seed", 0),
        )

    def needs(self) -> Needs:
        return Needs(size=self.size, label_names=True)

    def execute(self, context: ClientContext) -> tuple[Prototypes, int]:
        names, allowed = label_names(context.data), allowed_classes(context)
        measure, codes = context.data.measure, context.data.require_class_codes()
        min_size = context.policy.min_cell_size
        if self.atoms_per == "class":  # at least one atom a class, however few were asked for
            context.policy.check_size(len(allowed))
        atoms = distil_labelled(
            measure, codes, self.size, self.atoms_per, self.masses, min_size, self.seed
        )
        sent_names = tuple(sorted(names[code] for code in allowed))
        new_code = {code: sent_names.index(names[code]) for code in allowed.tolist()}
        labels = np.array([new_code[code] for code in atoms.codes.tolist()], dtype=np.int64)
        reply = Prototypes(atoms.points, atoms.weights, labels, sent_names, atoms.complete)
        return reply, atoms.min_cell_size

    def check(self, reply: Prototypes) -> None:
        limit = self.size if self.atoms_per == "site" else max(self.size, len(reply.names))
        require(len(reply.points) <= limit, "it has more atoms than were asked for.")
