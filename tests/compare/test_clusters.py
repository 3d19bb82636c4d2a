"""Clusters: planted ones are found, wrong input gets a sentence, and nothing warns."""

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score

import fedwad
from failing import fails
from fedwad.compare.clusters import Suggestion, _affinity_graph, cluster, stability, suggest
from fedwad.errors import InputError

#: The paper's three ways, and the weights of suggestions.
WAYS = [("linear", 3), ("knn", 3), ("knn", 5), ("kernel", 3), ("binary", 5)]


def planted(sizes, seed=0, within=1.0, between=10.0, noise=0.1):
    """Distances between clients in blocks, each with some noise, and the blocks."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    distances = np.where(truth[:, None] == truth, within, between) * rng.uniform(
        1 - noise, 1 + noise, (len(truth),) * 2
    )
    distances = np.triu(distances, 1)
    return distances + distances.T, truth


def points_apart(seed, count=12):
    x = np.random.default_rng(seed).standard_normal((count, 3))
    return np.linalg.norm(x[:, None] - x, axis=2)


class TestCluster:
    @pytest.mark.parametrize(("affinity", "n_neighbors"), WAYS)
    @pytest.mark.parametrize("blocks", [2, 3, 5])
    def test_planted_blocks_are_found(self, blocks, affinity, n_neighbors):
        distances, truth = planted([6] * blocks, blocks)
        shuffle = np.random.default_rng(blocks).permutation(len(truth))
        found = cluster(distances[np.ix_(shuffle, shuffle)], blocks, affinity, n_neighbors)
        assert adjusted_rand_score(truth[shuffle], found) == 1.0

    @pytest.mark.parametrize("n_neighbors", [3, 5])
    def test_the_binary_graph_is_scikit_learns(self, n_neighbors):
        distances = points_apart(n_neighbors)
        peer = SpectralClustering(
            2, affinity="precomputed_nearest_neighbors", n_neighbors=n_neighbors
        ).fit(distances**2)
        graph = _affinity_graph(distances, "binary", n_neighbors, 2)
        assert np.array_equal(graph, peer.affinity_matrix_.toarray())

    @pytest.mark.parametrize("seed", [0, 3, 9])
    def test_pairs_that_are_little_nearer_than_the_rest_are_found_where_scikit_learn_finds_them(
        self, seed
    ):
        """Weights between clients are small here: a client's weight to itself must not outdo
        them."""
        rng = np.random.default_rng(seed)
        truth = np.repeat(np.arange(5), 2)
        between = np.triu(rng.uniform(10.5, 14, (5, 5)), 1)
        distances = (between + between.T + 9 * np.eye(5))[np.ix_(truth, truth)] * rng.uniform(
            0.99, 1.01, (10, 10)
        )
        distances = np.triu(distances, 1) + np.triu(distances, 1).T
        peer = SpectralClustering(5, affinity="precomputed", random_state=seed)
        assert (
            adjusted_rand_score(truth, peer.fit_predict(1 - (distances / distances.max()) ** 2))
            == 1.0
        )
        assert cluster(distances, 5, seed=seed).tolist() == truth.tolist()

    def test_unequal_blocks(self):
        distances, truth = planted([2, 5, 9])
        assert cluster(distances, 3).tolist() == truth.tolist()

    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("k", [2, 3, 4])
    def test_numbered_in_order_of_appearance(self, seed, k):
        found = cluster(points_apart(seed), k)
        assert found.dtype == np.int64
        _, first = np.unique(found, return_index=True)
        assert (np.diff(first) > 0).all()
        assert found[0] == 0
        assert set(found.tolist()) <= set(range(k))

    @pytest.mark.parametrize("count", [1, 2, 3, 5])
    def test_any_number_of_clusters_of_any_number_of_clients(self, count):
        distances = points_apart(count, count)
        for k in range(1, count + 1):
            found = cluster(distances, k)
            assert found.shape == (count,)
            assert len(set(found.tolist())) == k

    def test_one_cluster_and_one_each(self):
        distances = points_apart(0, 6)
        assert cluster(distances, 1).tolist() == [0] * 6
        assert cluster(distances, 6).tolist() == list(range(6))
        assert cluster(distances, 6, "knn").tolist() == list(range(6))

    @pytest.mark.parametrize("seed", range(5))
    def test_groups_with_fewer_sites_than_neighbours(self, seed):
        # Each site of the two small groups has three neighbours in the other one.
        truth = np.repeat([0, 1, 2], [6, 3, 3])
        draws = np.triu(np.random.default_rng(seed).random((12, 12)), 1)
        small = np.minimum(truth[:, None], truth) > 0
        apart = np.where(small, 28, 32) + 4 * (draws + draws.T)
        within = 16 + 7 * (draws + draws.T)
        distances = np.where(truth[:, None] == truth, within, apart) * (1 - np.eye(12))
        assert cluster(distances, 3, "knn", 5).tolist() == truth.tolist()

    def test_scale_does_not_matter(self):
        distances, truth = planted([5, 5])
        for scale in (1e-150, 1e-3, 1e150):
            assert cluster(scale * distances, 2).tolist() == truth.tolist()

    def test_same_seed_same_labels(self):
        distances = points_apart(0, 30)
        assert np.array_equal(cluster(distances, 4, seed=3), cluster(distances, 4, seed=3))

    def test_input_stays_as_it_was(self):
        distances, _ = planted([4, 4])
        before = distances.copy()
        cluster(distances, 2, "knn")
        suggest(distances)
        stability(distances, 2, draws=2)
        assert np.array_equal(distances, before)

    @pytest.mark.parametrize(("affinity", "n_neighbors"), WAYS)
    def test_graphs_in_several_parts_do_not_warn(self, affinity, n_neighbors):
        distances, truth = planted([7, 7, 7], noise=0.0)  # all that are apart have weight zero
        assert adjusted_rand_score(truth, cluster(distances, 3, affinity, n_neighbors)) == 1.0
        assert suggest(distances).k == 3

    def test_clients_that_are_all_alike_or_all_equally_far_do_not_warn(self):
        for distances in (np.zeros((6, 6)), 1 - np.eye(6)):
            for affinity, n_neighbors in WAYS:
                found = cluster(distances, 2, affinity, n_neighbors)
                assert found.shape == (6,)
            assert suggest(distances).k >= 1

    def test_identical_clients_are_together(self):
        distances = np.array([[0, 0, 5, 5.0], [0, 0, 5, 5], [5, 5, 0, 0], [5, 5, 0, 0]])
        assert cluster(distances, 2).tolist() == [0, 0, 1, 1]
        assert cluster(distances, 2, "knn", 1).tolist() == [0, 0, 1, 1]


class TestWrongInput:
    @pytest.mark.parametrize(
        ("distances", "problem"),
        [
            ([[0, 1], [2, 0]], "bad-distances"),
            ([[0, np.nan], [np.nan, 0]], "bad-distances"),
            ([[0, np.inf], [np.inf, 0]], "bad-distances"),
            ([[0, -1], [-1, 0]], "bad-distances"),
            ([[1, 1], [1, 0]], "bad-distances"),
            ([0, 1, 2], "bad-distances"),
            ([[0, 1, 2], [1, 0, 3]], "bad-distances"),
            (np.zeros((0, 0)), "bad-distances"),
            (np.zeros((2, 2, 2)), "bad-distances"),
            (3.0, "bad-distances"),
            # Once these two raise NumPy's ValueError.
            ([[0, 1], [1]], "bad-distances"),
            ([["a", "b"], ["c", "d"]], "bad-distances"),
        ],
    )
    def test_distances(self, distances, problem):
        for work in (
            lambda: cluster(distances, 1),
            lambda: suggest(distances),
            lambda: stability(distances, 1),
        ):
            with fails(InputError, problem):
                work()

    @pytest.mark.parametrize("k", [0, -1, 2.0, "2", True, None])
    def test_number_of_clusters(self, k):
        with fails(InputError, "bad-option", "k"):
            cluster(points_apart(0, 5), k)

    def test_more_clusters_than_clients(self):
        with fails(InputError, "too-many-clusters"):
            cluster(points_apart(0, 5), 6)

    @pytest.mark.parametrize("n_neighbors", [5, 6, 100])
    def test_more_neighbours_than_others(self, n_neighbors):
        with fails(InputError, "bad-option", f"n_neighbors is {n_neighbors} "):
            cluster(points_apart(0, 5), 2, "knn", n_neighbors)
        assert len(cluster(points_apart(0, 5), 2, n_neighbors=n_neighbors)) == 5  # not used

    def test_options(self):
        distances = points_apart(0, 5)
        with fails(InputError, "bad-option", "affinity"):
            cluster(distances, 2, "rbf")
        with fails(InputError, "bad-option", "neighbors"):
            cluster(distances, 2, "knn", 0)
        with fails(InputError, "bad-option", "seed"):
            cluster(distances, 2, seed=-1)
        with fails(InputError, "bad-option", "draws"):
            stability(distances, 2, draws=0)
        for noise in (-0.1, np.nan, np.inf, "much", 10):
            with fails(InputError, "bad-option", "noise"):
                stability(distances, 2, noise=noise)


class TestSuggest:
    @pytest.mark.parametrize("blocks", [2, 3, 4, 5, 6])
    @pytest.mark.parametrize(("between", "noise"), [(10, 0.1), (10, 0.02), (2, 0.05), (1.5, 0.05)])
    def test_planted_number(self, blocks, between, noise):
        for size, seed in ((4, 0), (7, 1)):
            distances, _ = planted([size] * blocks, seed, between=between, noise=noise)
            found = suggest(distances)
            assert found.k == blocks
            assert repr(found) == f"<{blocks} clusters suggested>"

    @pytest.mark.parametrize("blocks", [2, 3, 4, 5, 6])
    def test_blocks_on_a_line(self, blocks):
        distances, truth = planted([7] * blocks, blocks)
        distances = np.where(
            truth[:, None] == truth, distances, 10.0 * np.abs(truth[:, None] - truth)
        )
        assert suggest(distances).k == blocks

    @pytest.mark.parametrize("blocks", [2, 3, 4, 5, 6])
    def test_blocks_of_unequal_size(self, blocks):
        distances, _ = planted(range(2, 2 + blocks), blocks)
        assert suggest(distances).k == blocks

    # Once failed. All nearest neighbours are at distance zero, so the smallest unit is 1, that of
    # the whole matrix.
    @pytest.mark.parametrize("blocks", [2, 3, 4])
    def test_blocks_of_identical_clients(self, blocks):
        distances, _ = planted([5] * blocks, within=0.0)
        assert suggest(distances).k == blocks

    def test_one_cluster_where_all_are_about_equally_far(self):
        for seed in range(3):
            distances, _ = planted([12], seed, noise=0.02)
            assert suggest(distances).k == 1

    def test_eigenvalues_are_those_of_a_normalised_laplacian(self):
        distances, _ = planted([6, 6, 6])
        found = suggest(distances)
        assert isinstance(found, Suggestion)
        assert found.eigenvalues.shape == (16,)
        assert (np.diff(found.eigenvalues) >= -1e-12).all()
        assert abs(found.eigenvalues[0]) < 1e-12
        assert found.eigenvalues[-1] <= 2 + 1e-12
        gaps = np.diff(found.eigenvalues)
        assert gaps[2] == gaps.max()

    def test_scale_does_not_matter(self):
        distances, _ = planted([5, 5, 5])
        for scale in (1e-150, 1e-3, 1e100):
            assert suggest(scale * distances).k == 3

    def test_no_more_than_fifteen_and_fewer_than_clients(self):
        distances, _ = planted([2] * 20)
        assert 1 <= suggest(distances).k <= 15
        for count in (1, 2, 3, 4):
            assert 1 <= suggest(points_apart(0, count)).k <= max(1, count - 1)


class TestStability:
    @pytest.mark.parametrize(("affinity", "n_neighbors"), WAYS)
    def test_one_where_blocks_are_well_apart(self, affinity, n_neighbors):
        distances, _ = planted([7, 7, 7])
        assert stability(distances, 3, affinity, n_neighbors, draws=2) == 1.0

    def test_lower_where_there_is_nothing_to_find(self):
        noise, _ = planted([20], noise=0.02)
        found = stability(noise, 3, draws=3, noise=0.05)
        assert -0.2 < found < 0.5
        distances, _ = planted([7, 7, 7])
        assert stability(distances, 5, draws=3) < 1.0

    def test_no_noise_changes_nothing(self):
        assert stability(points_apart(0), 3, draws=2, noise=0) == 1.0

    def test_trivial_numbers_of_clusters(self):
        assert stability(points_apart(0), 1, draws=2) == 1.0
        assert stability(points_apart(0), 12, draws=2) == 1.0

    def test_same_seed_same_number(self):
        distances = points_apart(0)
        assert stability(distances, 3, draws=2, seed=2) == stability(distances, 3, draws=2, seed=2)


@pytest.mark.parametrize("resolution", [float("inf"), float("nan"), -1, "fine"])
def test_a_resolution_is_a_finite_number(resolution):
    with fails(InputError, "bad-option", "resolution"):
        suggest([[0, 1, 9], [1, 0, 9], [9, 9, 0]], resolution)


def test_a_seed_of_stability_is_checked():
    with fails(InputError, "bad-option", "seed"):
        stability([[0, 1, 9], [1, 0, 9], [9, 9, 0]], 2, seed=-1)
    with fails(InputError, "bad-option", "seed"):
        fedwad.matrix({"a": [[0.0], [1.0]], "b": [[2.0], [3.0]]}).stability(2, seed=-1)
