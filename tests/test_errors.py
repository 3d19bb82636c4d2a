"""Every error has a code, and the reference lists all codes, which never change."""

import re
from pathlib import Path

import reference

ROOT = Path(__file__).parents[1]


def test_every_error_has_a_code_and_all_codes_are_documented():
    used = set().union(*(codes for _, _, codes in reference.raised()))
    documented = re.findall(r"^\| `([a-z-]+)` \| `\w+Error` \|.*\|$", reference.error_codes(), re.M)
    assert documented == sorted(used), set(documented) ^ used
    assert {"bad-option", "unknown-column", "budget-spent", "no-reply"} <= used


def test_every_error_of_the_experiments_has_a_code():
    assert {"no-t", "wrong-shape"} <= set().union(
        *(codes for _, _, codes in reference.raised(ROOT / "paper"))
    )
