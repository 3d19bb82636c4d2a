"""Differential privacy: the mechanism, its privacy loss, the release of a site's data, and what a
server computes from it."""

from fedwad.privacy._accounting import check_budget, compose, delta_of, epsilon_of, mu_of
from fedwad.privacy._chance import sampling_noise
from fedwad.privacy._denoise import class_means, denoise
from fedwad.privacy._feasibility import FeasibilityReport, plan
from fedwad.privacy._noise import privacy_noise_effect
from fedwad.privacy._release import Release, release
from fedwad.privacy._schema import check_draft, count_schema_sums, release_schema, schema_from_sums
from fedwad.privacy._split import MOST_FEATURES, split
from fedwad.privacy.dp import DP

__all__ = [
    "DP",
    "MOST_FEATURES",
    "FeasibilityReport",
    "Release",
    "check_budget",
    "check_draft",
    "class_means",
    "compose",
    "count_schema_sums",
    "delta_of",
    "denoise",
    "epsilon_of",
    "mu_of",
    "plan",
    "privacy_noise_effect",
    "release",
    "release_schema",
    "sampling_noise",
    "schema_from_sums",
    "split",
]
