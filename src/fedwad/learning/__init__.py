"""Learning from many sites: FedAvg, FedRep and FedPer inside groups, and a nearest-neighbour
classifier of coresets.

`fedwad.learning.local` trains on one machine and knows nothing of federations. Clients use it to
answer training requests, so names of this package load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedwad.learning.classifier import CoresetClassifier
    from fedwad.learning.training import (
        Algorithm,
        TrainingOptions,
        TrainingResult,
        TrainingRound,
        train,
    )

__all__ = [
    "Algorithm",
    "CoresetClassifier",
    "TrainingOptions",
    "TrainingResult",
    "TrainingRound",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fedwad.learning' has no attribute '{name}'")
    module = "classifier" if name == "CoresetClassifier" else "training"
    return getattr(import_module(f"fedwad.learning.{module}"), name)
