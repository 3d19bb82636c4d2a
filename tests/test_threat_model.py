"""Each guarantee of the threat model names the test that would fail if it broke."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## What is promised", 1)[1].split("\n## ", 1)[0]
SENTENCES = dict(re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", SECTION, flags=re.M | re.S))


def test_guarantees_are_numbered_in_order():
    assert [int(number) for number in SENTENCES] == list(range(1, len(SENTENCES) + 1))
    assert len(SENTENCES) >= 20


@pytest.mark.parametrize("number", SENTENCES)
def test_each_guarantee_names_tests_that_exist(number):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", SENTENCES[number])
    assert named, f"guarantee {number} names no test"
    assert len(named) == SENTENCES[number].count("`tests/"), "a file is named without a test"
    for path, name in named:
        file = ROOT / path
        assert file.is_file(), path
        assert re.search(rf"^\s*def {name}\(", file.read_text(encoding="utf-8"), flags=re.M), name


def test_what_is_not_promised_comes_first():
    assert PAGE.index("## What is not promised") < PAGE.index("## What is promised")
