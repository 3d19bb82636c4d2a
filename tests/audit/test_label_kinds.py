"""One odd label in a release by class: the audit finds it where the column's kind decides."""

from dataclasses import replace

import numpy as np

import fedwad
from failing import assert_one_sentence
from fedwad.audit.private import ODD_LABELS, count_moved_by_one_label
from fedwad.federation import Dataset, Policy
from fedwad.site import answers as private
from fedwad.transport import Measure

PRIVATE = Policy(("describe", "private"), epsilon=3.0, label_names=("ill", "well"))
RNG = np.random.default_rng(0)
DATA = Dataset(Measure(RNG.standard_normal((400, 3))), np.array(["ill", "well"] * 200))


def test_each_odd_label_moves_its_own_contribution_only():
    finding = count_moved_by_one_label(DATA, PRIVATE)
    assert (finding.found, finding.answered, finding.refused) == (0, len(ODD_LABELS), "")
    found = fedwad.audit((DATA.measure.points, DATA.labels), PRIVATE, method="private")
    row = next(row for row in found.rows if row.attack == "one odd label")
    assert not row.leaks
    assert row.answered == len(ODD_LABELS)


def test_the_audit_finds_a_kind_that_the_column_decides(monkeypatch):
    kept = private._class_indices

    def of_the_column(self, context):
        codes = kept(self, context)
        return np.full_like(codes, -1) if (codes == -1).any() else codes

    monkeypatch.setattr(private, "_class_indices", of_the_column)
    assert count_moved_by_one_label(DATA, PRIVATE).found > 100
    found = fedwad.audit((DATA.measure.points, DATA.labels), PRIVATE, method="private")
    assert any(row.leaks for row in found.rows if row.attack == "one odd label")


def test_without_private_releases_it_is_refused():
    finding = count_moved_by_one_label(DATA, replace(PRIVATE, allow=("describe",)))
    assert finding.answered == 0
    assert_one_sentence(finding.refused)
