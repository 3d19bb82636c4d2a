"""The order of clients, the tree and the map, against geometry that is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import pdist, squareform

from fedwad.report.page._matrix_view import build_tree, embed_in_plane, median_map_error


def points(size, seed, dimension=3):
    return np.random.default_rng(seed).normal(size=(size, dimension))


def matrix_of(cloud):
    return squareform(pdist(cloud))


def test_points_on_a_line_are_put_in_their_order():
    positions = np.array([5.0, 1.0, 9.0, 0.0, 4.0, 7.5])
    order = build_tree(matrix_of(positions[:, None])).order
    found = positions[order]
    assert (np.diff(found) > 0).all() or (np.diff(found) < 0).all()


@given(size=st.integers(2, 12), seed=st.integers(0, 1000))
def test_heights_are_those_of_average_linkage(size, seed):
    value = matrix_of(points(size, seed))
    meets = np.zeros_like(value)
    for branch in reversed(build_tree(value).branches):
        meets[np.ix_(branch.members, branch.members)] = branch.height
    np.fill_diagonal(meets, 0)
    np.testing.assert_allclose(
        squareform(meets), cophenet(linkage(pdist(points(size, seed)), "average")), rtol=1e-9
    )


@given(size=st.integers(2, 14), groups=st.integers(1, 5), seed=st.integers(0, 1000))
def test_clusters_stay_together_and_branches_never_go_down(size, groups, seed):
    value = matrix_of(points(size, seed))
    clusters = np.random.default_rng(seed).integers(0, groups, size)
    found = build_tree(value, clusters)
    assert sorted(found.order.tolist()) == list(range(size))
    runs = 1 + int((np.diff(clusters[found.order]) != 0).sum())
    assert runs == len(set(clusters.tolist()))
    for branch in found.branches:
        assert branch.height >= max(branch.heights)
    assert len(found.branches) == size - 1
    assert sorted(found.branches[-1].members) == list(range(size))


def test_two_clusters_meet_at_their_mean_distance():
    cloud = points(9, 3)
    cloud[4:] += 50
    value = matrix_of(cloud)
    top = build_tree(value, np.array([0] * 4 + [1] * 5)).branches[-1]
    assert top.height == pytest.approx(value[:4, 4:].mean(), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_a_plane_is_drawn_as_it_is(scale):
    cloud = points(15, 1, 2)
    found = embed_in_plane(scale * matrix_of(cloud))
    np.testing.assert_allclose(matrix_of(found / scale), matrix_of(cloud), atol=1e-6)
    assert median_map_error(found, scale * matrix_of(cloud)) < 1e-6
    np.testing.assert_allclose(found / scale, embed_in_plane(matrix_of(cloud)), atol=1e-6)


def test_the_map_says_how_far_it_is_off():
    corners = matrix_of(np.eye(6))  # all equally far: no plane holds them
    assert 0.1 < median_map_error(embed_in_plane(corners), corners) < 0.6


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_few_or_equal_clients(size):
    same = np.zeros((size, size))
    assert sorted(build_tree(same).order.tolist()) == list(range(size))
    assert embed_in_plane(same).shape == (size, 2)
    assert np.isfinite(embed_in_plane(same)).all()


def test_what_is_not_known_is_put_far_away():
    value = matrix_of(np.array([[0.0], [1.0], [2.0], [10.0]]))
    value[0, 1] = value[1, 0] = np.nan
    found = build_tree(value)
    assert all(np.isfinite(branch.height) for branch in found.branches)
    assert np.isfinite(embed_in_plane(value)).all()
    assert 0 not in found.branches[0].members
