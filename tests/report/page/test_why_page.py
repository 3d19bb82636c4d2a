"""Why sites differ, on the page: columns, classes, and keys that reach them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import fedwad
from fedwad.report import write_report

UP, DOWN, LEFT, RIGHT, ENTER = "\ue013", "\ue015", "\ue012", "\ue014", "\ue007"


@pytest.fixture(scope="session")
def digits():
    """Three sites that hold other digits: the last has no zeros."""
    x, y = fedwad.datasets.load("digits")
    held = {"oslo": (0, 1, 2), "paris": (0, 1, 2), "rome": (1, 2, 9)}
    sites = {}
    for k, (site, kinds) in enumerate(held.items()):
        rows = np.concatenate([np.flatnonzero(y == kind)[40 * k : 40 * k + 40] for kind in kinds])
        sites[site] = (x[rows].astype(float), y[rows])
    return fedwad.matrix(sites, labels=True)


def content(path):
    """The page and the numbers of its script."""
    text = path.read_text(encoding="utf-8")
    return text, json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))


def test_classes_are_on_the_page(digits, tmp_path):
    write_report(digits, tmp_path / "report.html")
    text, data = content(tmp_path / "report.html")
    assert "Classes with the largest part" in text
    why = data["why"]
    # Nines of rome have no counterpart: a third of the rows, and more of the distance.
    for pair in (1, 2):
        (number, rows, part, _), *_ = why["classes"][pair][1]
        assert rows == 333
        assert int(part.removesuffix("%")) > 40
        expected = digits.explain()[[("oslo", "rome"), ("paris", "rome")][pair - 1]].classes
        assert number == next(one.number for one in expected if one.site == "rome")


def test_a_distance_shows_them_too(tmp_path):
    x, y = fedwad.datasets.load("digits")
    sites = [(x[rows].astype(float), y[rows]) for rows in (np.flatnonzero(y < 2)[:80],)]
    sites.append((x[y > 7][:80].astype(float), y[y > 7][:80]))
    found = fedwad.distance(*sites, labels=True)
    write_report(found, tmp_path / "report.html")
    text, _ = content(tmp_path / "report.html")
    assert "Classes with the largest part" in text


@pytest.fixture
def opened(browser, tmp_path):
    """A page on a screen of that width; nothing may be logged."""

    def opened(result, width, dark=False):
        path = tmp_path / "report.html"
        write_report(result, path)
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        media = {"media": "screen", "features": [scheme]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        browser.get_log("browser")
        browser.get(path.as_uri())
        return browser

    yield opened
    assert browser.get_log("browser") == []


def said(page, name):
    return page.execute_script("return document.getElementById(arguments[0]).textContent", name)


def press(page, *keys):
    for key in keys:
        page.switch_to.active_element.send_keys(key)


@pytest.mark.parametrize(("width", "dark"), [(320, True), (1280, False)])
def test_keys_reach_columns_pairs_and_cells(opened, width, dark):
    rng = np.random.default_rng(0)
    shifts = {"a": (0, 0, 0), "b": (4, 1, 0), "c": (0, 5, 1), "d": (1, 0, 6)}
    matrix = fedwad.matrix({name: rng.normal(size=(100, 3)) + s for name, s in shifts.items()})
    page = opened(matrix, width, dark)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    first = said(page, "why-pair")
    page.execute_script("document.querySelector('#causes tr').focus()")
    press(page, DOWN)
    current = "return [...document.querySelectorAll('#causes tr')].indexOf(document.activeElement)"
    assert page.execute_script(current) == 1
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.execute_script(outline) == "solid"
    press(page, RIGHT)
    assert said(page, "why-pair") != first
    assert page.execute_script(current) == 0
    press(page, LEFT)
    assert said(page, "why-pair").startswith(first)
    page.execute_script("document.querySelector('#standing td[tabindex=\"0\"]').focus()")
    press(page, DOWN, RIGHT)
    assert page.execute_script(outline) == "solid"
    row, cell = page.execute_script(
        "const cell = document.activeElement; return [cell.parentNode.rowIndex - 1, cell.cellIndex - 1]"
    )
    assert (row, cell) == (1, 1)
    site, column = page.execute_script(
        """const table = document.getElementById('standing');
        return [table.tBodies[0].rows[1].cells[0].textContent, table.tHead.rows[0].cells[2].textContent]"""
    )
    assert said(page, "standing-said").startswith(f"{site}, {column}: ")
    assert page.switch_to.active_element.get_attribute("aria-label") == said(page, "standing-said")
    press(page, ENTER)
    pair = said(page, "why-pair").split(":")[0].split(" \N{EN DASH} ")
    assert site in pair
    other = next(one for one in pair if one != site)
    apart = {
        name: abs(shifts[site][int(column[-1]) - 1] - shifts[name][int(column[-1]) - 1])
        for name in shifts
        if name != site
    }
    assert apart[other] == max(apart.values())


def test_the_classes_follow_the_chosen_pair(opened, digits):
    page = opened(digits, 1280)
    page.execute_script("document.querySelector('#walk button:last-child').click()")
    classes = page.execute_script("return document.querySelectorAll('#classes li').length")
    assert classes == 6
