"""What claims.md says about the paper's claims is what the runs in results/ found."""

import json
import re
from pathlib import Path

import pytest

from paper import page
from paper.experiment import NAMES

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "paper" / "results").glob("*/facts.json"))
VERDICT_OF = {True: "held", False: "failed", None: "not tested"}


def rows():
    """The cells of each row of each table of the page, without marks."""
    for line in page.PAGE.read_text().splitlines():
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
    assert found["claims"] or path.parent.name == "t"  # about which the paper says nothing
    for claim in found["claims"]:
        finding = " ".join(claim["found"].split())
        assert written.get(claim["text"]) == [VERDICT_OF[claim["holds"]], finding]


def test_results_are_of_full_runs_of_experiments_that_exist():
    for path in RESULTS:
        found = json.loads(path.read_text())
        assert found["experiment"] == path.parent.name
        assert found["experiment"] in NAMES
        assert re.fullmatch(rf"python -m paper {path.parent.name}( --whole)?", found["command"])


def test_no_claim_stands_there_that_nothing_tests():
    known = {claim["text"] for path in RESULTS for claim in json.loads(path.read_text())["claims"]}
    for row in judged():
        named = re.findall(r"`(test_\w+)` in `([\w/.]+)`", row[2])
        assert row[0] in known or named, row[0]
        for test, file in named:
            assert f"def {test}(" in (ROOT / file).read_text()


def test_tables_on_the_pages_are_those_of_the_runs():
    for path, parts in ((page.PAGE, page.PARTS), (page.DISTANCE, page.DISTANCE_PARTS)):
        text = path.read_text()
        assert page.update_page(text, parts) == text, "python -m paper.page writes it again"


def test_no_claim_counts_twice():
    texts = [claim["text"] for path in RESULTS for claim in json.loads(path.read_text())["claims"]]
    assert len(set(texts)) == len(texts)
    assert len([row for row in judged() if row[0].startswith("Of the three ways to cluster")]) == 1
    assert sum("able to recover" in text for text in texts) == 1


def test_at_least_fifteen_claims_are_judged():
    assert len(judged()) >= 15


def test_every_picture_of_a_run_is_shown():
    shown = page.PAGE.read_text()
    shown += page.DISTANCE.read_text()
    for picture in page.RESULTS.rglob("*.png"):
        assert re.search(rf"{picture.parent.name}/{picture.stem}\.(png|svg)", shown), picture


def test_links_lead_somewhere():
    for path in page.PAGE.parent.glob("*.md"):
        text = path.read_text()
        targets = re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", text)
        targets += re.findall(r'<(?:img|source)[^>]* (?:src|srcset)="(?!https?:)([^"#]*)', text)
        for target in targets:
            assert not target or (path.parent / target).exists(), f"{path.name}: {target}"
