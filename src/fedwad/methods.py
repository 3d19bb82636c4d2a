"""The methods of `fedwad.distance`, `fedwad.matrix` and `fedwad.coreset`, each with its options.

A method is given as a word, with its options as keywords, or as an object of this module:

>>> import fedwad
>>> X, Y = [[0.0], [1.0]], [[2.0], [3.0]]
>>> one = fedwad.distance(X, Y, method="fedwad", support=2, rounds=3)
>>> two = fedwad.distance(X, Y, method=fedwad.methods.FedWaD(support=2, rounds=3))
>>> one.value == two.value
True

Objects check themselves: an option that is out of range raises `fedwad.InputError`.
`support` is the number of points of a support; `cells` is the number of cells of a summary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from fedwad._options import Choice, Integer, Method, Number, Points, Position, option
from fedwad.errors import InputError
from fedwad.ot import CovarianceType, Interpolant, Masses, Measure

__all__ = [
    "DirectCoreset",
    "FedWaD",
    "FedWaDCoreset",
    "Hub",
    "Pairs",
    "Summary",
    "SummaryCoreset",
    "UnionCoreset",
]

_COVARIANCE = Choice(get_args(CovarianceType))
_COVARIANCE_HELP = (
    "Form of the within-cell covariance that sites send; auto is full up to 1024 features."
)
_WEIGHTS = Choice(get_args(Masses))
_WEIGHTS_HELP = "Equal weights, or each point's share of the data (free, as in k-means)."
_INIT = Points(("summaries", "moments"))
_INIT_HELP = "Start from one summary of each site, or from points drawn around the pooled mean."
_EPOCHS_HELP = "Largest number of rounds (union) or epochs."
_PER_ROUND_HELP = "Random sites asked in a round; all of them for union when left out."
_OPTIMIZER = Choice(("adam", "sgd"))
_OPTIMIZER_HELP = "Adam, or plain gradient steps."
_RATE_HELP = "Learning rate; by default a tenth of the data's scale for adam, 0.5 for sgd."


@dataclass(frozen=True)
class Summary(Method):
    """One summary from each site: weights, means and pooled covariance of k-means cells.

    Parameters
    ----------
    cells : number of k-means cells; with labels it is divided among the classes, at least one each
    covariance_type : form of the within-cell covariance that sites send: "full", "lowrank", "diag",
        "spherical"; "auto" is full up to 1024 features. With labels "auto" is full up to 64
        features, and 40 main directions with the diagonal of each class beyond that.
    """

    name: ClassVar[str] = "summary"
    about: ClassVar[str] = "one message from each site"

    cells: int = option(10, Integer(), "Number of cells of a summary.")
    covariance_type: CovarianceType = option("auto", _COVARIANCE, _COVARIANCE_HELP)


@dataclass(frozen=True)
class FedWaD(Method):
    """The paper's Algorithm 1: a support travels between the sites.

    Parameters
    ----------
    support : number of points of the support
    rounds : largest number of rounds
    t : position on the geodesic, in (0, 1), or "random" for a new one each round. A random
        position does not protect the data.
    interpolant : "barycentric" keeps the support small; "exact" is the paper's exact
        interpolating measure, which reveals every sample to the server
    reveal : whether sites send their distance to the support in the "last" message only or in
        "every" round. Sending it last, as the paper proposes, does not protect data: the supports
        of the earlier rounds reveal as much.
    tol : stop when the server's running estimate changes by less than this fraction in two
        consecutive rounds
    max_support : largest number of atoms that an exact interpolating measure may keep
    init : support to start from, an array (points, features) or a Measure; its size is then the
        number `support`. By default points are drawn around the pooled mean of the sites.
    covariance_type : form of the within-cell covariance that sites send in the final message
    """

    name: ClassVar[str] = "fedwad"
    about: ClassVar[str] = "the paper's rounds"

    support: int = option(100, Integer(), "Number of support points.")
    rounds: int = option(20, Integer(), "Largest number of rounds.")
    t: float | Literal["random"] = option(
        0.5,
        Position(),
        "Position on the geodesic, in (0, 1), or 'random'. A random position does not protect"
        " the data.",
    )
    interpolant: Interpolant = option(
        "barycentric",
        Choice(get_args(Interpolant)),
        "Interpolating measure that sites send; 'exact' reveals every sample to the server.",
    )
    reveal: Literal["last", "every"] = option(
        "last", Choice(("last", "every")), "When sites send their distance to the support."
    )
    tol: float = option(
        0.0, Number(), "Stop when the running estimate changes by less than this fraction."
    )
    max_support: int = option(1000, Integer(), "Largest support of an exact interpolating measure.")
    init: Any = option(None, Points(), "Starting cloud.")
    covariance_type: CovarianceType = option("auto", _COVARIANCE, _COVARIANCE_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.init, Measure):
            if self.support not in (len(self.init), FedWaD.support):
                raise InputError(
                    f"support is {self.support} and init has {len(self.init)} points; leave"
                    " support out."
                )
            object.__setattr__(self, "support", len(self.init))


@dataclass(frozen=True)
class _MatrixRounds(Method):
    """The options of matrices in which supports travel."""

    support: int = option(10, Integer(), "Number of support points.")
    rounds: int = option(5, Integer(), "Number of rounds.")
    covariance_type: CovarianceType = option("auto", _COVARIANCE, _COVARIANCE_HELP)


@dataclass(frozen=True)
class Hub(_MatrixRounds):
    """All sites transport their data to one shared support, which moves to their mean.

    Parameters
    ----------
    support : number of points of the shared support
    rounds : number of rounds
    covariance_type : form of the within-cell covariance that sites send in the final message;
        "auto" is full up to 64 features, and the diagonal (low rank for five sites) beyond that
    """

    name: ClassVar[str] = "hub"
    about: ClassVar[str] = "rounds with one shared support"


@dataclass(frozen=True)
class Pairs(_MatrixRounds):
    """The paper's protocol for each pair of sites; all pairs of a round share one message.

    Parameters
    ----------
    support : number of points of each pair's support
    rounds : number of rounds
    covariance_type : form of the within-cell covariance that sites send in the final message
    """

    name: ClassVar[str] = "pairs"
    about: ClassVar[str] = "the paper's rounds, pair by pair"


@dataclass(frozen=True)
class UnionCoreset(Method):
    """A coreset of the union of all sites' samples, with a certified distance.

    The server holds atoms and potentials; sites send masses and sums of the atoms' power cells.

    Parameters
    ----------
    rounds : largest number of rounds
    weights : "equal" masses, or "free": each atom weighs what is nearest to it (k-means)
    init : "summaries" asks each site for one summary and starts from a coreset of a synthetic
        sample of the union, or as "moments" does if all sites refuse. "moments" draws points around
        the pooled mean. An array (size, features) is itself the start.
    clients_per_round : number of random sites asked in a round; None asks all
    tol : stop when the bounds on the squared distance differ by less than this fraction and moving
        the atoms gains less than it
    """

    name: ClassVar[str] = "union"
    about: ClassVar[str] = "all sites' data together"

    rounds: int = option(50, Integer(), _EPOCHS_HELP)
    weights: Masses = option("equal", _WEIGHTS, _WEIGHTS_HELP)
    init: Any = option("summaries", _INIT, _INIT_HELP)
    clients_per_round: int | None = option(None, Integer(), _PER_ROUND_HELP)
    tol: float = option(1e-4, Number(), "Stop when bounds and gains are below this fraction.")


@dataclass(frozen=True)
class SummaryCoreset(Method):
    """A coreset from one summary of each site: less exact, with wider bounds, and fewer bytes.

    Parameters
    ----------
    weights : "equal" masses, or "free": each atom weighs what is nearest to it (k-means)
    """

    name: ClassVar[str] = "summary"
    about: ClassVar[str] = "from one summary of each site"

    weights: Masses = option("equal", _WEIGHTS, _WEIGHTS_HELP)


@dataclass(frozen=True)
class _CoresetEpochs(Method):
    """The options of coresets that are learned by gradient steps."""

    rounds: int = option(50, Integer(), _EPOCHS_HELP)
    init: Any = option("moments", _INIT, _INIT_HELP)
    clients_per_round: int = option(10, Integer(), _PER_ROUND_HELP)
    tol: float = option(0.0, Number(), "Stop when bounds and gains are below this fraction.")
    optimizer: Literal["adam", "sgd"] = option("adam", _OPTIMIZER, _OPTIMIZER_HELP)
    learning_rate: float | None = option(None, Number(positive=True), _RATE_HELP)


@dataclass(frozen=True)
class FedWaDCoreset(_CoresetEpochs):
    """The paper's coreset: gradient steps on the mean FedWaD distance to some random sites.

    Parameters
    ----------
    rounds : largest number of epochs
    init : "moments", "summaries", or an array (size, features), as for `UnionCoreset`
    clients_per_round : number of random sites asked in an epoch
    tol : stop when an epoch moves the atoms by less than this fraction of the distance
    support : number of points of the support of each FedWaD distance
    inner_rounds : number of rounds of each FedWaD distance
    optimizer : "adam" or "sgd"
    learning_rate : by default a tenth of the data's scale for "adam", 0.5 for "sgd"
    """

    name: ClassVar[str] = "fedwad"
    about: ClassVar[str] = "the paper's"

    support: int = option(10, Integer(), "Number of support points.")
    inner_rounds: int = option(20, Integer(), "Rounds of each FedWaD.")


@dataclass(frozen=True)
class DirectCoreset(_CoresetEpochs):
    """The paper's coreset with the coreset itself as the support that travels.

    Parameters
    ----------
    rounds, init, clients_per_round, tol, optimizer, learning_rate : as for `FedWaDCoreset`
    """

    name: ClassVar[str] = "direct"
    about: ClassVar[str] = "the coreset itself travels"


DISTANCE_METHODS = (Summary, FedWaD)
MATRIX_METHODS = (Summary, Hub, Pairs)
CORESET_METHODS = (UnionCoreset, SummaryCoreset, FedWaDCoreset, DirectCoreset)
