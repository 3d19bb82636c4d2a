"""Optimal transport on one machine: measures, exact plans with certificates, and geodesics."""

from fedwad.transport.compiling import announce_compiling, warm_up
from fedwad.transport.costs import ground_cost
from fedwad.transport.labels import (
    ClassCovariance,
    as_labels,
    class_codes,
    dataset_distance,
    labelled,
)
from fedwad.transport.many import pair_distances
from fedwad.transport.measures import Floats, LabelledMeasure, Measure, row_order
from fedwad.transport.plans import Interpolant, Plan, interpolate, plan_columns, reduce_support
from fedwad.transport.solving import check_order, solve, wasserstein

__all__ = [
    "ClassCovariance",
    "Floats",
    "Interpolant",
    "LabelledMeasure",
    "Measure",
    "Plan",
    "announce_compiling",
    "as_labels",
    "check_order",
    "class_codes",
    "dataset_distance",
    "ground_cost",
    "interpolate",
    "labelled",
    "pair_distances",
    "plan_columns",
    "reduce_support",
    "row_order",
    "solve",
    "warm_up",
    "wasserstein",
]
