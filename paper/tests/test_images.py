"""Sizes of images against the formula written out, scales against arithmetic."""

import numpy as np
import pytest

from paper.data import grey_level_values, resize

pytest.importorskip("PIL", reason="the extra `paper` is not installed")


def bilinear(image, side):
    """The formula for growing images: interpolate between the centres of pixels, clamp at the
    edge."""
    old = len(image)
    place = np.clip((np.arange(side) + 0.5) * old / side - 0.5, 0, old - 1)
    low = np.minimum(np.floor(place).astype(int), old - 2)
    part = place - low
    rows = image[low] * (1 - part)[:, None] + image[low + 1] * part[:, None]
    return rows[:, low] * (1 - part) + rows[:, low + 1] * part


@pytest.mark.parametrize("side", [17, 28, 32, 64])
def test_growing_is_bilinear_to_a_grey_level(side):
    images = np.random.default_rng(0).integers(0, 256, (20, 16, 16), dtype=np.uint8)
    expected = np.array([bilinear(image.astype(float), side) for image in images])
    found = resize(images, side)
    assert found.dtype == np.uint8
    assert found.shape == (20, side, side)
    assert (
        np.abs(found - expected).max() <= 1.01
    )  # rounded after the rows, and again after the columns


def test_shrinking_averages():
    images = np.zeros((1, 32, 32, 3), dtype=np.uint8)
    images[0, :, 16:] = (200, 100, 40)
    found = resize(images, 8)
    assert found.shape == (1, 8, 8, 3)
    np.testing.assert_array_equal(found[0, :, :3], 0)
    np.testing.assert_array_equal(
        found[0, :, 5:], np.broadcast_to(np.array([200, 100, 40]), (8, 3, 3))
    )
    assert abs(found.mean(axis=(0, 1, 2)) - images.mean(axis=(0, 1, 2))).max() < 1


def test_the_same_size_is_left_alone():
    images = np.random.default_rng(1).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    assert resize(images, 28) is images


def test_tables():
    np.testing.assert_allclose(grey_level_values("unit", 0.1, 0.2), np.arange(256) / 255, rtol=1e-6)
    np.testing.assert_allclose(grey_level_values("normalised", 0.5, 0.25)[[0, 255]], [-2, 2])
    assert grey_level_values("unit", 0, 1).dtype == np.float32
