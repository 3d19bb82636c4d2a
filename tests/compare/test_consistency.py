"""Sentence, verdict, p-value, causes, interval and exit code never disagree.

Random small tables: 5 to 200 rows, ties, constants, categories, missing values, 2 to 5 sites.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import fedwad
from command_line import run

pytestmark = pytest.mark.filterwarnings("ignore::fedwad.errors.DataWarning")


def _table(rng: np.random.Generator, n: int, shift: float) -> dict[str, list[object]]:
    """A number, a rounded number, a constant, a category and a flag, some of them missing."""
    number = (rng.normal(size=n) + shift).tolist()
    return {
        "number": [None if rng.random() < 0.1 else x for x in number],
        "count": rng.poisson(2 + shift, n).tolist(),
        "same": [1.0] * n,
        "group": rng.choice(
            ["x", "y", "z"], n, p=[0.6 - 0.2 * (shift > 0), 0.3, 0.1 + 0.2 * (shift > 0)]
        ).tolist(),
        "flag": (rng.random(n) < 0.05).tolist(),
    }


def _sites(seed: int) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 6))
    sizes = np.exp(rng.uniform(np.log(5), np.log(200), count)).astype(int)
    shifts = rng.choice([0.0, 0.0, 1.0], count)
    if seed % 2:
        pd = pytest.importorskip("pandas")
        return {
            f"s{k}": pd.DataFrame(_table(rng, int(n), float(shift)))
            for k, (n, shift) in enumerate(zip(sizes, shifts, strict=True))
        }
    return {
        f"s{k}": np.c_[rng.normal(shift, 1, (n, 2)), rng.poisson(2, n), np.ones(n)].round(1)
        for k, (n, shift) in enumerate(zip(sizes, shifts, strict=True))
    }


def _check_pair(r: fedwad.DistanceResult) -> None:
    causes = r.explain().causes if r.evidence is not None else ()
    said = r.sentence
    if r.differs is True:
        assert r.pvalue <= 0.05
        assert r.smallest <= 0.05
        assert f"{r.sites[0]} and {r.sites[1]} differ (p = " in said
        assert all(name in said for name in causes[:3])
    elif r.differs is False:
        assert r.pvalue > 0.05
        assert "no evidence" in said
    else:
        assert math.isnan(r.pvalue) or r.smallest > 0.05
        assert "cannot be told" in said or "not tested" in said
    if r.differs is not True:
        assert not causes
        assert math.isnan(r.population)
    if r.population_interval is not None:
        low, high = r.population_interval
        assert 0 <= low <= high
        assert r.differs is True or low == 0
        assert math.isnan(r.population) or low <= r.population <= high
    assert r.lower <= r.value <= r.upper


@pytest.mark.parametrize("seed", range(14))
def test_answers_agree(seed: int) -> None:
    fed = fedwad.local(_sites(seed))
    m = fedwad.matrix(fed)
    names = m.sites
    told = m.test is not None and m.test.smallest <= 0.05
    found = told and m.test.pvalue <= 0.05
    differs = [m.differs[i, j] for i in range(len(names)) for j in range(i)]
    assert found or not any(one is True for one in differs)
    if len(names) > 2:
        said = m.sentence
        assert found == bool(re.match(r"The \d+ (tested )?sites differ \(p = ", said))
        assert (told and not found) == ("no evidence" in said)
        odd = m.eccentricity.odd if m.square is not None and not np.isnan(m.square).any() else ()
        assert not odd or found
        assert found or m.suggest().k == 1 or m.test is None
    for i in range(len(names)):
        for j in range(i):
            explained = m.explain(names[i], names[j])
            assert not explained.causes or m.differs[i, j] is True
    table = fedwad.columns(fed)
    assert table.differs == (None if not told else found)
    if told and table.test is not None:
        assert table.test.pvalue == m.test.pvalue
    assert not table.causes or table.differs
    r = fedwad.distance(fed[names[0]], fed[names[1]])
    _check_pair(r)
    if math.isnan(r.pvalue):
        with pytest.raises(fedwad.InputError):
            fedwad.permutation_test(fed[names[0]], fed[names[1]])
        return
    test = fedwad.permutation_test(fed[names[0]], fed[names[1]])
    assert (test.differs, test.pvalue) == (r.differs, r.pvalue)
    assert not test.explain().causes or test.differs


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_exit_codes_agree_with_the_answer(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    paths = []
    for name, frame in list(_sites(seed).items())[:2]:
        paths.append(str(tmp_path / f"{name}.csv"))
        frame.to_csv(paths[-1], index=False)
    ended = run("distance", *paths, "--json")
    answer = json.loads(ended.stdout)
    assert ended.returncode == {True: 3, False: 0, None: 4}[answer["differs"]]
    assert answer["sentence"]
