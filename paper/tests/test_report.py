"""The report: its numbers are kept, its text has them all, and the printed file is a short one."""

import re
import zlib

import numpy as np
import pytest

from paper.report import __main__ as report
from paper.report import measure


def test_all_numbers_are_kept_and_none_is_missing_in_the_text():
    for name in measure.PARTS:
        assert (measure.KEPT / f"{name}.json").exists(), name
    page = report.page()
    assert "{{" not in page
    assert not re.search(r"\bnan\b", page)
    for figure in re.findall(r'src="figures/(\w+)\.svg"', page):
        assert (report.HERE / "figures" / f"{figure}.svg").exists()


def test_the_stuck_counterexample_has_the_error_of_the_text():
    rows = {row["t"]: row["error"] for row in measure.numbers("counterexample")}
    assert rows[0.5] == pytest.approx(np.sqrt(6.25 / 5.25) - 1)
    assert rows[0.2] == pytest.approx(0, abs=1e-6)


def test_true_distances_of_families_are_those_of_large_samples():
    import fedwad

    rng = np.random.default_rng(0)
    truth = {row["family"]: row["truth"] for row in measure.numbers("families")}
    for name in ("exponential and its mirror, d = 2", "circle and normal, d = 2"):
        first, second = measure._families()[name]
        large = fedwad.wasserstein(first(rng, 3000), second(rng, 3000))
        assert large == pytest.approx(truth[name], rel=0.05)


def test_the_printed_report_has_six_to_eight_pages():
    content = (report.HERE / "report.pdf").read_bytes()
    parts = [content]
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", content, re.DOTALL):
        try:
            parts.append(zlib.decompress(stream))
        except zlib.error:
            continue
    pages = sum(len(re.findall(rb"/Type\s*/Page\b(?!s)", part)) for part in parts)
    assert 6 <= pages <= 8
