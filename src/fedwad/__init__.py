"""Measure how similar datasets are without pooling them.

>>> import fedwad
>>> fedwad.wasserstein([[0.0], [1.0]], [[2.0], [3.0]])  # exact, on one machine
2.0
>>> r = fedwad.distance([[0.0], [1.0]], [[2.0], [3.0]])  # from one message of each site
>>> r.lower <= 2.0 <= r.upper
True
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedwad import datasets as datasets
    from fedwad import methods as methods
    from fedwad import statistics as statistics
    from fedwad import transport as transport
    from fedwad.audit import AuditResult as AuditResult
    from fedwad.audit import audit as audit
    from fedwad.compare import ColumnsResult as ColumnsResult
    from fedwad.compare import DistanceResult as DistanceResult
    from fedwad.compare import DriftResult as DriftResult
    from fedwad.compare import EmbeddingResult as EmbeddingResult
    from fedwad.compare import Explanation as Explanation
    from fedwad.compare import MatrixResult as MatrixResult
    from fedwad.compare import PermutationTestResult as PermutationTestResult
    from fedwad.compare import Placement as Placement
    from fedwad.compare import Reference as Reference
    from fedwad.compare import Round as Round
    from fedwad.compare import distance as distance
    from fedwad.compare import embed as embed
    from fedwad.compare import matrix as matrix
    from fedwad.compare import permutation_test as permutation_test
    from fedwad.compare.table_one import columns as columns
    from fedwad.coresets.api import coreset as coreset
    from fedwad.coresets.barycenter import BarycenterResult as BarycenterResult
    from fedwad.coresets.barycenter import BarycenterRound as BarycenterRound
    from fedwad.coresets.barycenter import barycenter as barycenter
    from fedwad.coresets.result import CoresetResult as CoresetResult
    from fedwad.coresets.result import CoresetRound as CoresetRound
    from fedwad.errors import CertificateError as CertificateError
    from fedwad.errors import DataWarning as DataWarning
    from fedwad.errors import FederationError as FederationError
    from fedwad.errors import FedwadError as FedwadError
    from fedwad.errors import InputError as InputError
    from fedwad.errors import PolicyError as PolicyError
    from fedwad.federation import Policy as Policy
    from fedwad.federation import local as local
    from fedwad.federation import schema as schema
    from fedwad.learning import CoresetClassifier as CoresetClassifier
    from fedwad.privacy import DP as DP
    from fedwad.tables import Schema as Schema
    from fedwad.transport import Measure as Measure
    from fedwad.transport import wasserstein as wasserstein

__version__ = "0.1.0"

# The module of each name, which loads when the name is first used: `fedwad --help` needs none.
_MODULES = {
    "audit": "AuditResult audit",
    "compare": "ColumnsResult DistanceResult DriftResult EmbeddingResult Explanation MatrixResult"
    " PermutationTestResult Placement Reference Round distance embed matrix permutation_test",
    "compare.table_one": "columns",
    "coresets.api": "coreset",
    "coresets.barycenter": "BarycenterResult BarycenterRound barycenter",
    "coresets.result": "CoresetResult CoresetRound",
    "errors": "CertificateError DataWarning FederationError FedwadError InputError PolicyError",
    "federation": "Policy local schema",
    "learning": "CoresetClassifier",
    "privacy": "DP",
    "tables": "Schema",
    "transport": "Measure wasserstein",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted([*_MODULE_OF, "datasets", "methods", "statistics", "transport"])


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(import_module(f"fedwad.{_MODULE_OF[name]}"), name)
    elif name in __all__:
        value = import_module(f"fedwad.{name}")
    else:
        raise AttributeError(f"module 'fedwad' has no attribute '{name}'")
    globals()[name] = value
    return value


class _Package(ModuleType):
    """A module whose functions stay when a folder of the same name is imported, as `audit` is."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _MODULE_OF or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
