"""fedwad: how alike are data sets that may never meet?

>>> import fedwad
>>> fedwad.wasserstein([[0.0], [1.0]], [[2.0], [3.0]])     # exact, on one machine
2.0
>>> r = fedwad.distance([[0.0], [1.0]], [[2.0], [3.0]], support=2)   # through small point clouds
>>> r.lower <= 2.0 <= r.upper
True
"""

from fedwad import datasets, ot
from fedwad._fedwad import Round
from fedwad._matrix_result import MatrixResult
from fedwad._result import DistanceResult
from fedwad.distance import distance
from fedwad.errors import CertificateError, FederationError, FedwadError, InputError, PolicyError
from fedwad.federation import Policy, local
from fedwad.matrix import matrix
from fedwad.ot import Measure, wasserstein
from fedwad.otdd import otdd

__version__ = "0.1.0"

__all__ = [
    "CertificateError",
    "DistanceResult",
    "FederationError",
    "FedwadError",
    "InputError",
    "MatrixResult",
    "Measure",
    "Policy",
    "PolicyError",
    "Round",
    "datasets",
    "distance",
    "local",
    "matrix",
    "ot",
    "otdd",
    "wasserstein",
]
