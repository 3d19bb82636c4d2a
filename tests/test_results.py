"""What docs/paper.md says about the paper's claims is what the runs in docs/results found."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from fedwad.experiments import NAMES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = sorted((DOCS / "results").glob("*/facts.json"))
VERDICT_OF = {True: "held", False: "failed", None: "not tested"}


def rows():
    """The cells of each row of each table of the page, without marks."""
    for line in (DOCS / "paper.md").read_text().splitlines():
        if line.startswith("| "):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            yield [re.sub(r"\\(.)", r"\1", cell.strip().replace("**", "")) for cell in cells]


def judged():
    return [
        row for row in rows() if len(row) >= 3 and row[1] in {*VERDICT_OF.values(), "held in part"}
    ]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.parent.name)
def test_each_claim_stands_on_the_page_with_its_verdict(path):
    found = json.loads(path.read_text())
    written = {row[0]: row[1:3] for row in judged()}
    assert found["claims"]
    for claim in found["claims"]:
        finding = " ".join(claim["found"].split())
        assert written.get(claim["text"]) == [VERDICT_OF[claim["holds"]], finding]


def test_results_are_of_full_runs_of_experiments_that_exist():
    for path in RESULTS:
        found = json.loads(path.read_text())
        assert found["experiment"] == path.parent.name
        assert found["experiment"] in NAMES
        assert found["command"] == f"fedwad reproduce {path.parent.name}"


def test_no_claim_stands_there_that_nothing_tests():
    known = {claim["text"] for path in RESULTS for claim in json.loads(path.read_text())["claims"]}
    for row in judged():
        named = re.findall(r"`(test_\w+)` in `([\w/.]+)`", row[2])
        assert row[0] in known or named, row[0]
        for test, file in named:
            assert f"def {test}(" in (ROOT / file).read_text()


def test_tables_on_the_page_are_those_of_the_runs():
    place = importlib.util.spec_from_file_location("paper", ROOT / "scripts" / "paper.py")
    paper = importlib.util.module_from_spec(place)
    place.loader.exec_module(paper)
    page = paper.PAGE.read_text()
    assert paper.update_page(page) == page, "python scripts/paper.py writes it again"


def test_at_least_fifteen_claims_are_judged():
    assert len(judged()) >= 15


def test_every_picture_of_a_run_is_shown():
    shown = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    for picture in (DOCS / "results").rglob("*.png"):
        assert re.search(rf"{picture.parent.name}/{picture.stem}\.(png|svg)", shown), picture
