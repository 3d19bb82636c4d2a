"""The page of a coreset: pictures that are the points, numbers that are the result's, nothing
unescaped."""

import base64
import re

import numpy as np
import pandas as pd
import pytest

import fedwad
from failing import fails
from fedwad.report import write_report
from fedwad.report.page._coreset import scatter
from fedwad.report.pictures import image_shape, project_to_plane, sheet


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return {"a": rng.random((40, 16)), "b": rng.random((30, 16))}


@pytest.fixture(scope="module")
def result(images):
    return fedwad.coreset(images, 4)


def test_images_are_the_points(result, tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    write_report(result, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    (tmp_path / "sheet.png").write_bytes(base64.b64decode(data))
    pixels = np.asarray(Image.open(tmp_path / "sheet.png"), dtype=float) / 255
    low, high = result.points.min(), result.points.max()
    wanted = ((result.points - low) / (high - low)).reshape(-1, 4, 4)
    assert pixels.shape == (4, 4 * 5 - 1)
    for k in range(4):
        np.testing.assert_allclose(pixels[:, 5 * k : 5 * k + 4], wanted[k], atol=0.003)


def test_colours_and_rows_of_a_sheet():
    points = np.arange(3 * 12, dtype=float).reshape(3, 12)
    drawn = sheet(points, (2, 2, 3), 2, 0.0, 35.0)
    assert drawn.shape == (5, 5, 3)
    np.testing.assert_allclose(drawn[3:, :2], points[2].reshape(2, 2, 3) / 35)


def test_points_of_few_features_are_a_scatter(tmp_path):
    found = fedwad.coreset(np.random.default_rng(0).normal(size=(50, 3)), 4)
    write_report(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<circle") == 2 * 4  # for a screen and for a telephone
    on_line = fedwad.coreset(np.arange(20.0), 2)
    write_report(on_line, tmp_path / "line.html")
    assert (tmp_path / "line.html").read_text().count("<circle") == 2 * 2


def test_axes_and_numbers_bear_the_names_of_columns(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 20, 60),
            "<dose>": rng.normal(9, 1, 60),
            "bmi": rng.normal(25, 8, 60),
        }
    )
    found = fedwad.coreset({"a": table}, 3)
    write_report(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    named = r"principal direction, mostly (age|bmi|&lt;dose&gt;)"
    assert re.search(f"first {named}", page)
    assert re.search(f"second {named}", page)
    heaviest = found.rows[int(np.argmax(found.weights))]
    for name, value in heaviest.items():
        shown = name.replace("<", "&lt;").replace(">", "&gt;")
        assert f'<bdi>{shown}</bdi></th><td class="n">{value}</td>' in page
    found.plot(tmp_path / "points.svg")
    assert re.search(named, (tmp_path / "points.svg").read_text())


def test_two_features_are_the_axes_and_both_have_the_same_scale():
    table = pd.DataFrame({"age": [40.0, 60.0, 41.0, 61.0], "dose": [1.0, 2.0, 3.0, 4.0]})
    found = fedwad.coreset({"a": table}, 4)
    flat, axes = project_to_plane(found)
    assert axes == ("age", "dose")
    assert flat.tolist() == found.points.tolist()
    drawn = scatter(found).split("</svg>")[0]
    dots = np.array(
        [[float(n) for n in dot] for dot in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    )
    pixels = np.linalg.norm(dots[:, None] - dots, axis=2)[np.triu_indices(4, 1)]
    lengths = np.linalg.norm(found.points[:, None] - found.points, axis=2)[np.triu_indices(4, 1)]
    np.testing.assert_allclose(pixels / lengths, (pixels / lengths)[0], rtol=0.02)


def test_lost_clients_and_title(result, tmp_path):
    import dataclasses

    lost = dataclasses.replace(result, failed={"<oslo>": "no reply came."})
    write_report(lost, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "&lt;oslo&gt;" in page
    assert "4 points that represent the data" in page


def test_what_does_not_belong_is_refused(result, tmp_path):
    with fails(fedwad.InputError, "conflicting-options"):
        write_report(result, tmp_path / "page.html", clusters=[0, 1])


def test_shapes():
    assert image_shape(784) == (28, 28)
    assert image_shape(9) is None
    assert image_shape(20) is None
    assert image_shape(20, (4, 5)) == (4, 5)
    with fails(fedwad.InputError, "wrong-shape"):
        image_shape(20, (5, 5))


def test_certified_bounds_in_the_table_are_rounded_outwards(result, tmp_path):
    import dataclasses

    last = dataclasses.replace(result.history[-1], lower=0.12349, upper=0.98761)
    small = dataclasses.replace(
        result, history=(last, last), value=0.5, lower=0.12349, upper=0.98761
    )
    write_report(small, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<td class="n">0.1234</td><td class="n">0.9877</td>' in page
