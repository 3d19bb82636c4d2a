"""A release under differential privacy: noisy moments and cells, paid for out of the client's
budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import InputError, PolicyError
from fedwad.federation.context import ClientContext, check_releasable
from fedwad.federation.message import Reply, Request, is_count, is_finite, require
from fedwad.federation.needs import Needs
from fedwad.federation.policy import Policy
from fedwad.federation.requests.labels import LabelName, check_names, label_names
from fedwad.ot import Floats
from fedwad.privacy import DP, Release, mu_of, release, split
from fedwad.tables import label_text

__all__ = ["PrivateReply", "PrivateRequest"]

_MAX_ABS = 1e150  # of a number in a release, so that products stay finite


@dataclass(frozen=True, eq=False)
class PrivateReply(Release, Reply):
    """A release as a reply; its fields are those of `fedwad.privacy.Release`."""

    def check_values(self) -> None:
        require(is_count(self.count), "samples are not counted by a positive integer.")
        require(
            _is_positive(self.clip_norm) and _is_positive(self.whitened_clip_norm),
            "a clip norm is not positive.",
        )
        d = len(self.mean) if is_finite(self.mean, 1) else 0
        vectors = (self.origin, self.first_mean, self.centre, self.mean)
        require(d > 0 and _have_shape(vectors, (d,)), "means are not finite.")
        matrices = (self.first_second, self.whitening, self.second)
        require(_have_shape(matrices, (d, d)), "moments are not finite.")
        count = len(self.centres)
        cells = _have_shape((self.centres, self.sums), (count, d))
        require(cells and _have_shape((self.masses,), (count,)), "cells are not finite.")
        require(_have_shape((self.noise,), (3,)), "the noise is not given.")
        noise = bool((self.noise >= 0).all()) and bool((self.noise[:2] > 0).all())
        require(noise, "the noise is not given.")
        largest = (
            np.abs(one).max(initial=0.0) for one in (*vectors, *matrices, self.masses, self.sums)
        )
        require(max(largest) < _MAX_ABS, "its numbers are too large.")
        spectrum = np.abs(np.linalg.eigvalsh((self.whitening + self.whitening.T) / 2))
        singular = float(spectrum.min()) <= 1e-14 * float(spectrum.max())
        require(not singular, "its whitening matrix is singular.")


@dataclass(frozen=True, eq=False)
class PrivateRequest(Request):
    """Ask for noisy moments and cells of the samples within `clip_norm` of `centre`.

    See `fedwad.privacy.release`. `cells` is the number of cells, or -1 to let the site choose it
    from public numbers. `centres` (S, d) are the centres of the cells, or an empty array (0, 0) to
    let the site choose them. With `labels` the cells are the classes of these public names.
    """

    kind: ClassVar[str] = "private"
    uses_budget: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = PrivateReply
    epsilon: float
    delta: float
    clip_norm: float
    centre: Floats
    cells: int
    centres: Floats
    labels: tuple[LabelName, ...] = ()

    @classmethod
    def of(cls, guarantee: DP) -> PrivateRequest:
        """The request for a release with this guarantee."""
        guarantee = guarantee.completed(None)
        centres = guarantee.own_centres
        return cls(
            float(guarantee.epsilon),
            float(guarantee.delta),
            float(guarantee.clip_norm or 0.0),
            guarantee.centre_point,
            guarantee.cell_count,
            np.zeros((0, 0)) if centres is None else centres,
            guarantee.class_names,
        )

    def validate(self) -> PrivateRequest:
        for number in (self.epsilon, self.delta, self.clip_norm):
            if type(number) is not float:
                raise InputError("epsilon, delta and clip_norm must be numbers.")
        are_arrays = _is_array(self.centre) and _is_array(self.centres)
        if type(self.cells) is not int or not are_arrays:
            raise InputError("centre and cells must be numbers.")
        guarantee = partial(
            DP,
            self.epsilon,
            delta=self.delta,
            clip_norm=self.clip_norm,
            centre=np.array(self.centre),
        )
        if self.labels != ():
            self._check_labels()
            return PrivateRequest.of(guarantee(labels=self.labels))
        if self.centres.size == 0:
            return PrivateRequest.of(guarantee(cells="auto" if self.cells == -1 else self.cells))
        if len(self.centres) != self.cells:
            raise InputError("cells must be as many as their centres.")
        return PrivateRequest.of(guarantee(cells=np.array(self.centres)))

    def _check_labels(self) -> None:
        check_names(self.labels)
        if self.centres.size > 0 or self.cells != len(self.labels):
            raise InputError("cells must be the classes where labels are asked for.")

    def needs(self) -> Needs:
        return Needs(
            size=self.cells if self.cells > 0 else None, mu=mu_of(self.epsilon, self.delta)
        )

    def check_shape(self, context: ClientContext) -> None:
        measure = context.data.measure
        d = measure.dimension
        if len(self.centre) not in (1, d) or (self.centres.size and self.centres.shape[1] != d):
            raise InputError(
                "The centre or the cells have a different number of features than the data, which"
                f" have {d}."
            )
        if context.policy.is_private:  # the data were checked when the client was opened
            self._check_public_names(context.policy)
            return
        check_releasable(measure)
        if self.labels:
            label_names(context.data)  # InputError if there are none

    def _check_public_names(self, policy: Policy) -> None:
        public = {(type(name), name) for name in policy.label_names}
        if not {(type(name), name) for name in self.labels} <= public:
            raise PolicyError(
                "Classes were asked for that are not among the label_names of this site's policy."
            )

    def execute(self, context: ClientContext) -> tuple[PrivateReply, None]:
        points = context.data.measure.points
        n, d = points.shape
        mu = mu_of(self.epsilon, self.delta)
        context.accountant.spend(mu)  # on disk before the noise is drawn
        noisy = release(
            points,
            self.clip_norm,
            np.resize(self.centre, d),
            self.centres if self.centres.size else None,
            split(n, d, mu, self.cells),
            classes=self._class_indices(context),
        )
        return PrivateReply(**vars(noisy)), None

    def check(self, reply: PrivateReply) -> None:
        require(reply.clip_norm == self.clip_norm, "it is about another clip_norm.")
        if self.cells >= 0:
            require(len(reply.centres) <= self.cells, "it has more cells than were asked for.")
        if self.labels:
            require(len(reply.centres) == len(self.labels), "it leaves out a class.")

    def _class_indices(self, context: ClientContext) -> NDArray[np.int64] | None:
        """The index of each sample's label among the public names, -1 for other labels; None if no
        labels are asked for."""
        if not self.labels:
            return None
        code_of = {label_text(name): index for index, name in enumerate(self.labels)}
        names = context.data.names
        # Padded, so that the time does not reveal how many classes the data have.
        padding = [None] * (len(context.policy.label_names) + 1 - len(names))
        texts = map(label_text, (*names, *padding))
        codes = np.array([code_of.get(text, -1) for text in texts], dtype=np.int64)
        return np.asarray(codes[context.data.require_class_codes()])


def _is_array(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype == np.float64


def _is_positive(number: Any) -> bool:
    return type(number) is float and 0 < number < _MAX_ABS


def _have_shape(arrays: tuple[Floats, ...], shape: tuple[int, ...]) -> bool:
    return all(is_finite(array, len(shape)) and array.shape == shape for array in arrays)
