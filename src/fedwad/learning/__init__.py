"""Learning from many clients: FedAvg, FedRep and FedPer in groups, the coreset nearest-neighbour
classifier."""

from typing import TYPE_CHECKING, Any

from fedwad.learning._classifier_accuracy import ClassifierAccuracy, classifier_accuracy
from fedwad.learning._options import Algorithm, TrainingOptions
from fedwad.learning._train import train
from fedwad.learning._training_result import TrainingResult, TrainingRound

if TYPE_CHECKING:
    from fedwad.learning._coreset_classifier import CoresetClassifier

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


def __getattr__(name: str) -> Any:  # scikit-learn, its parent, loads when it is first needed
    if name == "CoresetClassifier":
        from fedwad.learning._coreset_classifier import CoresetClassifier

        return CoresetClassifier
    raise AttributeError(f"module 'fedwad.learning' has no attribute '{name}'")
