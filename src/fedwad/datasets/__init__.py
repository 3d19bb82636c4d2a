"""Public datasets, partitions of labelled data among clients, and random codes of samples.

>>> from fedwad.datasets import load, partition
>>> X, y = load("digits")
>>> partition.class_pairs(X, y, clients=10, samples=60, seed=0)
Partition(10 clients, 60 samples each, 600 of 1797 samples, 5 groups)
"""

from fedwad.datasets import partition
from fedwad.datasets._code import random_code
from fedwad.datasets._load import NAMES, load
from fedwad.datasets._partition import Partition

__all__ = ["NAMES", "Partition", "load", "partition", "random_code"]
