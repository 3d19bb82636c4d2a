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
from typing import Annotated, Any, ClassVar, Literal

from fedwad._options import Method, Position, Positive, start
from fedwad.errors import InputError
from fedwad.statistics import CovarianceType, Masses
from fedwad.transport import Interpolant, Measure

#: What a coreset starts from.
Start = Annotated[Any, start("summaries", "moments")]


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

    cells: int = 10
    covariance_type: CovarianceType = "auto"


@dataclass(frozen=True)
class FedWaD(Method):
    """The paper's Algorithm 1: a support travels between the sites.

    Parameters
    ----------
    support : number of points of the support
    rounds : largest number of rounds
    t : position on the geodesic. "own": each site, and the server for its step, draws a new one
        from (0, 1) each round and tells nobody. "random": the server draws a new one for all each
        round. Or a number in (0, 1). None of them protects the data.
    interpolant : "barycentric" keeps the support small; "exact" is the paper's exact
        interpolating measure, which reveals every sample to the server
    reveal : what sites send besides the supports. "distance": their distance to the last support
        and nothing else, as in the paper; the result is then the paper's estimate, with bounds from
        the triangle inequality. "last": also the summary of the cells of the last support, from
        which a better estimate and tighter bounds follow. "every": this, and their distance in each
        round. Sending it last does not protect data: the supports of the earlier rounds reveal as
        much.
    tol : stop when the server's running estimate changes by less than this fraction in two
        consecutive rounds
    max_support : largest number of atoms that an exact interpolating measure may keep
    init : "normal" draws the first support from N(0, 1), for which sites tell nothing but their
        number of features. By default points are drawn around the pooled mean of the sites. In
        Python also an array (points, features) or a Measure, whose size is then `support`.
    covariance_type : form of the within-cell covariance that sites send in the final message
    """

    name: ClassVar[str] = "fedwad"
    about: ClassVar[str] = "the paper's rounds"

    support: int = 100
    rounds: int = 20
    t: Position = "own"
    interpolant: Interpolant = "barycentric"
    reveal: Literal["distance", "last", "every"] = "last"
    tol: float = 0.0
    max_support: int = 1000
    init: Annotated[Any, start("normal")] = None
    covariance_type: CovarianceType = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.init, Measure):
            if self.support not in (len(self.init), FedWaD.support):
                raise InputError(
                    f"support is {self.support} and init has {len(self.init)} points; leave"
                    " support out.",
                    "conflicting-options",
                )
            object.__setattr__(self, "support", len(self.init))
        if self.tol > 0 and self.t == "own" and self.reveal != "every":
            raise InputError(
                "tol needs an estimate after each round, which the server has not if sites draw"
                " their own t; set reveal to 'every', or t to 'random' or a number.",
                "bad-option",
            )


@dataclass(frozen=True)
class _MatrixRounds(Method):
    """The options of matrices in which supports travel."""

    support: int = 10
    rounds: int = 5
    covariance_type: CovarianceType = "auto"


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
    t : position on the geodesic: "own", "random" or a number in (0, 1), as for `FedWaD`
    """

    name: ClassVar[str] = "pairs"
    about: ClassVar[str] = "the paper's rounds, pair by pair"

    t: Position = 0.5


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
        the pooled mean. In Python an array (size, features) is itself the start.
    clients_per_round : number of random sites asked in a round; None asks all
    tol : stop when the bounds on the squared distance differ by less than this fraction and moving
        the atoms gains less than it
    """

    name: ClassVar[str] = "union"
    about: ClassVar[str] = "all sites' data together"

    rounds: int = 50
    weights: Masses = "equal"
    init: Start = "summaries"
    clients_per_round: int | None = None
    tol: float = 1e-4


@dataclass(frozen=True)
class SummaryCoreset(Method):
    """A coreset from one summary of each site: less exact, with wider bounds, and fewer bytes.

    Parameters
    ----------
    weights : "equal" masses, or "free": each atom weighs what is nearest to it (k-means)
    """

    name: ClassVar[str] = "summary"
    about: ClassVar[str] = "from one summary of each site"

    weights: Masses = "equal"


@dataclass(frozen=True)
class _CoresetEpochs(Method):
    """The options of coresets that are learned by gradient steps."""

    rounds: int = 50
    init: Start = "moments"
    clients_per_round: int = 10
    tol: float = 0.0
    learning_rate: Positive | None = None


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
    t : position on the geodesic: "own", "random" or a number in (0, 1), as for `FedWaD`
    samples_per_client : number of random rows of each site that an epoch is about, as in the
        paper; None takes all
    learning_rate : of Adam; by default a tenth of the data's scale
    """

    name: ClassVar[str] = "fedwad"
    about: ClassVar[str] = "the paper's"

    support: int = 10
    inner_rounds: int = 20
    t: Position = 0.5
    samples_per_client: int | None = None


@dataclass(frozen=True)
class DirectCoreset(_CoresetEpochs):
    """The paper's coreset with the coreset itself as the support that travels.

    Parameters
    ----------
    rounds, init, clients_per_round, tol, learning_rate : as for `FedWaDCoreset`
    """

    name: ClassVar[str] = "direct"
    about: ClassVar[str] = "the coreset itself travels"


DISTANCE_METHODS = (Summary, FedWaD)
MATRIX_METHODS = (Summary, Hub, Pairs)
CORESET_METHODS = (UnionCoreset, SummaryCoreset, FedWaDCoreset, DirectCoreset)
