"""What is known of data without the data: summaries, bounds, estimates, calibration and tests."""

from fedwad.statistics.blocking import Blocks
from fedwad.statistics.bounds import column_bounds, lower_bounds, rounding_error, upper_bounds
from fedwad.statistics.calibration import Calibration, calibrate
from fedwad.statistics.cells import (
    Atoms,
    AtomsPer,
    Counted,
    Masses,
    distil,
    distil_labelled,
    large_classes,
)
from fedwad.statistics.estimates import beyond_chance, estimate
from fedwad.statistics.summaries import (
    CellSums,
    CovarianceType,
    LabelledSummary,
    Summary,
    merge_cells,
    reduce_covariance,
    summarise,
    summarise_classes,
    summarise_plan,
)
from fedwad.statistics.synthetic import SyntheticSample, synthetic_distances
from fedwad.statistics.testing import permutation_test
