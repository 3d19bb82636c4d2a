"""Why sites differ, on the page: columns, and keys that reach them."""

from __future__ import annotations

import numpy as np
import pytest

import fedwad
from fedwad.report import write_report

UP, DOWN, LEFT, RIGHT, ENTER = "\ue013", "\ue015", "\ue012", "\ue014", "\ue007"


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
