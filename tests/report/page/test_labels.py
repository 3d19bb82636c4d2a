"""Names on the map can be read."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedwad.report.page._figures import place_labels


@given(size=st.integers(1, 40), seed=st.integers(0, 200))
def test_names_overlap_neither_each_other_nor_dots_and_stay_inside(size, seed):
    rng = np.random.default_rng(seed)
    dots = rng.uniform(20, 280, (size, 2))
    widths = rng.uniform(20, 90, size).tolist()
    labels = place_labels(dots, widths, 14.0, (300.0, 300.0))
    boxes = [label.box for label in labels if label is not None]
    for k, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert top >= 0
        assert right <= 300
        assert bottom <= 300
        for other in boxes[:k]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
    for k, label in enumerate(labels):
        if label is not None:
            left, top, right, bottom = label.box
            others = np.delete(dots, k, axis=0)
            assert not ((others > [left, top]) & (others < [right, bottom])).all(axis=1).any()


def test_a_lonely_dot_is_named_on_its_right():
    dots = np.array([[100.0, 100.0], [250.0, 100.0]])
    assert place_labels(dots, [40.0, 20.0], 14.0, (300.0, 200.0))[0].anchor == "start"


def test_a_crowd_is_not_named_in_full():
    dots = np.full((30, 2), 150.0) + np.random.default_rng(0).normal(size=(30, 2))
    labels = place_labels(dots, [60.0] * 30, 14.0, (300.0, 300.0))
    assert sum(label is not None for label in labels) < 15
