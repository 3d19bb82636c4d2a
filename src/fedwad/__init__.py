"""Measure how similar datasets are without pooling them.

>>> import fedwad
>>> fedwad.wasserstein([[0.0], [1.0]], [[2.0], [3.0]])  # exact, on one machine
2.0
>>> r = fedwad.distance([[0.0], [1.0]], [[2.0], [3.0]])  # from one message of each site
>>> r.lower <= 2.0 <= r.upper
True
"""

from typing import TYPE_CHECKING, Any

from fedwad import datasets, methods, ot
from fedwad._audit import AuditResult, audit
from fedwad._coreset.api import coreset
from fedwad._coreset.result import CoresetResult, CoresetRound
from fedwad._distance.api import distance
from fedwad._distance.permutation import PermutationTestResult, permutation_test
from fedwad._distance.result import DistanceResult
from fedwad._distance.rounds import Round
from fedwad._drift.reference import Reference
from fedwad._drift.result import DriftResult
from fedwad._embedding.api import embed
from fedwad._embedding.result import EmbeddingResult
from fedwad._explain.explanation import Explanation
from fedwad._matrix.api import matrix
from fedwad._matrix.placement import Placement
from fedwad._matrix.result import MatrixResult
from fedwad.errors import (
    CertificateError,
    DataWarning,
    FederationError,
    FedwadError,
    InputError,
    PolicyError,
)
from fedwad.federation import Policy, local, schema
from fedwad.ot import Measure, wasserstein
from fedwad.privacy import DP
from fedwad.tables import Schema

if TYPE_CHECKING:
    from fedwad.learning import CoresetClassifier

__version__ = "0.1.0"

__all__ = [
    "DP",
    "AuditResult",
    "CertificateError",
    "CoresetClassifier",
    "CoresetResult",
    "CoresetRound",
    "DataWarning",
    "DistanceResult",
    "DriftResult",
    "EmbeddingResult",
    "Explanation",
    "FederationError",
    "FedwadError",
    "InputError",
    "MatrixResult",
    "Measure",
    "PermutationTestResult",
    "Placement",
    "Policy",
    "PolicyError",
    "Reference",
    "Round",
    "Schema",
    "audit",
    "coreset",
    "datasets",
    "distance",
    "embed",
    "local",
    "matrix",
    "methods",
    "ot",
    "permutation_test",
    "schema",
    "wasserstein",
]


def __getattr__(name: str) -> Any:  # scikit-learn loads when first needed
    if name == "CoresetClassifier":
        from fedwad.learning import CoresetClassifier

        return CoresetClassifier
    raise AttributeError(f"module 'fedwad' has no attribute '{name}'")
