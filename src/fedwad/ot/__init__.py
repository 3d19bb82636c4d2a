"""Optimal transport on one machine: measures, exact plans with certificates, geodesics, summaries
and bounds."""

from fedwad.ot._blocks import MIN_BLOCK_ROWS, Blocks, block_means, directions, segments_of
from fedwad.ot._bounds import bures, lower_bound, lower_bounds, rounding, upper_bound, upper_bounds
from fedwad.ot._calibration import Calibration, calibrate
from fedwad.ot._cells import effective_counts
from fedwad.ot._changes import (
    Changes,
    Correlation,
    changed_correlations,
    changes,
    critical_score,
    shrinkage_factors,
)
from fedwad.ot._classes import (
    ClassCovariance,
    LabelledSummary,
    dataset_distance,
    labelled,
    summarise_classes,
)
from fedwad.ot._columns import ColumnMoments, block_moments, column_moments
from fedwad.ot._compiling import announce_compiling, warm_up
from fedwad.ot._cost import ground_cost
from fedwad.ot._estimate import Estimate, are_identical, estimate
from fedwad.ot._geodesic import Interpolant, interpolate, reduce_support
from fedwad.ot._labelled import LabelledMeasure
from fedwad.ot._labels import as_labels, class_codes
from fedwad.ot._many import pair_distances
from fedwad.ot._measure import Floats, Measure
from fedwad.ot._order import row_order
from fedwad.ot._permutation import pairwise_pvalues, permutation_test
from fedwad.ot._plan import Plan
from fedwad.ot._plan_columns import plan_columns
from fedwad.ot._population import Populations
from fedwad.ot._prototypes import Atoms, AtomsPer, Masses, distil, distil_labelled, large_classes
from fedwad.ot._sampling import beyond_chance
from fedwad.ot._solve import check_order, solve, wasserstein
from fedwad.ot._summary import (
    CovarianceType,
    Summary,
    min_cell_size,
    reduce_covariance,
    summarise,
    summarise_plan,
)
from fedwad.ot._synthetic import (
    SyntheticSample,
    count_synthetic_transports,
    synthetic_distance,
    synthetic_distances,
)

__all__ = [
    "MIN_BLOCK_ROWS",
    "Atoms",
    "AtomsPer",
    "Blocks",
    "Calibration",
    "Changes",
    "ClassCovariance",
    "ColumnMoments",
    "Correlation",
    "CovarianceType",
    "Estimate",
    "Floats",
    "Interpolant",
    "LabelledMeasure",
    "LabelledSummary",
    "Masses",
    "Measure",
    "Plan",
    "Populations",
    "Summary",
    "SyntheticSample",
    "announce_compiling",
    "are_identical",
    "as_labels",
    "beyond_chance",
    "block_means",
    "block_moments",
    "bures",
    "calibrate",
    "changed_correlations",
    "changes",
    "check_order",
    "class_codes",
    "column_moments",
    "count_synthetic_transports",
    "critical_score",
    "dataset_distance",
    "directions",
    "distil",
    "distil_labelled",
    "effective_counts",
    "estimate",
    "ground_cost",
    "interpolate",
    "labelled",
    "large_classes",
    "lower_bound",
    "lower_bounds",
    "min_cell_size",
    "pair_distances",
    "pairwise_pvalues",
    "permutation_test",
    "plan_columns",
    "reduce_covariance",
    "reduce_support",
    "rounding",
    "row_order",
    "segments_of",
    "shrinkage_factors",
    "solve",
    "summarise",
    "summarise_classes",
    "summarise_plan",
    "synthetic_distance",
    "synthetic_distances",
    "upper_bound",
    "upper_bounds",
    "warm_up",
    "wasserstein",
]
