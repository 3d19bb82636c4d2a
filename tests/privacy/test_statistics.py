"""By how much one record can change what is summed: never more than is claimed, and in the worst
case that much."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedwad.privacy._mechanism import SUM_UNIT
from fedwad.privacy._release import (
    CELL_SENSITIVITY,
    MOMENT_SENSITIVITY,
    cell_sums,
    class_sums,
    clip_to_unit_ball,
    moment_sums,
    multiply_rows,
    unpack_moments,
)

SCALES = st.sampled_from([1e-300, 1e-9, 0.3, 1.0, 1.0 + 1e-15, 5.0, 1e9, 1e300])


@st.composite
def neighbours(draw):
    """Two data sets that differ in one record; records inside, on, and far outside of the ball."""
    d, n = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = rng.standard_normal((n + 1, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points *= np.array([draw(SCALES) for _ in range(n + 1)])[:, None]
    if draw(st.booleans()):  # the worst of all: opposite, or at 120 degrees
        points[n] = -points[0]
    place = draw(st.integers(0, n - 1))
    other = points[:n].copy()
    other[place] = points[n]
    centres = rng.standard_normal((draw(st.integers(1, 5)), d))
    if draw(st.booleans()):
        centres = np.vstack([centres, centres[:1]])  # a tie for everybody
    return points[:n], other, centres


def change(first, second):
    return np.linalg.norm((first - second).ravel() * SUM_UNIT)


@given(neighbours())
def test_one_record_changes_moments_by_no_more_than_claimed(pair):
    first, second = (moment_sums(clip_to_unit_ball(one)) for one in pair[:2])
    assert change(first, second) <= MOMENT_SENSITIVITY + math.sqrt(first.size) * SUM_UNIT


@given(neighbours())
def test_one_record_changes_cells_by_no_more_than_claimed(pair):
    first, second = (cell_sums(clip_to_unit_ball(one), pair[2]) for one in pair[:2])
    assert change(first, second) <= CELL_SENSITIVITY + math.sqrt(first.size) * SUM_UNIT


@given(neighbours(), st.integers(-1, 2), st.integers(-1, 2))
def test_one_record_and_its_label_change_classes_by_no_more_than_claimed(pair, label, other_label):
    points, other, _ = pair
    place = int(np.flatnonzero((points != other).any(axis=1)).max(initial=0))
    labels = np.arange(len(points)) % 3
    labels[place], other_labels = label, labels.copy()
    other_labels[place] = other_label
    first, second = (
        class_sums(clip_to_unit_ball(points), labels, 3),
        class_sums(clip_to_unit_ball(other), other_labels, 3),
    )
    assert change(first, second) <= CELL_SENSITIVITY + math.sqrt(first.size) * SUM_UNIT


def test_the_claims_are_reached():
    u, v = np.array([[1.0, 0.0]]), np.array([[-0.5, math.sqrt(0.75)]])
    assert change(moment_sums(u), moment_sums(v)) > MOMENT_SENSITIVITY - 1e-8
    centres = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert change(cell_sums(u, centres), cell_sums(-u, centres)) > CELL_SENSITIVITY - 1e-8
    assert change(cell_sums(u, centres[:1]), cell_sums(-u, centres[:1])) > CELL_SENSITIVITY - 1e-8


def test_no_pair_in_a_fine_search_exceeds_the_claim_for_moments():
    lengths, angles = np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, math.pi, 181))
    for length in np.linspace(0, 1, 41):
        u = np.array([length, 0.0])
        v = np.stack([lengths * np.cos(angles), lengths * np.sin(angles)], axis=-1).reshape(-1, 2)
        outer = np.outer(u, u) - v[:, :, None] * v[:, None, :]
        assert (
            np.sqrt(((u - v) ** 2).sum(axis=1) + (outer**2).sum(axis=(1, 2))).max()
            <= MOMENT_SENSITIVITY + 1e-12
        )


@given(neighbours(), st.integers(0, 2**32))
def test_no_record_changes_the_contribution_of_another(pair, seed):
    points, _, centres = pair
    d = points.shape[1]
    whitening = np.random.default_rng(seed).standard_normal((d, d))
    together = clip_to_unit_ball(multiply_rows(clip_to_unit_ball(points), whitening))
    alone = np.vstack(
        [
            clip_to_unit_ball(multiply_rows(clip_to_unit_ball(row[None]), whitening))
            for row in points
        ]
    )
    assert (together == alone).all()
    assert (moment_sums(together) == sum(moment_sums(row[None]) for row in alone)).all()
    assert (
        cell_sums(together, centres) == sum(cell_sums(row[None], centres) for row in alone)
    ).all()


@given(neighbours())
def test_clipping_ends_in_the_ball_and_leaves_what_is_inside(pair):
    points = pair[0]
    found = clip_to_unit_ball(points)
    assert (np.linalg.norm(found, axis=1) <= 1 + 1e-15 * points.shape[1]).all()
    with np.errstate(over="ignore"):
        inside = np.linalg.norm(points, axis=1) <= 1 - 1e-12
    assert (found[inside] == points[inside]).all()


def test_sums_are_those_of_numpy():
    points = clip_to_unit_ball(np.random.default_rng(0).standard_normal((500, 3)))
    mean, second = unpack_moments(moment_sums(points) * SUM_UNIT, 3)
    np.testing.assert_allclose(mean, points.sum(axis=0), atol=1e-6)
    np.testing.assert_allclose(second, points.T @ points, atol=1e-6)
    assert (second == second.T).all()
