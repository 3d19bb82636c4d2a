"""A few points that represent the data of all sites: the public function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_callback, check_integer
from fedwad._coreset.result import CoresetResult, CoresetRound
from fedwad._coreset.run import learn_by_epochs, learn_from_summaries, learn_from_union
from fedwad._coreset.task import CoresetTask
from fedwad._options import Method, resolve
from fedwad.federation import Federation, MeteredFederation, Site, as_federation, choose_sites
from fedwad.methods import (
    CORESET_METHODS,
    DirectCoreset,
    FedWaDCoreset,
    SummaryCoreset,
    UnionCoreset,
)

__all__ = ["coreset"]

MethodName = Literal["union", "summary", "fedwad", "direct"]


def coreset(
    fed: Federation | Mapping[str, Any] | Any,
    size: int = 10,
    method: MethodName | UnionCoreset | SummaryCoreset | FedWaDCoreset | DirectCoreset = "union",
    rounds: int | None = None,
    seed: int = 0,
    *,
    sites: Sequence[str] | None = None,
    callback: Callable[[CoresetRound], None] | None = None,
    **options: Any,
) -> CoresetResult:
    """Learn a few points that are as close as possible in W2 to the union of all sites' samples.

    Parameters
    ----------
    fed : a federation, one site of it (`fed["paris"]`), a mapping from names to data, or one array
    size : number of points S
    method : "union": the coreset of all samples together, with a certified distance. "summary":
        from one summary of each site and nothing else; less exact, with a wider interval. "fedwad":
        the paper's method, gradient steps on the mean distance to a few random sites. "direct": as
        "fedwad", but the coreset itself travels instead of a support. Or an object of
        `fedwad.methods`, which holds its options.
    rounds : largest number of rounds of "union", epochs of "fedwad" and "direct"; 50 when left out
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    sites : names of the sites to ask; all when left out
    callback : called with each finished `CoresetRound`, for progress bars
    options : options of the method. "union" takes `weights`, `init`, `clients_per_round` and `tol`;
        "summary" takes `weights`; "direct" takes `init`, `clients_per_round`, `tol`, `optimizer`
        and `learning_rate`; "fedwad" takes those of "direct", `support` and `inner_rounds`. See
        `fedwad.methods.UnionCoreset`, `SummaryCoreset`, `DirectCoreset` and `FedWaDCoreset`.

    Returns
    -------
    CoresetResult
        `points`, `weights`, the distance `value` with its certified `lower` and `upper`, `history`,
        `failed`, `traffic`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> data = {"paris": rng.normal(0, 1, (90, 2)), "oslo": rng.normal(9, 1, (30, 2))}
    >>> c = fedwad.coreset(data, size=4)
    >>> sorted((c.points.mean(axis=1) > 4.5).tolist())  # oslo has a quarter of the rows
    [False, False, False, True]
    >>> c.upper / c.lower < 1.001
    True

    References
    ----------
    Rakotomamonjy, Nadjahi, Ralaivola, Federated Wasserstein Distance, ICLR 2024.
    Claici, Genevay, Solomon, Wasserstein Measure Coresets, 2018.
    """
    if rounds is not None:
        options["rounds"] = rounds
    chosen_method: Method = resolve(method, options, CORESET_METHODS)
    size, seed = check_integer(size, "size"), check_integer(seed, "seed", 0)
    check_callback(callback)
    federation, site_name = _federation(fed)
    names = choose_sites(federation, site_name if sites is None else sites, "a coreset")
    task = CoresetTask(names, size, chosen_method, seed, callback)
    metered = MeteredFederation(federation)
    with single_threaded_blas():
        if isinstance(chosen_method, UnionCoreset):
            return learn_from_union(metered, task, chosen_method)
        if isinstance(chosen_method, SummaryCoreset):
            return learn_from_summaries(metered, task, chosen_method)
        assert isinstance(chosen_method, FedWaDCoreset | DirectCoreset)  # noqa: S101
        return learn_by_epochs(metered, task, chosen_method)


def _federation(fed: Any) -> tuple[Federation, tuple[str, ...] | None]:
    """Return the federation of `fed`, and the name of the site if `fed` is a site, else None."""
    if isinstance(fed, Site):
        return fed.federation, (fed.name,)
    has_sites = isinstance(fed, Mapping) or hasattr(type(fed), "ask")
    return as_federation(fed if has_sites else {"data": fed}), None
