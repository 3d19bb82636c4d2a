"""Requests about the samples of a site: a summary, transport to a support, sums over cells.

A TransportRequest is one round of FedWaD. A DistanceRequest is FedWaD's final message as in the
paper; a CellsRequest is one that tells more, or one round of a hub. An AtomsRequest is one round of
the coreset of all sites' data (method `union`): with atoms z_s, potentials g_s and entropic
regularisation e (`reg`), atom s receives of sample x_i the fraction

    p_is = exp(-(|x_i - z_s|^2 - g_s) / e) / sum_r exp(-(|x_i - z_r|^2 - g_r) / e),

and all of it goes to the smallest |x_i - z_s|^2 - g_s when e = 0. For any potentials p is a
transport plan from the data to the masses that the atoms receive. Every number in the reply is a
sum over samples, so the replies of many clients can be added before anybody sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedwad.errors import InputError
from fedwad.messages.message import (
    MAX_ABS,
    MAX_COUNT,
    AnySummary,
    ClassStatistics,
    Count,
    Distance,
    Needs,
    Reply,
    Request,
    Run,
    Support,
    Whole,
    check_weights,
    have_shapes,
    is_finite,
    require,
)
from fedwad.statistics import Calibration, CovarianceType, LabelledSummary, Summary
from fedwad.statistics.blocking import SMALLEST, Blocks
from fedwad.statistics.order import OrderStatistics
from fedwad.statistics.populations import CovarianceNoise
from fedwad.transport import Floats, Interpolant, Measure, check_order

#: For requests to sites whose features are in the units of a schema.
NO_UNITS: Floats = np.zeros(0)
#: A site whose data have larger absolute values sends no calibration.
MAX_CALIBRATED = 1e60


@dataclass(frozen=True, eq=False)
class SummaryReply(Reply):
    """A summary, and the distance to the support that made its cells (None for k-means cells).

    `calibration` is None where it was not asked for, is withheld, or cannot be measured. So are
    `blocks`, means over blocks of rows for a permutation test, and `order`, expected order
    statistics of each feature, and `noise`, that of covariances. `keep` says whether the site
    allows the reply to be kept in a file. The summary is that of a sample within W_p `rounding` of
    the site's.
    """

    summary: AnySummary
    distance: Distance | None
    calibration: Calibration | None = None
    keep: bool = False
    blocks: Blocks | None = None
    order: OrderStatistics | None = None
    noise: CovarianceNoise | None = None
    rounding: Distance = 0.0

    def check_values(self, most_classes: int = 1000) -> None:
        """All pairs of classes of two sites are compared, and sites may claim any number."""
        parts = _parts(self.summary)
        if isinstance(self.summary, LabelledSummary):
            require(len(parts) <= most_classes, "it has too many classes.")
            check_weights(self.summary.weights, len(parts))
            require(len({part.dimension for part in parts}) == 1, "classes differ in features.")
        for part in parts:
            _check_summary(part)
        d = self.summary.dimension
        if self.calibration is not None:
            own = self.calibration
            squares = own.noise, own.noise_quarter, own.noise_std, own.synthetic
            finite = all(0 <= one <= 1e125 for one in squares) and 1 <= own.size <= MAX_COUNT
            require(finite, "a number of its splits is negative or not finite.")
            small = all(is_finite(part.means, 2, MAX_CALIBRATED) for part in parts)
            require(small, "its numbers are too large for a calibration.")
        # Classes follow the features of a sample, so there can be more coordinates than features.
        if self.blocks is not None:
            _check_blocks(self.blocks)
            require(self.blocks.features <= d, "its blocks are about another number of features.")
        if self.noise is not None:
            positive = all(0 <= c < MAX_ABS**2 for c in (self.noise.dependence, self.noise.bures))
            require(positive, "its noise of covariances is not a positive number.")
        if self.order is not None:
            features = _check_order_statistics(self.order)
            same = self.blocks is None or features == self.blocks.features
            require(same, "its order statistics are about another number of features.")
            # Rows that are all equal have no spread, but averages of them are rounded.
            rounding = max(float(np.abs(part.means).max()) for part in parts) * 1e-12
            most = 2 * _sum_of_squares(parts) + rounding**2 + 1e-290
            fit = all(float(np.nanmax(one)) <= most for one in self.order.variances)
            require(fit, "variances of its order statistics do not fit its summary.")


@dataclass(frozen=True, eq=False)
class SummaryRequest(Request):
    """Ask for a summary of the data in k-means cells.

    Unless `class_statistics` is "ignored", each class has a summary of its own. With `calibration`
    and p = 2, or with classes, the reply also has what the site measures on random splits of its
    own rows.

    The reply has means over blocks of rows too. They need units that are the same at all sites:
    those of a schema, or for numbers without one a public `centre` and `scale` of each feature.
    """

    kind: ClassVar[str] = "summary"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = SummaryReply
    cells: Count
    covariance_type: CovarianceType
    p: float
    seed: Whole
    class_statistics: ClassStatistics = "ignored"
    calibration: bool = True
    centre: Floats = field(default_factory=lambda: NO_UNITS)
    scale: Floats = field(default_factory=lambda: NO_UNITS)

    def check_values(self) -> None:
        check_order(self.p)
        check_units(self.centre, self.scale)

    def needs(self) -> Needs:
        return Needs(
            order=self.p,
            size=self.cells,
            class_statistics=self.class_statistics,
            class_covariance=self.class_statistics != "ignored",
        )

    def check(self, reply: SummaryReply) -> None:
        require(self.calibration or reply.calibration is None, "it has a calibration.")
        labelled = isinstance(reply.summary, LabelledSummary)
        compared = reply.summary.covariance if labelled else "ignored"
        require(compared == self.class_statistics, "it is about classes unlike the request.")
        if isinstance(reply.summary, LabelledSummary):
            ndim = 2 if self.class_statistics == "full" else 1
            complete = all(part.within.ndim >= ndim for part in reply.summary.parts)
            require(complete, "it leaves out covariances.")
        parts = _parts(reply.summary)
        most = max(self.cells, len(parts))  # a cell for each class, however few were asked for
        count = sum(len(part.weights) for part in parts)
        require(count <= most, "it has more cells than were asked for.")
        for part in parts:
            require(part.p == self.p, "it is about a different order p.")


def check_units(centre: Floats, scale: Floats) -> None:
    """Raise InputError unless these are a public centre and scale of each feature, or of none."""
    same = centre.ndim == scale.ndim == 1 and len(centre) == len(scale)
    if not (same and np.isfinite([centre, scale]).all() and (scale > 0).all()):
        raise InputError(
            "centre and scale must be finite numbers for each feature, and each scale above 0.",
            "bad-request",
        )


def _parts(summary: Summary | LabelledSummary) -> tuple[Summary, ...]:
    """The summaries of the classes, or the one summary of data without classes."""
    return summary.parts if isinstance(summary, LabelledSummary) else (summary,)


def _sum_of_squares(parts: Sequence[Summary]) -> float:
    """Of all deviations from the mean of all, which no variance of a mean exceeds."""
    counts = np.array([part.count for part in parts], dtype=np.float64)
    means = np.array([part.mean for part in parts])
    squares = counts @ ((means - counts @ means / counts.sum()) ** 2).sum(axis=1)
    for part in parts:
        between = part.weights @ ((part.means - part.mean) ** 2).sum(axis=1)
        squares += part.count * (part.variance + between)
    return float(squares)


def _check_summary(summary: Summary, tolerance: float = 1e-6) -> None:
    """`tolerance` is relative, between within_std^2 and the trace of the covariance."""
    require(is_finite(summary.means, 2) and summary.means.size > 0, "cell means are not finite.")
    check_weights(summary.weights, len(summary.means))
    d = summary.dimension
    covariance = summary.covariance
    fits = is_finite(covariance, max_abs=MAX_ABS**2) and covariance.shape in ((), (d,), (d, d))
    require(fits, "the covariance is not finite or has a different shape.")
    diagonal = np.diag(covariance) if covariance.ndim == 2 else covariance
    require(bool((diagonal >= 0).all()), "a variance is negative.")
    if summary.factors is not None:
        shape = np.shape(summary.factors)
        fits = is_finite(summary.factors, 2) and shape[0] <= shape[1] == d == len(diagonal)
        require(fits, "factors of the covariance are not finite or have a different shape.")
    require(1 <= summary.min_cell_size <= summary.count <= MAX_COUNT, "its counts are impossible.")
    require(0 <= summary.within_std <= MAX_ABS, "a distance is not a finite number.")
    if summary.p == 2:
        trace = summary.variance
        agree = abs(summary.within_std**2 - trace) <= tolerance * trace + 1e-290
        require(agree, "within_std and covariance disagree.")


def _check_blocks(blocks: Blocks, most: int = 1000) -> None:
    """Up to `most` block means; a square of a feature, which is clipped at six units, is up to 36,
    and the grid of rounding adds at most one."""
    times, rest = divmod(blocks.rows, SMALLEST)
    power = times > 0 and times.bit_count() == 1 and rest == 0
    require(power, f"the size of a block is not {SMALLEST} times a power of two.")
    count = len(blocks.means)
    counted = min(blocks.counts, default=-1) >= 0 and sum(blocks.counts) == count
    proper = is_finite(blocks.means, 2, 37.0) and 0 < count <= most and counted
    require(proper, "its block means are not finite, too many, or not as many as it counts.")
    ends = (-1, *blocks.indicators, blocks.features)
    ascending = all(k < after for k, after in pairwise(ends))
    named = 0 < blocks.features <= blocks.means.shape[1] and ascending
    require(named, "its indicators are not features in ascending order.")
    joint = blocks.means.shape[1] - len(blocks.of_feature) - blocks.pairs
    require(joint >= 0 and joint % 2 == 0, "its block means do not fit the number of features.")


def _check_order_statistics(order: OrderStatistics, most: int = 10) -> int:
    """The number of features of expected order statistics of up to `most` levels: 512 draws."""
    levels = 0 < len(order.means) == len(order.variances) <= most
    require(
        levels and 0 < order.count <= MAX_COUNT, "its order statistics have no levels, or too many."
    )
    features = int(order.means[0].shape[-1])
    for level, (means, variances) in enumerate(zip(order.means, order.variances, strict=True)):
        same = means.shape == variances.shape == (2**level, features)
        require(same, "its order statistics are of another shape.")
        # A feature that is withheld at a level is nan, and so it is at all higher levels.
        withheld = np.isnan(means[0])
        hidden = np.isnan(means[:, withheld]).all() and (level > 0 or not withheld.any())
        means, variances = means[:, ~withheld], variances[:, ~withheld]
        finite = is_finite(means, 2) and is_finite(variances, 2, 1e190)
        ordered = (variances >= 0).all() and (np.diff(means, axis=0) >= 0).all()
        proper = bool(hidden and finite and ordered)
        require(proper, "its order statistics are not finite, or not in order.")
    return features


@dataclass(frozen=True, eq=False)
class TransportReply(Reply):
    """The interpolating measure between the data (t = 0) and the support (t = 1), and the distance
    if it was asked for, which differs by at most `rounding` from the exact one."""

    interpolant: Support
    distance: Distance | None
    rounding: Distance = 0.0

    def check_values(self) -> None:
        require(is_finite(self.interpolant.points, 2), "points are not finite.")
        check_weights(self.interpolant.weights, len(self.interpolant.points))


@dataclass(frozen=True, eq=False)
class SupportRequest(Request):
    """What requests to transport the data to a support have in common.

    `run` names the run that the request belongs to. A client starts the transport from the last
    potentials of that run, which saves time and changes no number.
    """

    repeatable: ClassVar[bool] = True
    run: Run
    support: Support
    p: float
    class_statistics: ClassStatistics = field(default="ignored", kw_only=True)

    def check_values(self) -> None:
        check_order(self.p)

    def needs(self) -> Needs:
        weights: Literal["uniform", "weighted"]
        weights = "uniform" if self.support.is_uniform else "weighted"
        return Needs(self.p, len(self.support), weights, class_statistics=self.class_statistics)


@dataclass(frozen=True, eq=False)
class TransportRequest(SupportRequest):
    """One round of FedWaD: transport the data to this support, reply with an interpolating measure.

    Without a `t` the client draws its own, which the reply does not tell. With `samples` it takes
    that many of its rows, or all if it has no more. Which ones follows from `draw` and its rows
    alone: the same request gets the same reply, and the server cannot choose them.
    """

    kind: ClassVar[str] = "transport"
    reply_type: ClassVar[type[Reply]] = TransportReply
    t: Annotated[float, Meta(gt=0, lt=1)] | None
    interpolant: Interpolant
    with_distance: bool
    samples: Count | None = field(default=None, kw_only=True)
    draw: Whole = field(default=0, kw_only=True)

    def needs(self) -> Needs:
        exact = self.interpolant == "exact"
        return replace(super().needs(), exact_interpolant=exact, subset=self.samples is not None)

    def check(self, reply: TransportReply) -> None:
        same = reply.interpolant.dimension == self.support.dimension
        require(same, "it has a different number of features.")
        more = len(reply.interpolant) > len(self.support)
        require(not more or self.interpolant == "exact", "it has more points than the support.")
        left_out = self.with_distance and reply.distance is None
        require(not left_out, "it leaves out its distance.")


@dataclass(frozen=True)
class DistanceReply(Reply):
    """The distance between the data and the support, and nothing else.

    It differs by at most `rounding` from the exact one.
    """

    distance: Distance
    rounding: Distance = 0.0


@dataclass(frozen=True, eq=False)
class DistanceRequest(SupportRequest):
    """The last message of the paper's FedWaD: transport the data to this support, reply with the
    distance. A policy that allows rounds allows it too."""

    kind: ClassVar[str] = "transport"
    reply_type: ClassVar[type[Reply]] = DistanceReply


@dataclass(frozen=True, eq=False)
class CellsRequest(SupportRequest):
    """Transport the data to this support, reply with a summary in its cells.

    With `calibration`, p = 2 and class statistics "ignored", the reply also has what the site
    measures on random splits of its own rows. With `blocks` it has blocks and order statistics as
    in the reply to a SummaryRequest, in the units of `centre` and `scale`.
    """

    kind: ClassVar[str] = "cells"
    reply_type: ClassVar[type[Reply]] = SummaryReply
    covariance_type: CovarianceType
    calibration: bool = False
    blocks: bool = False
    centre: Floats = field(default_factory=lambda: NO_UNITS)
    scale: Floats = field(default_factory=lambda: NO_UNITS)

    def check_values(self) -> None:
        super().check_values()
        check_units(self.centre, self.scale)

    def check(self, reply: SummaryReply) -> None:
        summary = reply.summary
        if not isinstance(summary, Summary):
            raise InputError("it is a summary by class, which was not asked for.", "bad-reply")
        require(reply.distance is not None, "it leaves out its distance to the support.")
        dimension = self.support.dimension
        require(summary.dimension == dimension, "it has a different number of features.")
        require(len(summary.weights) <= len(self.support), "it has more cells than the support.")
        require(summary.p == self.p, "it is about a different order p.")
        unasked = (reply.calibration and not self.calibration) or (
            not self.blocks and (reply.blocks or reply.order)
        )
        require(not unasked, "it has a calibration or blocks that were not asked for.")


@dataclass(frozen=True, eq=False)
class CellSums(Reply):
    """Weighted sums over the samples x_i of a client, with weights w_i (sum one) and fractions
    p_is.

    Attributes
    ----------
    count : number of samples, the weight of the client in the union
    masses : (S,), sum_i w_i p_is
    offsets : (S, d), sum_i w_i p_is (x_i - z_s)
    squares : (S,), sum_i w_i p_is |x_i - z_s|^2
    overlap : (S, S), sum_i w_i p_is p_ir: the mass that atoms s and r share (the Hessian term)
    dual : at most sum_i w_i min_s (|x_i - z_s|^2 - g_s) over all atoms, and equal to it if each
        atom is best for no sample or for at least `min_cell_size`; None if a cell with too few
        samples was removed, and beside rounded sums, since its derivatives are exact ones
    min_cell_size : Kish's effective number of samples in the smallest cell that is not empty
    rounding : the sums are those of a sample within W2 `rounding` of the client's
    """

    count: Count
    masses: Floats
    offsets: Floats
    squares: Floats
    overlap: Floats
    dual: float | None
    min_cell_size: Count
    rounding: Distance = 0.0

    def check_values(self) -> None:
        arrays = (self.masses, "s"), (self.offsets, "sd"), (self.squares, "s"), (self.overlap, "ss")
        fit = self.masses.size > 0 and have_shapes(*arrays, max_abs=MAX_ABS**2)
        require(fit, "its sums are not finite, or differ in size.")
        positive = bool((self.masses >= 0).all() and (self.squares >= 0).all())
        require(positive, "a mass or a square is negative.")
        require(abs(float(self.masses.sum()) - 1) <= 1e-9, "its masses do not sum to one.")
        inside = (self.overlap >= 0).all() and (self.overlap <= self.masses + 1e-9).all()
        require(bool(inside), "more mass overlaps than there is.")
        require(self.dual is None or bool(np.isfinite(self.dual)), "a dual value is not finite.")


@dataclass(frozen=True, eq=False)
class AtomsRequest(Request):
    """Ask for the masses and sums of the cells of these atoms.

    `reg` is the entropic regularisation e.
    """

    kind: ClassVar[str] = "atoms"
    repeatable: ClassVar[bool] = True
    reply_type: ClassVar[type[Reply]] = CellSums
    atoms: Floats
    potentials: Floats
    reg: Annotated[float, Meta(ge=0)]

    def check_values(self) -> None:
        atoms, potentials = self.atoms, self.potentials
        proper = atoms.ndim == 2 and atoms.size and potentials.shape == (len(atoms),)
        if not proper or not np.isfinite(potentials).all():
            raise InputError("atoms (S, d) need one finite potential each.", "bad-request")
        Measure(atoms, name="the atoms")  # InputError unless they are points

    def needs(self) -> Needs:
        """No minimum number of atoms is checked: a server could meet it with far atoms that receive
        no mass."""
        return Needs(size=len(self.atoms))

    def check(self, reply: CellSums, rounding: float = 1e-9) -> None:
        """`rounding` is relative, of sums over many samples."""
        require(reply.offsets.shape == self.atoms.shape, "it is about different atoms.")
        # |mean of x - z|^2 is never above the mean of |x - z|^2, and a plan never costs less than
        # the dual value.
        divisors = np.where(reply.masses > 0, reply.masses, 1.0)  # no division by an empty cell
        largest_norm = float(
            np.abs(self.atoms - self.atoms[0]).max() + np.sqrt((reply.squares / divisors).max())
        )
        lengths = np.sqrt((reply.offsets**2).sum(axis=1))
        limits = np.sqrt(reply.masses * reply.squares) * (1 + 1e-6) + rounding * largest_norm
        require(bool((lengths <= limits).all()), "its sums contradict each other.")
        primal = float(reply.squares.sum() - reply.masses @ self.potentials)
        scale = float(reply.squares.sum() + np.abs(self.potentials).max())
        below = reply.dual is None or reply.dual <= primal + rounding * scale
        require(below, "its dual value is above its plan.")
