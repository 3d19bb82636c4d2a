"""The page in a real browser without a network: pointing, tapping, keys, narrow screens, paper."""

import base64
import csv
import io
import itertools
import json
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hostile import NASTY

import fedwad
from fedwad.report import write_report

PHONE, DESKTOP = 320, 1280
SHIFTS = {"age": 2.0, "bmi": 0.5, "sugar": 4.0}  # of columns at the second of two sites


@pytest.fixture
def show(browser, tmp_path):
    """Write a report and open it as a screen of that width, or paper, shows it."""

    numbers = itertools.count()

    def show(result, width=DESKTOP, media="screen", dark=False, **options):
        path = tmp_path / f"report{next(numbers)}.html"
        write_report(result, path, **options)
        touch = width < 600
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": touch}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": [scheme]}
        )
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(path.as_uri())
        drawn(browser, path.name)
        return browser

    yield show
    assert (
        browser.get_log("browser") == []
    )  # no error, and nothing that the page's own policy had to stop


def drawn(page, name):
    """Wait until the named page is loaded and on the screen: `get` may come back earlier on a busy
    machine."""
    end = time.monotonic() + 60
    loaded = "return document.readyState === 'complete' && location.pathname.endsWith(arguments[0])"
    while not page.execute_script(loaded, name) and time.monotonic() < end:
        time.sleep(0.05)
    frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))"
    page.execute_async_script(frames)


def order_of(page):
    """Clients along the axes, as the page names them."""
    return page.execute_script(
        "return [...document.querySelectorAll('.down span')].map((label) => label.textContent)"
    )


def place_of(page, row, column, size):
    """The middle of a cell, scrolled to the middle of the window, in pixels of the window."""
    return page.execute_script(
        """const [row, column, size] = arguments, cells = document.getElementById('cells');
        let box = cells.getBoundingClientRect();
        window.scrollBy(0, box.top + (row + .5) / size * box.height - window.innerHeight / 2);
        box = cells.getBoundingClientRect();
        return [box.left + (column + .5) / size * box.width, box.top + (row + .5) / size * box.height];""",
        row,
        column,
        size,
    )


def hover(page, x, y):
    page.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})


def readout(page):
    return page.execute_script("return document.getElementById('readout').textContent")


def sentence(matrix, a, b):
    """What the page must say of a pair, worked out from the matrix alone."""
    i, j = matrix.sites.index(a), matrix.sites.index(b)
    bounds = f"{matrix.lower[i, j]:.2f} to {matrix.upper[i, j]:.2f}"
    return f"{a} \N{EN DASH} {b}: {matrix.value[i, j]:.2f}, certified {bounds}"


def test_it_loads_without_a_network_and_asks_for_nothing(show, make_matrix):
    matrix, clusters = make_matrix(12)
    page = show(matrix, clusters=clusters)
    assert page.title == "How similar are 12 sites?"
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked  # the log works: the page itself is in it
    assert all(url.startswith(("file:", "data:")) for url in asked)
    assert sum(url.startswith("file:") for url in asked) == 1


def test_hovering_says_the_pair_and_its_interval(show, make_matrix):
    matrix, clusters = make_matrix(12)
    page = show(matrix, clusters=clusters)
    names = order_of(page)
    assert sorted(names) == sorted(matrix.sites)
    i, j = np.unravel_index(matrix.value.argmax(), (12, 12))
    assert readout(page) == sentence(matrix, matrix.sites[i], matrix.sites[j])
    for row, column in ((0, 11), (11, 0), (3, 7), (7, 2)):
        hover(page, *place_of(page, row, column, 12))
        assert readout(page) == sentence(matrix, names[row], names[column])
    hover(page, *place_of(page, 5, 5, 12))
    assert readout(page) == f"{names[5]}: 0from itself"


def test_the_colour_under_the_pointer_is_that_of_the_value(show, make_matrix):
    matrix, _ = make_matrix(30)
    page = show(matrix)
    names = order_of(page)
    pairs = [(0, 29), (3, 4), (12, 25), (28, 2)]
    fills = []
    for row, column in pairs:
        shade = page.execute_script(
            """const [x, y] = arguments;
            const hit = [...document.querySelectorAll('#half path')].find((path) =>
              path.isPointInFill(new DOMPoint(Math.max(x, y) + .5, Math.min(x, y) + .5)));
            return Number(hit.className.baseVal.slice(1));""",
            column,
            row,
        )
        fills.append(shade)
    values = [
        matrix.value[matrix.sites.index(names[row]), matrix.sites.index(names[column])]
        for row, column in pairs
    ]
    assert np.argsort(fills).tolist() == np.argsort(values).tolist()


def test_arrow_keys_walk_from_cell_to_cell(show, make_matrix):
    matrix, clusters = make_matrix(9)
    page = show(matrix, clusters=clusters)
    names = order_of(page)
    hover(page, *place_of(page, 2, 5, 9))
    cells = page.find_element("id", "cells")
    page.execute_script("arguments[0].focus()", cells)
    for key, (row, column) in {
        "\ue014": (2, 6),
        "\ue015": (3, 6),
        "\ue012": (3, 5),
        "\ue013": (2, 5),
    }.items():
        cells.send_keys(key)
        assert readout(page) == sentence(matrix, names[row], names[column])
    for _ in range(12):
        cells.send_keys("\ue014")
    assert readout(page) == sentence(matrix, names[2], names[8])  # no further than the edge


@pytest.mark.parametrize("size", [2, 12, 60])
def test_tapping_on_a_telephone(show, make_matrix, size):
    matrix, clusters = make_matrix(size)
    page = show(matrix, PHONE, clusters=clusters)
    names = order_of(page)
    x, y = place_of(page, 1, 0, size)
    page.execute_cdp_cmd(
        "Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]}
    )
    page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    wanted, end = sentence(matrix, names[1], names[0]), time.monotonic() + 10
    while readout(page) != wanted and time.monotonic() < end:
        time.sleep(0.05)  # a browser may wait whether a second tap follows
    assert readout(page) == wanted
    if size > 2:
        page.execute_script("document.querySelector('[data-step=\"0 1\"]').click()")
        page.execute_script("document.querySelector('[data-step=\"0 1\"]').click()")
        assert readout(page) == sentence(matrix, names[1], names[2])


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("size", [1, 2, 12, 60, 100])
def test_the_page_never_scrolls_sideways(show, make_matrix, size, width):
    matrix, clusters = make_matrix(
        size, names=[f"a rather long name of client {k}" for k in range(size)]
    )
    page = show(matrix, width, clusters=clusters, command="fedwad matrix " + "x" * 300)
    page.execute_script("document.querySelectorAll('.fold > input').forEach((box) => box.click())")
    wide = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1] == width


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_distance_never_scrolls_sideways(show, width):
    rng = np.random.default_rng(0)
    result = fedwad.distance(
        rng.normal(size=(60, 3)), rng.normal(1, 1, (50, 3)), method="fedwad", support=5, rounds=4
    )
    page = show(result, width)
    page.execute_script("document.querySelectorAll('.fold > input').forEach((box) => box.click())")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_paper_shows_the_table_and_all_of_the_heat_map(show, make_matrix):
    matrix, clusters = make_matrix(12)
    height = "return document.querySelector('table').getBoundingClientRect().height"
    page = show(matrix, clusters=clusters)
    assert page.execute_script(height) == 0
    page.find_element("css selector", ".fold > label").click()
    assert page.execute_script(height) > 500
    for size in (12, 100):
        matrix, clusters = make_matrix(size)
        page = show(matrix, 690, "print", dark=True, clusters=clusters)
        assert page.execute_script(height) > 500
        cells, paper = page.execute_script(
            """return [document.getElementById('cells').getBoundingClientRect().right,
            getComputedStyle(document.body).backgroundColor];"""
        )
        assert cells <= 690
        assert paper == "rgb(255, 255, 255)"
        ink = page.execute_script("return getComputedStyle(document.querySelector('h1')).color")
        assert ink == "rgb(28, 35, 39)"  # dark words, although the screen would be dark
        pdf = base64.b64decode(
            page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
        )
        assert pdf.startswith(b"%PDF")


def test_the_map_says_the_nearest(show, make_matrix):
    matrix, clusters = make_matrix(12)
    page = show(matrix, clusters=clusters)
    x, y = page.execute_script(
        """const dot = document.querySelector('.wide [data-site="4"] path');
        dot.scrollIntoView({block: 'center'});
        const box = dot.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];"""
    )
    hover(page, x, y)
    near = np.argsort(matrix.value[4])[1:4]
    first, *rest = [f"{matrix.sites[k]} ({matrix.value[4, k]:.2f})" for k in near]
    said = page.execute_script("return document.getElementById('site-readout').textContent")
    assert said == f"{matrix.sites[4]}: smallest estimates {first}" + "".join(
        f", {other}" for other in rest
    )


def test_hostile_names_stay_names(show, make_matrix):
    matrix, clusters = make_matrix(len(NASTY), names=NASTY, failed={NASTY[0]: NASTY[1]})
    page = show(matrix, clusters=clusters, command=NASTY[2], title=NASTY[0])
    for place in range(len(NASTY)):
        hover(page, *place_of(page, place, 0, len(NASTY)))
    assert page.execute_script("return window.pwned") is None
    assert (
        page.execute_script("return document.querySelectorAll('script, img, iframe').length") == 2
    )
    assert page.title == NASTY[0]
    names = order_of(page)
    row = names.index(NASTY[0])
    hover(page, *place_of(page, row, (row + 1) % len(NASTY), len(NASTY)))
    assert readout(page).startswith(NASTY[0])


def test_a_table_comes_down_as_a_file(show, make_matrix, tmp_path):
    names = ['=HYPERLINK("x")', "-1+2", *(f"site {k}" for k in range(4))]
    matrix, _ = make_matrix(6, names=names)
    page = show(matrix)
    page.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.execute_script("document.querySelector('#fold-pairs').click()")
    page.execute_script("document.querySelector('.fold.pairs .saves button').click()")
    end = time.monotonic() + 30
    while time.monotonic() < end and not list(tmp_path.glob("*.csv")):
        time.sleep(0.05)
    (path,) = tmp_path.glob("*.csv")
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert len(rows) == 15
    found = {row[0] for row in rows} | {row[head.index("site", 1)] for row in rows}
    assert found == {'\'=HYPERLINK("x")', "'-1+2", *names[2:]}  # no formula of a spreadsheet
    value = head.index("value")
    shown = sorted(float(row[value]) for row in rows)
    pairs = np.triu_indices(6, 1)
    np.testing.assert_allclose(shown, sorted(matrix.value[pairs]), atol=0.006)


@pytest.mark.parametrize(("width", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False)])
def test_pictures(show, make_matrix, tmp_path, width, dark):
    matrix, clusters = make_matrix(12)
    page = show(matrix, width, dark=dark, clusters=clusters)
    picture = base64.b64decode(
        page.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    )
    path = tmp_path / f"report-{width}.png"
    path.write_bytes(picture)
    from matplotlib.image import imread

    pixels = imread(path)
    assert pixels.shape[:2] == (800, width)
    assert (pixels[5, 5, :3].mean() < 0.5) == dark
    codes = (255 * pixels[..., :3]).astype(int) @ [65536, 256, 1]
    assert len(np.unique(codes)) > 50


def test_the_reasons_follow_the_chosen_pair(show):
    rng = np.random.default_rng(0)
    shifts = {"a": (0, 0, 0), "b": (4, 0, 0), "c": (0, 4, 0), "d": (0, 0, 4)}
    matrix = fedwad.matrix({name: rng.normal(size=(200, 3)) + s for name, s in shifts.items()})
    page = show(matrix, PHONE)
    names = order_of(page)
    cells = page.find_element("id", "cells")
    reasons = """return [document.getElementById('why-pair').textContent,
        document.querySelector('#causes th').textContent]"""
    for other in "bcd":
        row, column = names.index("a"), names.index(other)
        hover(page, *place_of(page, row, column, 4))
        page.execute_script("arguments[0].focus()", cells)
        pair, first = page.execute_script(reasons)
        assert pair.startswith(f"a \N{EN DASH} {other}")
        assert first == matrix.explain("a", other).causes[0]
    wide = page.execute_script("return document.documentElement.scrollWidth")
    assert wide <= PHONE


def test_unknown_cells_look_the_same_in_both_halves(show, make_matrix):
    matrix, _ = make_matrix(3)
    value = matrix.value.copy()
    value[0, 2] = value[2, 0] = np.nan
    page = show(replace(matrix, value=value))
    shot = page.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(base64.b64decode(shot)), format="png")[..., :3]
    names, seen = order_of(page), []
    for row, column in ((0, 2), (2, 0)):
        a, b = names.index(matrix.sites[row]), names.index(matrix.sites[column])
        x, y = page.execute_script(
            """const box = document.getElementById('cells').getBoundingClientRect();
            return [box.left + (arguments[1] + .5) / 3 * box.width,
                    box.top + (arguments[0] + .5) / 3 * box.height];""",
            a,
            b,
        )
        if y < len(pixels):
            seen.append(pixels[int(y), int(x)])
    assert len(seen) == 2
    np.testing.assert_array_equal(*seen)


def test_columns_are_sorted_by_their_titles(show):
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame(
            {column: rng.normal(k * shift, 1, 80) for column, shift in SHIFTS.items()}
        )
        for k, name in enumerate(("oslo", "paris"))
    }
    fed = fedwad.local(tables)
    page = show(fedwad.matrix(fed), columns=fedwad.columns(fed))
    names = "return [...document.querySelectorAll('#table-one tbody bdi')].map((one) => one.textContent)"
    press = "document.querySelectorAll('#table-one thead button')[arguments[0]].click()"
    found = []
    for title in (0, 0, 2, 2):
        page.execute_script(press, title)
        found.append([name for name in page.execute_script(names) if name in SHIFTS])
    assert found[0] == sorted(SHIFTS) == found[1][::-1]
    assert found[2] == sorted(SHIFTS, key=SHIFTS.get, reverse=True) == found[3][::-1]
