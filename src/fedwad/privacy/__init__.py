"""Differential privacy: the mechanism, its privacy loss, the release of a site's data, and what a
server computes from it."""

from fedwad.privacy._denoise import class_means, denoise, without_privacy_noise
from fedwad.privacy._feasibility import FeasibilityReport, plan
from fedwad.privacy._mechanism import check_budget, compose, delta_of, epsilon_of, mu_of
from fedwad.privacy._release import MOST_FEATURES, Release, release, split
from fedwad.privacy._schema import check_draft, count_schema_sums, release_schema, schema_from_sums
from fedwad.privacy.columns import (
    BinnedColumn,
    ColumnsRelease,
    PrivateDistances,
    bin_columns,
    noise_of,
    private_distances,
    release_columns,
)
from fedwad.privacy.dp import DP
