"""The audit as a user meets it in Python."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import fedwad
from failing import assert_one_sentence, fails
from fedwad.audit import METHODS, AuditResult
from fedwad.errors import InputError
from fedwad.federation import KINDS, Policy
from fedwad.report import write_report
from parameters import mostly_slow

POINTS = np.random.default_rng(0).standard_normal((60, 3))


@pytest.fixture(scope="module")
def result():
    return fedwad.audit(POINTS)


def test_all_methods_are_attacked(result):
    assert (*result.methods, "schema") == METHODS  # an array sends no profile
    assert (result.n_attacked, result.n_records, result.n_features) == (60, 60, 3)
    assert result.recovered == 60
    assert result.leaks
    for method in ("fedwad", "hub", "coreset"):
        assert any(row.leaks for row in result.rows if row.method == method)
        assert_one_sentence(result.verdict(method))
    assert not any(row.leaks for row in result.rows if row.method == "private")


def test_every_kind_of_request_is_attacked_or_said_not_to_be():
    from fedwad.audit.api import REQUEST_KINDS

    said = (Path(__file__).parents[2] / "docs" / "threat-model.md").read_text()
    (sentence,) = re.findall(r"The audit does not attack ([^.:]*)[.:]", said)
    assert set().union(*REQUEST_KINDS.values()) == set(KINDS) - set(
        re.findall(r"`(\w+)`", sentence)
    )


def test_the_same_seed_gives_the_same_bits():
    first, second = (fedwad.audit(POINTS, method="fedwad", seed=3) for _ in range(2))
    assert first == second


def test_it_comes_back_from_a_file_without_any_record(result, tmp_path):
    result.save(tmp_path / "a.json")
    loaded = AuditResult.load(tmp_path / "a.json")
    assert loaded == result
    assert loaded.samples is None
    text = (tmp_path / "a.json").read_text()
    assert not any(repr(float(number))[:10] in text for number in POINTS.ravel())


@pytest.mark.parametrize(
    "damage",
    [lambda c: c.pop("rows"), lambda c: c["rows"][0].pop("score"), lambda c: c.pop("n_attacked")],
)
def test_damage_is_said(result, damage, tmp_path):
    result.save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    damage(content)
    (tmp_path / "a.json").write_text(json.dumps(content))
    with fails(InputError, "damaged-content"):
        AuditResult.load(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("{}")
    with fails(InputError, "wrong-format"):
        AuditResult.load(tmp_path / "a.json")


def test_a_closed_policy_refuses_everything():
    result = fedwad.audit(POINTS, Policy())
    assert not result.leaks
    assert all(row.answered == 0 and row.refused in row.verdict(60) for row in result.rows)
    for row in result.rows:
        assert_one_sentence(row.refused)
    assert "12" in result.verdict("fedwad")
    assert "5" in result.verdict("coreset")


def test_what_does_not_fit_the_data_was_not_tried():
    """A client without labels has no prototypes to tell; that is no protection."""
    answering = Policy(["prototypes"], classes=True)
    result = fedwad.audit(POINTS, answering, "classifier")
    assert_one_sentence(result.rows[0].skipped_reason)
    assert result.rows[0].skipped_reason in result.rows[0].verdict(60)
    assert result.rows[0].skipped_reason in result.verdict("classifier")
    assert AuditResult.from_dict(result.to_dict()) == result
    labelled = fedwad.audit((POINTS, np.arange(60) % 2), answering, "classifier")
    assert labelled.rows[0].answered > 0
    assert not labelled.rows[0].skipped_reason
    refused = fedwad.audit(POINTS, Policy(), "classifier").rows
    assert [bool(row.refused) for row in refused] == [True, True]


def test_a_large_set_is_audited_on_a_part():
    result = fedwad.audit(
        np.random.default_rng(0).standard_normal((1500, 2)), Policy(["summary"]), "summary"
    )
    assert (result.n_attacked, result.n_records) == (1000, 1500)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"data": POINTS, "method": "magic"}, "bad-option"),
        ({"data": POINTS, "policy": 3}, "bad-option"),
        ({"data": POINTS[:1]}, "too-few-rows"),
        ({"data": POINTS, "seed": -1}, "bad-option"),
    ],
)
def test_errors_are_one_sentence(arguments, code):
    with fails(InputError, code):
        fedwad.audit(**arguments)


def test_a_policy_that_does_not_exist():
    with pytest.raises(InputError) as caught:
        fedwad.audit(POINTS, "nowhere.toml")
    assert "nowhere.toml" in str(caught.value)


@pytest.mark.parametrize(
    "points",
    mostly_slow(
        [
            np.ones((5, 2)),
            np.column_stack([POINTS[:12, 0], np.ones(12)]),
            np.repeat(POINTS[:6, :2], 2, axis=0),
            POINTS[:12, :1],
            1e8 + POINTS[:12, :2],
        ],
        2,
    ),
    ids=["one point", "constant", "copies", "one feature", "far away"],
)
def test_constant_features_copies_and_single_features_do_not_matter(points):
    assert fedwad.audit(points).n_attacked == len(points)


def test_the_page_shows_verdicts_and_records(result, tmp_path):
    write_report(result, tmp_path / "a.html", command="fedwad audit <b>")
    page = (tmp_path / "a.html").read_text()
    assert all(row.attack in page for row in result.rows)
    assert "fedwad audit &lt;b&gt;" in page
    assert "<img" not in page
    write_report(AuditResult.from_dict(result.to_dict()), tmp_path / "b.html")
    without_records = (tmp_path / "b.html").read_text()
    assert without_records.count("<table") < page.count("<table")
    with pytest.raises(InputError):
        write_report(None, tmp_path / "c.html")


def test_a_table_is_shown_by_its_columns_in_their_own_units(tmp_path):
    path = fedwad.datasets.load("heart")["va"]
    rules = Policy(["summary"], max_distinct_replies=1)
    result = fedwad.audit(path, rules, "summary", label_column="num")
    write_report(result, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    for column in ("age", "chol", "thal"):
        assert f"<bdi>{column}</bdi>" in page
    ages = {row.split(",")[0] for row in path.read_text().splitlines()[1:]}
    found = re.findall(r"<bdi>age</bdi></th><td[^>]*>(\d+)</td>", page)
    assert len(found) == 3
    assert set(found) <= ages
