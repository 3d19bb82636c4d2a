"""The documentation as a site: no broken link, nothing from the network, readable on a phone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_menu(site):
    sources = {
        path.relative_to(ROOT / "docs").with_suffix(".html")
        for path in (ROOT / "docs").rglob("*.md")
    }
    menu = (site / "index.html").read_text()
    for page in sources:
        assert (site / page).exists()
        assert page.name == "index.html" or f'href="{page}"' in menu, page


def test_the_reference_has_every_public_name(site):
    import fedwad

    page = "".join(path.read_text() for path in (site / "api").glob("*.html"))
    missing = [name for name in fedwad.__all__ if f'id="fedwad.{name}"' not in page]
    assert set(missing) <= {
        "datasets",
        "methods",
        "statistics",
        "transport",
    }  # modules, whose members are there


@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_and_need_no_network(site, browser, width):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    try:
        for page in sorted(site.rglob("*.html")):
            if page.name == "404.html":
                continue
            browser.get_log("performance")
            browser.get(page.as_uri())
            asked = [
                json.loads(entry["message"])["message"] for entry in browser.get_log("performance")
            ]
            urls = [
                e["params"]["request"]["url"]
                for e in asked
                if e["method"] == "Network.requestWillBeSent"
            ]
            assert not [url for url in urls if not url.startswith(("file:", "data:", "chrome"))], (
                page
            )
            overflow = browser.execute_script(
                "return document.documentElement.scrollWidth - window.innerWidth"
            )
            assert overflow <= 1, f"{page.name} is {overflow} px too wide"
            assert browser.find_element("tag name", "h1").text
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_screenshots_can_be_looked_at(site, browser, tmp_path):
    browser.get((site / "index.html").as_uri())
    assert browser.save_screenshot(str(tmp_path / "index.png"))
    shutil.copy(tmp_path / "index.png", os.environ.get("FEDWAD_SCREENSHOT", tmp_path / "copy.png"))
