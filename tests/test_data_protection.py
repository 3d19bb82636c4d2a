"""The page for data protection officers says of every field of every reply what it holds."""

import re
from dataclasses import fields
from pathlib import Path

from fedwad.cli.ledger import WHAT_LEAVES
from fedwad.messages.message import KINDS, Request

PAGE = (Path(__file__).parents[1] / "docs" / "data-protection.md").read_text(encoding="utf-8")


def request_types(cls=Request):
    for one in cls.__subclasses__():
        yield one
        yield from request_types(one)


def field_names(cls):
    return set(getattr(cls, "__struct_fields__", None) or [field.name for field in fields(cls)])


def test_the_table_has_every_field_of_every_reply():
    held = {}
    for request in request_types():
        if getattr(request, "reply_type", None) is not None and request.kind in KINDS:
            held.setdefault(request.kind, set()).update(field_names(request.reply_type))
    assert held == {kind: set(words) for kind, words in WHAT_LEAVES.items()}
    assert set(held) == set(KINDS)


def test_the_page_has_the_table():
    same = {}
    for kind, fields_ in WHAT_LEAVES.items():
        text = "; ".join(dict.fromkeys(words for words in fields_.values() if words))
        same.setdefault(text, []).append(f"`{kind}`")
    rows = [f"| {', '.join(kinds)} | {text} |" for text, kinds in same.items()]
    assert "\n".join(["| kind | what a reply holds |", "|---|---|", *rows]) in PAGE


def test_it_is_one_page():
    prose = re.sub(r"^\|.*\n", "", PAGE, flags=re.MULTILINE)
    assert len(prose.split()) <= 1100
    assert len(PAGE.split()) <= 1400
