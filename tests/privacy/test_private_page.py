"""A report about noisy numbers claims no certificate."""

import numpy as np
import pytest

import fedwad
from fedwad.report import write_report


@pytest.mark.parametrize("clients", [2, 4])
def test_pages_about_private_releases_claim_no_certificate(clients, tmp_path):
    rng = np.random.default_rng(0)
    fed = fedwad.local({f"site{k}": rng.normal(k, 1, (200, 2)) for k in range(clients)})
    guarantee = fedwad.DP(3, clip_norm=8)
    if clients == 2:
        result = fedwad.distance(fed["site0"], fed["site1"], method="summary", privacy=guarantee)
    else:
        result = fedwad.matrix(fed, privacy=guarantee)
    write_report(result, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "certified" not in page
    assert "No privacy guarantee" not in page
    assert "epsilon 3" in page
