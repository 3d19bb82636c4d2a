"""How a site answers: a function for each request, from its data and under its policy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.messages.columns import (
    WANTED,
    ColumnsReply,
    ColumnsRequest,
    DescribeRequest,
    Description,
    schema_digest,
)
from fedwad.messages.learning import (
    EvaluateRequest,
    Evaluation,
    Labels,
    LabelsRequest,
    NetworkRequest,
    Prototypes,
    PrototypesRequest,
    TrainReply,
    TrainRequest,
    Weights,
    check_names,
)
from fedwad.messages.message import LabelName, Reply, Request
from fedwad.messages.private import (
    PrivateColumnsReply,
    PrivateColumnsRequest,
    PrivateReply,
    PrivateRequest,
    PrivateSchemaReply,
    PrivateSchemaRequest,
)
from fedwad.messages.samples import (
    AtomsRequest,
    CellsRequest,
    CellSums,
    DistanceReply,
    DistanceRequest,
    SummaryReply,
    SummaryRequest,
    SupportRequest,
    TransportReply,
    TransportRequest,
)
from fedwad.privacy import release, release_columns, release_schema, split
from fedwad.site.context import ClientContext, check_releasable
from fedwad.site.data import Dataset
from fedwad.statistics import (
    Counted,
    LabelledSummary,
    Summary,
    distil_labelled,
    large_classes,
    summarise_classes,
    summarise_plan,
)
from fedwad.statistics.cells import group_sums
from fedwad.tables import Schema, label_text, smallest_group
from fedwad.transport import Floats, LabelledMeasure, Measure, Plan, ground_cost, interpolate, solve
from fedwad.transport.labels import samples_of

if TYPE_CHECKING:
    from fedwad.learning.local import Network


@singledispatch
def execute(request: Request, context: ClientContext) -> tuple[Reply, int | None]:
    """The reply, and the smallest number of samples that one of its numbers averages.

    The second is None if the reply averages no samples.
    """
    raise NotImplementedError(f"{type(request).__name__} about {context.digest}")


@singledispatch
def check_shape(request: Request, context: ClientContext) -> None:
    """Raise InputError unless the request fits the shape of the data. No sample is read."""


# Summaries


@execute.register
def describe(_: DescribeRequest, context: ClientContext) -> tuple[Description, None]:
    policy, table = context.policy, context.table
    who = policy.name, policy.contact, tuple(sorted(policy.allow))
    if table is not None:
        labelled = table.label is not None or table.labels is not None
        return Description(*who, 0, labelled, WANTED), None
    data = context.data
    schema = "" if data.schema is None else schema_digest(data.schema)
    labelled = bool(policy.label_names) if policy.is_private else data.labels is not None
    return Description(*who, data.measure.dimension, labelled, schema), None


@execute.register
def columns(_: ColumnsRequest, context: ClientContext) -> tuple[ColumnsReply, int]:
    return ColumnsReply(context.profile, context.policy.keep), smallest_group(context.profile)


@execute.register
def summary(request: SummaryRequest, context: ClientContext) -> tuple[SummaryReply, int]:
    covariance_type = context.policy.allowed_covariance_type(request.covariance_type)
    cells, seed, by_class = request.cells, request.seed, request.class_statistics
    summary: Summary | LabelledSummary
    if by_class == "ignored":
        summary = context.summarise(cells, covariance_type, request.p, seed)
    else:
        codes, units = context.data.require_class_codes(), context.data.units
        context.policy.check_size(int(codes.max()) + 1)  # one cell a class, however few were asked
        measure, present = context.by_classes(codes)
        size = context.min_own_cell_size
        summary = summarise_classes(
            measure, codes, cells, covariance_type, by_class, size, seed, present, units
        )
    calibration = None
    if request.calibration and (request.p == 2 or by_class != "ignored"):
        calibration = context.calibration(cells, covariance_type, class_statistics=by_class)
    reply = SummaryReply(
        summary,
        None,
        calibration,
        keep=context.policy.keep and by_class == "ignored",
        blocks=context.block_means(request.centre, request.scale),
        order=context.order_statistics(),
        noise=context.covariance_noise() if by_class == "ignored" and request.p == 2 else None,
    )
    return reply, summary.min_cell_size


# Transport to a support that a server chose: rounds of FedWaD, cells of a hub


def draw_t(rng: np.random.Generator) -> float:
    """Draw a position on a geodesic, uniform in the open interval from 0 to 1."""
    return float(rng.uniform(2**-53, 1.0))


@check_shape.register
def check_support(request: SupportRequest, context: ClientContext) -> None:
    d = context.data.measure.dimension
    features = {"ignored": d, "diag": 3 * d, "full": d + d + d * d}[request.class_statistics]
    _check_features(request.support.dimension, features)


def _check_features(arrived: int, features: int) -> None:
    if arrived != features:
        raise InputError(
            f"Points with {arrived} features arrived where the data have {features}; all sites need"
            " the same features.",
            "different-columns",
        )


@execute.register
def transport(request: TransportRequest, context: ClientContext) -> tuple[TransportReply, int]:
    context = context.sampled(request.samples, request.draw)
    plan, rounded = _plan(request, context)
    t = draw_t(context.rng("t", request.support.points)) if request.t is None else request.t
    if rounded is None or request.interpolant == "exact":
        interpolant = interpolate(plan, t, request.interpolant)
    else:
        interpolant = rounded.interpolant(plan, t)
    distance = _distance(plan, rounded) if request.with_distance else (None, 0.0)
    return TransportReply(interpolant, *distance), _min_size(request, plan, context)


@execute.register
def distance(request: DistanceRequest, context: ClientContext) -> tuple[DistanceReply, int]:
    plan, rounded = _plan(request, context)
    return DistanceReply(*_distance(plan, rounded)), context.min_class_size(
        request.class_statistics
    )


@execute.register
def cells(request: CellsRequest, context: ClientContext) -> tuple[SummaryReply, int]:
    plan, rounded = _plan(request, context)
    covariance_type = context.policy.allowed_covariance_type(request.covariance_type)
    summary, (distance, moved) = summarise_plan(plan, covariance_type), _distance(plan, rounded)
    if rounded is not None:
        summary, moved = rounded.summary(summary, plan)
    calibration = None
    if request.calibration and request.p == 2 and request.class_statistics == "ignored":
        calibration = context.calibration(
            len(request.support), covariance_type, request.support.points
        )
    reply = SummaryReply(
        summary,
        distance,
        calibration,
        blocks=context.block_means(request.centre, request.scale) if request.blocks else None,
        order=context.order_statistics() if request.blocks else None,
        rounding=moved,
    )
    return reply, _min_size(request, plan, context)


def _plan(request: SupportRequest, context: ClientContext) -> tuple[Plan, CellRounding | None]:
    """Transport to the support, starting from the last potentials of this run, and how its cells
    are rounded.

    The cache holds each potential less the squared distance between its point of the support and
    the mean of its cell. The start adds that of the new point: a point that comes closer to the
    mean of its cell by some cost gives up as much of its potential.
    """
    support, p, start = request.support, request.p, None
    last = context.transports.get(request.run)
    if last is not None and last[1].shape == support.points.shape:
        start = np.asarray(last[0] + _squared_distances(last[1], support, p))
    plan = solve(context.view(request.class_statistics), support, p, start)
    squares = _squared_distances(plan.target_means(), support, p)
    context.keep_transport(request.run, plan.g - squares, plan.target_means())
    return plan, CellRounding.of(plan, context)


def _distance(plan: Plan, rounded: CellRounding | None) -> tuple[float, float]:
    """The distance that leaves the site, and by how much it differs from the exact one at most."""
    return (plan.distance, 0.0) if rounded is None else (rounded.distance, rounded.moved)


def _squared_distances(means: Floats, support: Measure, p: float) -> Floats:
    """Squared distances between the means of cells and their points; zero unless p is 2."""
    moves = means - support.points
    return np.asarray(np.einsum("sd,sd->s", moves, moves)) if p == 2 else np.zeros(len(moves))


def _min_size(request: SupportRequest, plan: Plan, context: ClientContext) -> int:
    """Smallest number of samples, of different units, that one atom of the interpolating measure
    averages, or of samples in a class whose statistics enter the reply."""
    exact = isinstance(request, TransportRequest) and request.interpolant == "exact"
    if exact or len(plan.target) > len(plan.source):
        return 1
    reached, units = np.flatnonzero(plan.received), context.data.units
    counted = Counted(units=None if units is None else units[plan.rows])
    of_atoms = counted.fewest(np.searchsorted(reached, plan.cols), plan.mass)
    return min(of_atoms, context.min_class_size(request.class_statistics))


# Random rounding of what a site tells about the cells of a support that a server chose.
#
# Two supports can make cells that differ by one record, so that exact sums over them differ by
# that record. Therefore each cell gets a random shift: its sum changes by about one record's
# deviation from the mean of all, times the policy's `rounding`. Deviations within cells are
# stretched, column by column, so that variances within cells change by about one record's part
# too. The random numbers follow from the rows and from the records of the cell alone: the same
# cell is always shifted alike, whatever the support, and averaging repeats gains nothing.
#
# What leaves describes a slightly moved sample. A reply says by how much it was moved at most
# (`rounding`, in W_p), so that the server's bounds stay certified.


@dataclass(frozen=True, eq=False)
class CellRounding:
    """How the cells of one plan are moved.

    Attributes
    ----------
    means : (S, d), the moved means of the cells
    distance : the distance between the moved sample and the support, along the same plan
    shifted : W_p between the sample and the one whose cells are shifted
    moved : largest W_p between the sample and the moved one, or difference of their distances
    stds : (d,), standard deviations of the sample
    record : the mass of one record (a row, or all rows of a unit), times the policy's `rounding`
    rng : random numbers for the stretches
    """

    means: Floats
    distance: float
    shifted: float
    moved: float
    stds: Floats
    record: float
    rng: np.random.Generator

    @classmethod
    def of(cls, plan: Plan, context: ClientContext) -> CellRounding | None:
        """The rounding of a plan; None where the policy's `rounding` is 0."""
        if context.policy.rounding == 0:
            return None
        p, means, received = plan.p, plan.target_means(), plan.received
        stds = standard_deviations(plan.source)
        record = context.policy.rounding * context.data.record
        shifts = cell_shifts(context, plan.rows, plan.cols, plan.mass, len(received), stds)
        shifts *= np.divide(record, received, out=received * 0, where=received > 0)[:, None]
        lengths = np.sqrt((shifts**2).sum(axis=1))
        longest = float(lengths.max()) or 1.0
        shifted = longest * float(received @ (lengths / longest) ** p) ** (1 / p)
        rng = context.rng("within", plan.rows, plan.cols, plan.mass)
        if p == 2:
            z = plan.target.rows(slice(None))
            before, after = (
                float(received @ ((one - z) ** 2).sum(axis=1)) for one in (means, means + shifts)
            )
            within = max(0.0, plan.distance**2 - before)
            stretch = stretches(rng, np.array([within]), record * float(stds @ stds))[0]
            distance = math.sqrt(after + within * (1 + stretch) ** 2)
            moved = math.hypot(shifted, stretch * math.sqrt(within))
        else:  # one record's part of the sum of |x - z|^p is about the mean of all parts
            part = min(record, 0.5) * float(rng.uniform(-1, 1))
            distance = plan.distance * (1 + part) ** (1 / p)
            moved = abs(distance - plan.distance)
        return cls(means + shifts, distance, shifted, max(shifted, moved), stds, record, rng)

    def interpolant(self, plan: Plan, t: float) -> Measure:
        """The barycentric interpolating measure of the moved sample, on the points of the support,
        also if these are more than the sample has rows."""
        return Measure((1 - t) * self.means + t * plan.target.points, plan.target.weights)

    def summary(self, summary: Summary, plan: Plan) -> tuple[Summary, float]:
        """The summary of the moved sample, and the largest W_p between the sample and that one."""
        means = self.means[np.flatnonzero(plan.received)]
        if summary.p != 2:
            stretch = np.asarray(min(self.record, 0.5) * float(self.rng.uniform(-1, 1)))
            within = summary.within_std * float(1 + stretch)
            moved = self.shifted + abs(float(stretch)) * summary.within_std
        else:
            variances = summary.within
            variances = np.diag(variances) if variances.ndim == 2 else variances
            squares = self.stds**2 if variances.ndim else float(np.mean(self.stds**2))
            stretch = stretches(self.rng, variances, self.record * squares)
            d = summary.dimension
            within = math.sqrt(float(np.broadcast_to(variances * (1 + stretch) ** 2, d).sum()))
            costs = np.broadcast_to(variances * stretch**2, d)
            moved = math.hypot(self.shifted, math.sqrt(float(costs.sum())))
        factor, covariance, factors = 1 + stretch, summary.covariance, summary.factors
        covariance = covariance * (np.outer(factor, factor) if covariance.ndim == 2 else factor**2)
        factors = None if factors is None else factors * factor
        rounded = replace(
            summary,
            means=means,
            covariance=np.asarray(covariance),
            factors=factors,
            within_std=within,
        )
        return rounded, max(moved, self.moved)


def stretches(rng: np.random.Generator, variances: Floats, record: Floats | float) -> Floats:
    """By which part deviations within cells are stretched, so that their `variances` change by
    about one record's part; at most by a half."""
    part = record / (2 * np.where(variances > 0, variances, 1.0))
    return np.asarray(np.minimum(part, 0.5) * rng.uniform(-1, 1, np.shape(variances)))


def cell_shifts(
    context: ClientContext,
    rows: NDArray[np.int64],
    cells: NDArray[np.int64],
    mass: Floats,
    n_cells: int,
    stds: Floats,
) -> Floats:
    """A random deviation for each cell (S, d), by the records that it holds and their mass."""
    order = np.argsort(cells, kind="stable")
    ends = np.cumsum(np.bincount(cells, minlength=n_cells))[:-1]
    parts = zip(np.split(rows[order], ends), np.split(mass[order], ends), strict=True)
    half = math.sqrt(3.0)  # the width of a uniform distribution of standard deviation one
    shifts = [context.rng("cell", *part).uniform(-half, half, len(stds)) for part in parts]
    return np.asarray(shifts) * stds


def standard_deviations(measure: Measure) -> Floats:
    """The standard deviation of each coordinate."""
    if isinstance(measure, LabelledMeasure):
        return np.sqrt(measure.variances)
    return np.sqrt(measure.weights @ (measure.points - measure.mean) ** 2)


# Sums over the power cells of a few atoms; see `fedwad.messages.samples`


_ROUNDING = 1e-9  # of effective numbers of samples


@check_shape.register
def check_atoms(request: AtomsRequest, context: ClientContext) -> None:
    _check_features(request.atoms.shape[1], context.data.measure.dimension)


@execute.register
def atoms(request: AtomsRequest, context: ClientContext) -> tuple[CellSums, int]:
    sums = sums_of(request, context.data.measure, context.policy.min_cell_size, context)
    return sums, sums.min_cell_size


def sums_of(
    request: AtomsRequest,
    measure: Measure,
    min_cell_size: int = 1,
    context: ClientContext | None = None,
) -> CellSums:
    """Return the sums over the atoms' cells; cells with too few samples are removed.

    With a `context`, they are rounded as its policy says.
    """
    cost = ground_cost(measure.points, request.atoms)
    reduced = cost - request.potentials  # the reduced costs |x_i - z_s|^2 - g_s
    # Any plan has an upper bound, so each record may count to the cell of a place near it.
    blurred = reduced
    rounding = context if context is not None and context.policy.rounding > 0 else None
    if rounding:
        places = _blurred(measure, rounding)
        blurred = _miscounted(ground_cost(places, request.atoms), request, rounding)
    units = None if context is None else context.data.units
    fractions, smallest, open_cells = _fractions(
        blurred, request.reg, measure.weights, min_cell_size, units
    )
    dual = None
    # Its derivatives by the request are exact sums of cells, so it is not sent beside rounded ones.
    if rounding is None and len(open_cells) == len(request.atoms):
        dual = _dual(reduced, request.reg, measure.weights, min_cell_size, units)
    weighted = measure.weights[:, None] * fractions
    masses = weighted.sum(axis=0)
    origin = request.atoms[0]  # avoids cancellation if all points share a large offset
    offsets = weighted.T @ (measure.points - origin) - masses[:, None] * (request.atoms - origin)
    squares = np.einsum("is,is->s", weighted, cost)
    overlap = _overlap(weighted, fractions, min_cell_size)
    sums = CellSums(len(measure), masses, offsets, squares, overlap, dual, smallest)
    if rounding is None:
        return sums
    return _rounded(sums, weighted, measure, rounding)


def _rounded(
    sums: CellSums, weighted: Floats, measure: Measure, context: ClientContext
) -> CellSums:
    """Return the sums of a sample whose cells are moved at random, see above."""
    record = context.policy.rounding * context.data.record
    stds = standard_deviations(measure)
    rows, cells = np.nonzero(weighted)
    mass = weighted[rows, cells]
    shifts = record * cell_shifts(context, rows, cells, mass, len(sums.masses), stds)
    shifts += weighted.T @ _errors("sums", measure, context, 0.33)
    filled = sums.masses > 0
    shifts[~filled] = 0.0
    divisors = np.where(filled, sums.masses, 1.0)
    rng = context.rng("atoms", rows, cells, mass)
    within = np.maximum(sums.squares - (sums.offsets**2).sum(axis=1) / divisors, 0.0)
    stretch = stretches(rng, within, record * float(stds @ stds))
    offsets = sums.offsets + shifts
    squares = within * (1 + stretch) ** 2 + (offsets**2).sum(axis=1) / divisors
    moved = float(((shifts**2).sum(axis=1) / divisors).sum() + within @ stretch**2)
    return replace(sums, offsets=offsets, squares=np.asarray(squares), rounding=math.sqrt(moved))


def _blurred(measure: Measure, context: ClientContext, part: float = 0.1) -> Floats:
    """Places near the records, each always the same: `part` of the policy's `rounding` in standard
    deviations away.

    Where a cell ends is told by the numbers of records in cells, and a server chooses it: by
    halving it would find the place of a record along any direction.
    """
    return np.asarray(measure.points + _errors("places", measure, context, part))


def _errors(what: str, measure: Measure, context: ClientContext, part: float) -> Floats:
    """An error for each value, always the same: with this part of the policy's `rounding` as its
    standard deviation, in those of the columns.

    What differs between the sums of two cells that differ by one record has that record's error,
    however many such pairs a server asks for and averages.
    """
    stds = part * context.policy.rounding * standard_deviations(measure)
    return np.asarray(stds * context.rng(what).standard_normal(measure.points.shape))


def _miscounted(cost: Floats, request: AtomsRequest, context: ClientContext) -> Floats:
    """Reduced costs by which each cell has a few records more or less, by about the policy's
    `rounding`, at random for each question.

    If a cell has one record more under one of two supports, that would tell on which side of a
    place this record is. The records that lie nearest to the end of a cell change, which costs
    least.
    """
    reduced = cost - request.potentials
    n, cells = reduced.shape
    arrays = request.atoms, request.potentials, np.array([request.reg])
    rng = context.rng("counts", *arrays)
    records = context.policy.rounding * context.data.record * n
    more = np.rint(records * rng.standard_normal(cells)).astype(np.int64)
    if cells == 1:
        return np.asarray(reduced)
    own, smallest = reduced.argmin(axis=1), reduced.min(axis=1)
    others = reduced.copy()
    others[np.arange(n), own] = np.inf
    next_best, new = others.argmin(axis=1), own.copy()
    for cell, count in enumerate(more.tolist()):
        rows = np.flatnonzero((own == cell) == (count < 0))
        to = next_best[rows] if count < 0 else np.full(len(rows), cell)
        nearest = np.argsort(reduced[rows, to] - smallest[rows])[: abs(count)]
        new[rows[nearest]] = to[nearest]
    changed = np.flatnonzero(new != own)
    least = smallest[changed]
    # By so much that each counts to its new cell alone, also in a soft question.
    reduced[changed, new[changed]] = least - 40.0 * request.reg - 1e-9 * (1.0 + np.abs(least))
    return np.asarray(reduced)


def _fractions(
    reduced: Floats, reg: float, weights: Floats, min_size: int, units: NDArray[np.int64] | None
) -> tuple[Floats, int, NDArray[np.int64]]:
    """Fractions (n, S) for the `reduced` costs (n, S), the effective number of samples or units in
    the smallest cell that is not empty, and the cells that were not removed.

    While a cell holds fewer samples than `min_size`, the smallest is removed and its samples go to
    their next best cells. This is a different plan, of slightly higher cost, in which no sum is
    over few samples. One cell always stays.
    """
    fractions = np.zeros_like(reduced)
    cells = np.arange(reduced.shape[1])
    while True:
        cell_fractions, _ = _soft(reduced[:, cells], reg)
        counts = _effective(weights[:, None] * cell_fractions, units)
        used = np.flatnonzero(counts > 0)
        smallest = used[counts[used].argmin()]
        if counts[smallest] >= min_size - _ROUNDING or len(used) == 1:
            fractions[:, cells] = cell_fractions
            return fractions, int(counts[smallest] + _ROUNDING), cells
        cells = np.delete(cells, smallest)


def _dual(
    reduced: Floats,
    reg: float,
    weights: Floats,
    min_size: int,
    units: NDArray[np.int64] | None,
) -> float:
    """The dual value over all atoms, or the soft one, which is never above it, if a cell is small.

    The dual value is a sum over the cells without regularisation, so each cell that is not empty
    needs at least `min_size` samples. Otherwise a server could choose atoms for which only a few
    samples change the value.
    """
    hard, minimum = _soft(reduced, 0.0)
    counts = _effective(weights[:, None] * hard, units)
    large = bool(((counts == 0) | (counts >= min_size - _ROUNDING)).all())
    return float(weights @ (minimum if large else _soft(reduced, reg)[1]))


def _overlap(weighted: Floats, fractions: Floats, min_size: int) -> Floats:
    """The mass that two cells share. Where fewer than `min_size` samples make it up, it is set to
    zero and added to the diagonal, as if each cell had it alone."""
    overlap = weighted.T @ fractions
    squares = (weighted**2).T @ (fractions**2)
    few = (overlap > 0) & (overlap**2 < (min_size - _ROUNDING) * squares)
    np.fill_diagonal(few, False)
    hidden = np.where(few, overlap, 0.0)
    return np.asarray(overlap - hidden + np.diag(hidden.sum(axis=1)))


def _soft(reduced: Floats, reg: float, smallest: float = 1e-9) -> tuple[Floats, Floats]:
    """The fractions of each sample, and its soft minimum of the reduced costs. Fractions below the
    `smallest` are set to zero."""
    minimum = reduced.min(axis=1)
    if reg == 0:
        fractions = np.zeros_like(reduced)
        fractions[np.arange(len(reduced)), reduced.argmin(axis=1)] = 1.0
        return fractions, minimum
    with np.errstate(under="ignore", over="ignore"):
        fractions = np.exp(-(reduced - minimum[:, None]) / reg)
    total = fractions.sum(axis=1)
    fractions /= total[:, None]
    fractions[fractions < smallest] = 0.0
    fractions /= fractions.sum(axis=1, keepdims=True)
    return np.asarray(fractions), minimum - reg * np.log(total)


def _effective(weighted: Floats, units: NDArray[np.int64] | None) -> Floats:
    """Kish's effective number of samples, or of units, in each cell, 0 for an empty one."""
    if units is not None:
        weighted = group_sums(weighted, units, int(units.max()) + 1)
    heaviest = weighted.max(axis=0)
    relative = weighted / np.where(heaviest > 0, heaviest, 1.0)
    squares = (relative**2).sum(axis=0)
    return np.asarray(relative.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0))


# Names of labels, and labelled prototypes


@execute.register
def labels(_: LabelsRequest, context: ClientContext) -> tuple[Labels, int]:
    names, codes = label_names(context.data), context.data.require_class_codes()
    allowed = allowed_classes(context)
    counted = Counted(units=context.data.units)
    counts = counted.counts(codes, context.data.measure.weights)
    min_cell_size = int(counts[allowed].min() + 1e-9)
    return Labels(tuple(sorted(names[code] for code in allowed))), min_cell_size


def allowed_classes(context: ClientContext) -> NDArray[np.int64]:
    """The codes of classes with at least `min_cell_size` samples, which the policy lets the site
    name; PolicyError if there are none."""
    data, min_size = context.data, context.policy.min_cell_size
    allowed = large_classes(data.measure, data.require_class_codes(), min_size, data.units)
    if not len(allowed):
        raise PolicyError(
            f"No class has the {min_size} samples that this site's policy requires.", "small-cells"
        )
    return allowed


def label_names(data: Dataset) -> tuple[LabelName, ...]:
    """The name of each class in the order of the class numbers; InputError if a label is not a
    string, an integer or a boolean."""
    data.require_class_codes()
    names = []
    for name in data.names:
        # File readers make floats of integers.
        whole = isinstance(name, float | np.floating) and float(name).is_integer()
        if not whole and type(name) not in (str, int, bool):
            raise InputError(
                f"Labels are of type {type(name).__name__}; give strings, integers or booleans.",
                "bad-labels",
            )
        names.append(int(name) if whole else name)
    check_names(tuple(names))
    return tuple(names)


@execute.register
def prototypes(request: PrototypesRequest, context: ClientContext) -> tuple[Prototypes, int]:
    names, allowed = label_names(context.data), allowed_classes(context)
    measure, present, units = context.data.measure, context.present, context.data.units
    codes, min_size = context.data.require_class_codes(), context.policy.min_cell_size
    left = np.zeros(len(codes), dtype=bool)
    if request.atoms_per == "class":  # at least one atom a class, however few were asked for
        context.policy.check_size(len(allowed))
        left = context.left_out(allowed)
        measure, present = context.by_classes(np.where(left, len(names), codes))
    asked = request.size, request.atoms_per, request.masses
    counted = Counted(present, units).of(~left)
    kept = samples_of(measure, left, False) if left.any() else measure
    atoms = distil_labelled(kept, codes[~left], *asked, min_size, request.seed, counted)
    if left.any():  # also the largest class, if too little of it was not left out
        allowed = np.unique(atoms.codes)
    sent_names = tuple(sorted(names[code] for code in allowed))
    new_code = {code: sent_names.index(names[code]) for code in allowed.tolist()}
    labels = np.array([new_code[code] for code in atoms.codes.tolist()], dtype=np.int64)
    complete = atoms.complete and not left.any()
    reply = Prototypes(atoms.points, atoms.weights, labels, sent_names, complete)
    return reply, atoms.min_cell_size


# Releases under differential privacy, for which the client has paid before these are called


@check_shape.register
def check_private(request: PrivateRequest, context: ClientContext) -> None:
    measure = context.data.measure
    d = measure.dimension
    _check_features(d if len(request.centre) == 1 else len(request.centre), d)
    if not context.policy.is_private:
        check_releasable(measure)
        if request.labels:
            label_names(context.data)  # InputError if there are none
        return
    # The data were checked when the client was opened.
    public = {(type(name), name) for name in context.policy.label_names}
    if not {(type(name), name) for name in request.labels} <= public:
        raise PolicyError(
            "Classes were asked for that are not among the label_names of this site's policy.",
            "unknown-label",
        )


@execute.register
def private(request: PrivateRequest, context: ClientContext) -> tuple[PrivateReply, None]:
    points = context.data.measure.points
    n, d = points.shape
    noisy = release(
        points,
        request.clip_norm,
        np.resize(request.centre, d),
        split(n, d, request.mu, len(request.labels) or -1),
        classes=_class_indices(request, context),
    )
    return PrivateReply(**vars(noisy)), None


def _class_indices(request: PrivateRequest, context: ClientContext) -> NDArray[np.int64] | None:
    """The index of each sample's label among the public names, -1 for other labels; None if no
    labels are asked for."""
    if not request.labels:
        return None
    code_of = {label_text(name): index for index, name in enumerate(request.labels)}
    names = context.data.names
    # Padded, so that the time does not reveal how many classes the data have.
    padding = [None] * (len(context.policy.label_names) + 1 - len(names))
    texts = map(label_text, (*names, *padding))
    codes = np.array([code_of.get(text, -1) for text in texts], dtype=np.int64)
    return np.asarray(codes[context.data.require_class_codes()])


@check_shape.register
def check_private_columns(request: PrivateColumnsRequest, context: ClientContext) -> None:
    measure = context.data.measure
    if request.widths and sum(request.widths) != measure.dimension:
        raise InputError(
            f"The columns have {sum(request.widths)} features and the data {measure.dimension};"
            " ask with the schema that encodes the data.",
            "wrong-shape",
        )
    if not context.policy.is_private:  # else the data were checked when the client was opened
        check_releasable(measure)


@execute.register
def private_columns(
    request: PrivateColumnsRequest, context: ClientContext
) -> tuple[PrivateColumnsReply, None]:
    measure = context.data.measure
    noisy = release_columns(measure.points, request.columns(measure.dimension), request.mu)
    return PrivateColumnsReply(**vars(noisy)), None


@check_shape.register
def check_private_schema(request: PrivateSchemaRequest, context: ClientContext) -> None:
    own = context.data.schema
    if own is None or own.to_toml() != request.draft:
        raise InputError(
            "This site encodes its table by a different schema than the draft, or holds none;"
            " start it with the draft as its schema file.",
            "different-schema",
        )


@execute.register
def private_schema(
    request: PrivateSchemaRequest, context: ClientContext
) -> tuple[PrivateSchemaReply, None]:
    points = context.data.measure.points
    draft = Schema.from_toml(request.draft, "The draft", public=True)
    sums, noise = release_schema(points, draft, request.mu)
    return PrivateSchemaReply(len(points), sums, noise), None


# Training of a network on the samples, and tests on those that were held out


@check_shape.register
def check_network(request: NetworkRequest, context: ClientContext) -> None:
    label_names(context.data)
    _network(request, context)


def _network(request: NetworkRequest, context: ClientContext) -> Network:
    """The network; InputError if the weights that arrived are not of its size."""
    try:
        from fedwad.learning.local import build
    except ImportError:
        raise FederationError(
            "This site cannot train without PyTorch; run: pip install 'fedwad[learn]'.",
            "missing-package",
        ) from None
    features = context.data.measure.dimension
    network = build(
        request.model, features, len(request.classes), request.init_seed, request.personal_layers
    )
    expected = int((~network.personal_mask).sum())
    if len(request.weights) != expected:
        raise InputError(
            f"{len(request.weights)} weights arrived where the model '{request.model}' for"
            f" {features} features and {len(request.classes)} classes shares {expected}; all sites"
            " need the same features.",
            "different-columns",
        )
    return network


def _all_weights(request: NetworkRequest, network: Network, context: ClientContext) -> Weights:
    """The weights that arrived, joined with the client's personal layers."""
    if not network.personal_mask.any():
        return request.weights
    if request.times_trained == 0:
        return network.join(request.weights, network.initial_weights()[network.personal_mask])
    stored = context.ledger.layers(request.run, request.times_trained)
    if stored is None:
        raise FederationError(
            "This site no longer has its personal layers of this training; start the training"
            " again.",
            "other-run",
        )
    return network.join(request.weights, stored)


def _class_codes(request: NetworkRequest, context: ClientContext) -> NDArray[np.int64]:
    """The index of each sample's class among those of the request; -1 for classes of fewer samples
    than the policy's minimum, whose names no error may tell."""
    class_index = {name: index for index, name in enumerate(request.classes)}
    names = label_names(context.data)
    if any(names[code] not in class_index for code in allowed_classes(context)):
        raise InputError(
            "The data have a label that is not among the classes of this training; name all"
            " classes.",
            "unknown-label",
        )
    codes = np.array([class_index.get(name, -1) for name in names], dtype=np.int64)
    return np.asarray(codes[context.data.require_class_codes()])


def _split_rows(
    request: NetworkRequest, context: ClientContext
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and rows to test on, all of classes of enough samples (`allowed_classes`).

    `test_size` of each class is held out, rounded, and at least one sample of each stays to
    train on. With `test_size` 0 all rows serve both.
    """
    codes, allowed = context.data.require_class_codes(), allowed_classes(context)
    used = np.flatnonzero(np.isin(codes, allowed))
    if request.test_size == 0:
        return used, used
    rng = np.random.default_rng(request.split_seed)
    held_out = []
    for code in allowed.tolist():
        rows = rng.permutation(np.flatnonzero(codes == code))
        held_out.append(rows[: min(round(request.test_size * len(rows)), len(rows) - 1)])
    tests = np.sort(np.concatenate(held_out))
    if not len(tests):
        raise InputError(
            f"A test_size of {request.test_size:g} leaves no sample for tests; give a larger one,"
            " or 0.",
            "too-few-samples",
        )
    return np.setdiff1d(used, tests), tests


@execute.register
def evaluate(request: EvaluateRequest, context: ClientContext) -> tuple[Evaluation, int]:
    network = _network(request, context)  # which says in one sentence where PyTorch is missing
    import torch

    from fedwad.learning.local import TensorDataset, fastest_device, predicted_classes

    training_rows, test_rows = _split_rows(request, context)
    labels = _class_codes(request, context)
    weights, count = _all_weights(request, network, context), len(test_rows)
    points = context.data.measure.points[test_rows]
    tests = labels[test_rows]
    dataset = TensorDataset.of(points, tests, fastest_device())
    predicted = predicted_classes(network, dataset, torch.as_tensor(weights), np.arange(count))
    majority = int((tests == np.bincount(labels[training_rows]).argmax()).sum())
    counts = np.bincount(tests)
    counted = np.flatnonzero(counts >= max(1, context.policy.min_cell_size))
    recalls = [float((predicted[tests == one] == one).mean()) for one in counted]
    balanced = float(np.mean(recalls)) if recalls else None
    correct = int((predicted == tests).sum())
    return Evaluation(correct, count, majority, balanced, len(counted)), count


@execute.register
def train(request: TrainRequest, context: ClientContext) -> tuple[TrainReply, int]:
    network = _network(request, context)  # which says in one sentence where PyTorch is missing
    import torch

    from fedwad.learning.local import Phase, SGDOptions, Task, TensorDataset, fastest_device
    from fedwad.learning.local import train as train_all

    rows = _split_rows(request, context)[0]
    dataset = TensorDataset.of(
        context.data.measure.points[rows], _class_codes(request, context)[rows], fastest_device()
    )
    start = torch.as_tensor(_all_weights(request, network, context))
    options = SGDOptions(
        tuple(map(Phase, request.epochs, request.layers)),
        request.batch_size,
        request.learning_rate,
        request.momentum,
        request.optimizer,
        request.weight_decay,
        request.loss,
        request.proximal,
    )
    task = Task(start, np.arange(len(rows)), request.seed)
    (trained,) = train_all(network, dataset, [task], options)
    weights = trained.weights.cpu().numpy()
    if not np.isfinite(weights).all() or trained.loss is None or not math.isfinite(trained.loss):
        raise InputError(
            f"The training diverged at learning_rate {request.learning_rate:g}; scale features to"
            " about 1, or take a smaller learning_rate.",
            "diverged",
        )
    personal = network.personal_mask
    if personal.any():
        context.ledger.keep_layers(request.run, request.times_trained + 1, weights[personal])
    shared = weights[~personal] if request.return_weights else weights[:0]
    return TrainReply(shared, len(rows), trained.loss), len(rows)
