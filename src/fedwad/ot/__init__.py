"""Optimal transport on one machine: measures, exact plans with proofs, geodesics, summaries and their bounds."""

from fedwad.ot._bounds import bures, lower_bound, upper_bound
from fedwad.ot._cost import ground_cost
from fedwad.ot._estimate import Estimate, estimate
from fedwad.ot._geodesic import Interpolant, interpolate, reduce_support
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._measure import Floats, Measure, as_points, as_weights
from fedwad.ot._plan import TOLERANCE, Plan
from fedwad.ot._solve import check_order, solve, wasserstein
from fedwad.ot._summary import Covariance, Summary, smallest_cell, summarise, summarise_plan
from fedwad.ot._twin import Twin, twin_distance

__all__ = [
    "TOLERANCE",
    "Covariance",
    "Estimate",
    "Floats",
    "Interpolant",
    "LabelledMeasure",
    "Measure",
    "Plan",
    "Summary",
    "Twin",
    "as_points",
    "as_weights",
    "bures",
    "check_order",
    "estimate",
    "ground_cost",
    "interpolate",
    "lower_bound",
    "reduce_support",
    "smallest_cell",
    "solve",
    "summarise",
    "summarise_plan",
    "twin_distance",
    "upper_bound",
    "wasserstein",
]
