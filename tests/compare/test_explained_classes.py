"""Which classes carry a distance between labelled data."""

from __future__ import annotations

import numpy as np

import fedwad

LABELS = np.repeat(["ill", "well"], [60, 180])


def data(seed, shift):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(240, 3)) * 0.5
    x[LABELS == "well", 0] += 6
    x[LABELS == "ill", 2] += shift
    return x, LABELS


def test_the_class_that_moved_carries_the_distance():
    r = fedwad.distance(data(0, 0.0), data(1, 4.0), labels=True)
    e = r.explain(["age", "dose", "iron"])
    for site in e.sites:
        own = [one for one in e.classes if one.site == site]
        np.testing.assert_allclose(sum(one.share for one in own), 1.0)
        np.testing.assert_allclose(own[0].weight, 0.25)
        assert own[0].share > 0.8
        assert own[0].column == "iron"
    assert fedwad.DistanceResult.from_dict(r.to_dict()).explain(["age", "dose", "iron"]) == e


def test_both_sides_of_a_pair_keep_their_classes():
    m = fedwad.matrix({"a": data(0, 0.0), "b": data(1, 4.0)}, labels=True)
    one, turned = m.explain("a", "b").classes, m.explain("b", "a").classes
    assert set(one) == set(turned)


def test_data_without_labels_have_no_classes():
    assert fedwad.distance(data(0, 0.0)[0], data(1, 1.0)[0]).explain().classes == ()
