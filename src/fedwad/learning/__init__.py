"""Learning from many sites: FedAvg, FedRep and FedPer inside groups, and a nearest-neighbour
classifier of coresets.

`fedwad.learning.local` trains on one machine and knows nothing of federations. Clients use it to
answer training requests, so names of this package load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedwad.learning._classifier_accuracy import ClassifierAccuracy, classifier_accuracy
    from fedwad.learning._coreset_classifier import CoresetClassifier
    from fedwad.learning._options import Algorithm, TrainingOptions
    from fedwad.learning._result import TrainingResult, TrainingRound
    from fedwad.learning._train import train

__all__ = [
    "Algorithm",
    "ClassifierAccuracy",
    "CoresetClassifier",
    "TrainingOptions",
    "TrainingResult",
    "TrainingRound",
    "classifier_accuracy",
    "train",
]

_MODULES = {
    "Algorithm": "_options",
    "ClassifierAccuracy": "_classifier_accuracy",
    "CoresetClassifier": "_coreset_classifier",
    "TrainingOptions": "_options",
    "TrainingResult": "_result",
    "TrainingRound": "_result",
    "classifier_accuracy": "_classifier_accuracy",
    "train": "_train",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"fedwad.learning.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'fedwad.learning' has no attribute '{name}'")
