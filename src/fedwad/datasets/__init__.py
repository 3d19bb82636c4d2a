"""Public datasets, and partitions of labelled data among clients.

>>> from fedwad.datasets import load, partition
>>> X, y = load("digits")
>>> partition.class_pairs(X, y, clients=10, samples=60, seed=0)
Partition(10 clients, 60 samples each, 600 of 1797 samples, 5 groups)
"""

from fedwad.datasets import partition
from fedwad.datasets.loading import HEART_LABEL, HEART_SITES, NAMES, load
from fedwad.datasets.partition import Partition

__all__ = ["HEART_LABEL", "HEART_SITES", "NAMES", "Partition", "load", "partition"]
