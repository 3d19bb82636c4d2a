"""Compare sites: distances, matrices, clusters, placements, drift, embeddings, and why."""

from fedwad.compare.api import PermutationTestResult, distance, matrix, permutation_test
from fedwad.compare.clusters import cluster
from fedwad.compare.drift import DriftResult, Reference, metrics
from fedwad.compare.embedding import EmbeddingResult, describe_clusters, embed, groups_in_words
from fedwad.compare.explanation import Explanation, change_in_words, percent
from fedwad.compare.hub import cell_means
from fedwad.compare.placement import Placement, add_replies, join_options
from fedwad.compare.plots import plane
from fedwad.compare.results import DistanceResult, MatrixResult
from fedwad.compare.rounds import Coupling, FedWaDLoop, OpenRound, Round, draw_support
from fedwad.compare.table_one import ColumnsResult, SiteColumn
from fedwad.compare.task import Progress
