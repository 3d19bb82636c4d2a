"""The distance between two sites: the public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_callback, check_choice, check_flag, check_integer
from fedwad._distance.from_summaries import estimate_from_releases, estimate_from_summaries
from fedwad._distance.result import DistanceResult
from fedwad._distance.rounds import Round
from fedwad._distance.run import run_fedwad
from fedwad._distance.task import DistanceTask
from fedwad._explain.dominant import warn_dominant
from fedwad._options import Method, resolve
from fedwad.errors import InputError
from fedwad.federation import ClassStatistics, MeteredFederation, Site, fill_clipping, local
from fedwad.methods import DISTANCE_METHODS, FedWaD, Summary
from fedwad.ot import ClassCovariance, check_order
from fedwad.privacy import DP

__all__ = ["as_sites", "check_class_statistics", "check_private", "distance"]


def distance(
    a: Any,
    b: Any,
    method: Literal["summary", "fedwad"] | Summary | FedWaD = "summary",
    *,
    p: float = 2.0,
    seed: int = 0,
    labels: bool = False,
    class_covariance: ClassCovariance = "diag",
    privacy: DP | Mapping[str, Any] | None = None,
    callback: Callable[[Round], None] | None = None,
    **options: Any,
) -> DistanceResult:
    """Estimate W_p between the data of two sites without pooling the data.

    Parameters
    ----------
    a, b : two sites of one federation (`fed["paris"]`), or data (arrays, frames, paths), which
        become local sites
    method : "summary" for one message from each site, "fedwad" for the paper's rounds, or an
        object of `fedwad.methods`, which holds its options
    p : order of the distance, at least 1
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    labels : True to estimate the dataset distance between labelled data. That is W2 with the cost
        |x-x'|^2 + |m_y-m_y'|^2 + |s_y-s_y'|^2, where the class y of x has the mean m_y and the
        standard deviations s_y (divisor n). Label names do not matter, and the two sites may have
        different classes.
    class_covariance : with labels, "diag" for the cost above. "full" replaces its last term by the
        squared Frobenius norm of the difference between the square roots of the covariance matrices
        of the two classes.
    privacy : `fedwad.DP`: each site makes one release under differential privacy, and the distance
        is estimated from these releases. `lower` and `upper` are not certified then. Only for
        method "summary" and p = 2, without labels.
    callback : called with each finished `Round` of "fedwad", for progress bars
    options : options of the method. "summary" takes `cells` and `covariance_type`; "fedwad" takes
        `support`, `rounds`, `t`, `interpolant`, `reveal`, `tol`, `max_support`, `init` and
        `covariance_type`. See `fedwad.methods.Summary` and `fedwad.methods.FedWaD`.

    Returns
    -------
    DistanceResult
        `value`, the certified `lower` and `upper`, the paper's estimate `fedwad`, `history`,
        `support`, `traffic`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(0, 1, (300, 2)), rng.normal(3, 1, (300, 2))
    >>> r, exact = fedwad.distance(X, Y), fedwad.wasserstein(X, Y)
    >>> bool(r.lower <= exact <= r.upper), abs(r.value / exact - 1) < 0.02
    (True, True)

    Labelled data:

    >>> y = np.repeat(["cat", "dog"], 150)
    >>> r = fedwad.distance((X, y), (Y, y), labels=True)
    >>> r.lower <= fedwad.ot.dataset_distance(X, y, Y, y) <= r.upper
    True

    References
    ----------
    Rakotomamonjy, Nadjahi, Ralaivola, Federated Wasserstein Distance, ICLR 2024.
    Alvarez-Melis, Fusi, Geometric Dataset Distances via Optimal Transport, NeurIPS 2020.
    """
    chosen_method: Method = resolve(method, options, DISTANCE_METHODS)
    order, seed = check_order(p), check_integer(seed, "seed", 0)
    class_statistics = check_class_statistics(labels, class_covariance, order)
    guarantee = check_private(privacy, chosen_method, order, class_statistics)
    check_callback(callback)
    first, second = as_sites(a, b)
    names = first.name, second.name
    task = DistanceTask(names, chosen_method, order, seed, class_statistics)
    if first == second:
        return task.zero()
    metered = MeteredFederation(first.federation)
    with single_threaded_blas():
        if guarantee is not None:
            guarantee = fill_clipping(first.federation, guarantee)
            result = estimate_from_releases(metered, task, guarantee)
        elif isinstance(chosen_method, FedWaD):
            result = run_fedwad(metered, task, chosen_method, callback)
        else:
            assert isinstance(chosen_method, Summary)  # noqa: S101
            result = estimate_from_summaries(metered, task, chosen_method)
    warn_dominant(result.evidence)
    return result


def check_class_statistics(labels: Any, class_covariance: Any, p: float) -> ClassStatistics:
    """Return what classes are compared by: "diag", "full", or "ignored" without labels.

    InputError if the options contradict each other.
    """
    check_choice(class_covariance, "class_covariance", ("diag", "full"))
    if not check_flag(labels, "labels"):
        if class_covariance != "diag":
            raise InputError(
                f"class_covariance is '{class_covariance}' without labels; set labels too."
            )
        return "ignored"
    if p != 2:
        raise InputError(f"p is {p:g}; a dataset distance has p = 2.")
    class_statistics: ClassStatistics = class_covariance
    return class_statistics


def check_private(
    privacy: Any, method: Method, p: float, class_statistics: ClassStatistics
) -> DP | None:
    """Return the guarantee that `privacy` asks for, or None; InputError if it cannot be given."""
    if privacy is None:
        return None
    guarantee = DP.of(privacy)
    if not isinstance(method, Summary) or p != 2 or class_statistics != "ignored":
        raise InputError(
            "Differential privacy is for method 'summary' with p = 2 and without labels; set these"
            " or leave privacy out."
        )
    changed_options = method.changed()
    if changed_options:
        raise InputError(
            f"{changed_options[0]} has no effect under differential privacy, where"
            " releases replace summaries; leave it out."
        )
    return guarantee


def as_sites(a: Any, b: Any) -> tuple[Site, Site]:
    """Return `a` and `b` if they are sites of one federation; data become sites of a local one."""
    if isinstance(a, Site) and isinstance(b, Site):
        if a.federation is not b.federation:
            raise InputError("The two sites belong to different federations; take both from one.")
        return a, b
    if isinstance(a, Site) or isinstance(b, Site):
        raise InputError(
            "A site and plain data cannot be mixed; put the data into the same federation."
        )
    if a is b:
        fed = local({"a": a})
        return fed["a"], fed["a"]
    fed = local({"a": a, "b": b})
    return fed["a"], fed["b"]
