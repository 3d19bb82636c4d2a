"""One release under differential privacy: noisy moments and cells, paid for out of the client's
budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError
from fedwad.federation.message import Reply, Request, is_count, is_finite, require
from fedwad.federation.requests.labels import LabelName, check_names, label_names
from fedwad.ot import Floats
from fedwad.privacy import DP, MOST_FEATURES, Release, mu_of, release, split

if TYPE_CHECKING:
    from fedwad.federation.context import ClientContext
    from fedwad.federation.policy import Policy

__all__ = ["PrivateReply", "PrivateRequest"]

_LARGEST = 1e150  # of any number, so that products stay finite


@dataclass(frozen=True, eq=False)
class PrivateReply(Release, Reply):
    """A release: noisy numbers alone, and what is public about them."""

    def check_alone(self) -> None:
        require(is_count(self.count), "samples are not counted by a positive whole number.")
        require(
            all(_positive(size) for size in (self.clip_norm, self.whitened_clip_norm)),
            "a clip norm is not positive.",
        )
        d = len(self.mean) if is_finite(self.mean, 1) else 0
        vectors = (self.origin, self.first_mean, self.centre, self.mean)
        require(
            d > 0 and all(is_finite(one, 1) and one.shape == (d,) for one in vectors),
            "means are not finite.",
        )
        matrices = (self.first_second, self.whitening, self.second)
        require(
            all(is_finite(one, 2) and one.shape == (d, d) for one in matrices),
            "moments are not finite.",
        )
        count = len(self.centres)
        cells = is_finite(self.centres, 2) and self.centres.shape == (count, d)
        cells = cells and is_finite(self.sums, 2) and self.sums.shape == (count, d)
        require(
            cells and is_finite(self.masses, 1) and self.masses.shape == (count,),
            "cells are not finite.",
        )
        require(is_finite(self.noise, 1) and self.noise.shape == (3,), "the noise is not told.")
        require(
            bool((self.noise >= 0).all()) and bool((self.noise[:2] > 0).all()),
            "the noise is not told.",
        )
        numbers = (*vectors, *matrices, self.masses, self.sums)
        require(
            all(np.abs(one).max(initial=0.0) < _LARGEST for one in numbers),
            "its numbers are too large.",
        )
        spectrum = np.abs(np.linalg.eigvalsh((self.whitening + self.whitening.T) / 2))
        require(float(spectrum.min()) > 1e-14 * float(spectrum.max()), "its frame is flat.")


@dataclass(frozen=True, eq=False)
class PrivateRequest(Request):
    """Noisy moments and cells of the samples within `clip_norm` of `centre`, see
    `fedwad.privacy.release`.

    `cells` is -1 for as many as pay, or a number; `centres` (S, d) are those cells' own, or (0, 0).
    With `labels` the classes of these public names are the cells.
    """

    kind: ClassVar[str] = "private"
    answer: ClassVar[type[Reply]] = PrivateReply
    epsilon: float
    delta: float
    clip_norm: float
    centre: Floats
    cells: int
    centres: Floats
    labels: tuple[LabelName, ...] = ()

    @classmethod
    def of(cls, promise: DP) -> PrivateRequest:
        """The request that asks for this promise."""
        own = promise.own_centres
        return cls(
            float(promise.epsilon),
            float(promise.delta),
            float(promise.clip_norm),
            promise.centre_point,
            promise.cell_count,
            np.zeros((0, 0)) if own is None else own,
            promise.class_names,
        )

    def validate(self) -> PrivateRequest:
        for number in (self.epsilon, self.delta, self.clip_norm):
            if type(number) is not float:
                raise InputError("epsilon, delta and clip_norm must be numbers.")
        if type(self.cells) is not int or not all(
            _plain(one) for one in (self.centre, self.centres)
        ):
            raise InputError("centre and cells must be numbers.")
        own = self.centres.size > 0
        if self.labels != ():
            check_names(self.labels)
            if own or self.cells != len(self.labels):
                raise InputError("cells must be the classes where labels are asked for.")
            promise = DP(
                self.epsilon, self.delta, self.clip_norm, np.array(self.centre), labels=self.labels
            )
            return PrivateRequest.of(promise)
        if own and len(self.centres) != self.cells:
            raise InputError("cells must be as many as their centres.")
        cells = np.array(self.centres) if own else "auto" if self.cells == -1 else self.cells
        return PrivateRequest.of(
            DP(self.epsilon, self.delta, self.clip_norm, np.array(self.centre), cells)
        )

    def admit(self, policy: Policy) -> None:
        if self.cells > 0:
            policy.check_size(self.cells)

    def check_shape(self, context: ClientContext) -> None:
        measure = context.data.measure
        d = measure.dimension
        if len(self.centre) not in (1, d) or (self.centres.size and self.centres.shape[1] != d):
            raise InputError(
                f"The centre or the cells have another number of features than the data, which have {d}."
            )
        if d > MOST_FEATURES:
            raise InputError(
                f"The data have {d} features; private releases are made of up to {MOST_FEATURES}: reduce them first, by"
                " a map that is public (a random projection, say)."
            )
        if not measure.is_uniform:
            raise InputError(
                "The samples have unequal weights; private releases are made of samples of equal ones."
            )
        if self.labels:
            label_names(context.data)  # says what is wrong with them
        if context.accountant.kept(self._bytes) is None:
            context.accountant.check(mu_of(self.epsilon, self.delta))

    def execute(self, context: ClientContext) -> tuple[PrivateReply, None]:
        from fedwad.federation.codec import (
            Envelope,
            pack,
            unpack,
        )  # which knows all requests, this one too

        kept = context.accountant.kept(self._bytes)
        if kept is not None:
            told: Any = unpack(kept).content
            if type(told) is PrivateReply:
                return told, None
        points = context.data.measure.points
        n, d = points.shape
        mu = mu_of(self.epsilon, self.delta)
        context.accountant.spend(mu)  # on disk before the noise is drawn
        own = self.centres if self.centres.size else None
        plan = split(n, d, mu, self.cells)
        found = release(
            points,
            self.clip_norm,
            np.resize(self.centre, d),
            own,
            plan,
            classes=self._classes(context),
        )
        reply = PrivateReply(**vars(found))
        context.accountant.keep(self._bytes, pack(Envelope(reply)))
        return reply, None

    def check(self, reply: PrivateReply) -> None:
        require(reply.clip_norm == self.clip_norm, "it is about another clip_norm.")
        if self.cells >= 0:
            require(len(reply.centres) <= self.cells, "it has more cells than were asked for.")
        if self.labels:
            require(len(reply.centres) == len(self.labels), "it does not tell each class.")

    def _classes(self, context: ClientContext) -> NDArray[np.int64] | None:
        """The place of each sample's label among the public names, -1 for others; None where none
        are asked for."""
        if not self.labels:
            return None
        place = {name: index for index, name in enumerate(self.labels)}
        codes = np.array(
            [place.get(name, -1) for name in label_names(context.data)], dtype=np.int64
        )
        return np.asarray(codes[context.data.known_labels()])

    @property
    def _bytes(self) -> bytes:
        from fedwad.federation.codec import Envelope, pack

        return pack(Envelope(self))


def _plain(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype == np.float64


def _positive(number: Any) -> bool:
    return type(number) is float and 0 < number < _LARGEST
