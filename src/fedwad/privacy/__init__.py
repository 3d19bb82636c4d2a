"""Differential privacy: the mechanism, what it costs, one release of a client's data, and what a server makes of it."""

from fedwad.privacy._accounting import check_promise, composed, delta_of, epsilon_of, mu_of
from fedwad.privacy._noise import Effect, noise_effect
from fedwad.privacy._picture import Picture, class_means, picture
from fedwad.privacy._plan import Plan, Verdict, plan
from fedwad.privacy._release import Release, release
from fedwad.privacy._split import MOST_FEATURES, Split, split
from fedwad.privacy.dp import DP

__all__ = [
    "DP",
    "MOST_FEATURES",
    "Effect",
    "Picture",
    "Plan",
    "Release",
    "Split",
    "Verdict",
    "check_promise",
    "class_means",
    "composed",
    "delta_of",
    "epsilon_of",
    "mu_of",
    "noise_effect",
    "picture",
    "plan",
    "release",
    "split",
]
