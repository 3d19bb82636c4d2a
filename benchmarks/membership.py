"""Is a known row in a site? The attack on block means, over tables and sizes of sites."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
from fedwad.audit.blocks import FINER, measure_membership
from fedwad.federation import Columns, Dataset, Policy, read, read_raw

POLICY = Path(__file__).parents[1] / "docs" / "policies" / "summary.toml"
SIZES = 100, 300, 1000
_ROWS = 4000  # of a table, at most: the rows that are in no site are the attacker's


def measure() -> Iterator[dict[str, Any]]:
    """Area under the curve, and true positives at 1% false ones, under summary.toml; also in
    finer scales, up to those in which the site sends signs alone."""
    policy = Policy.load(POLICY)
    for name, data in tables():
        for rows in SIZES:
            if len(data.measure) < 1.4 * rows:
                continue
            for finer in (1.0, *FINER):
                rng = np.random.default_rng(0)
                found = measure_membership(data, policy, rng, rows, splits=20, finer=finer)
                if found is None:
                    continue
                yield {
                    "table": name,
                    "scales divided by": finer,
                    "features": data.measure.dimension,
                    "rows of the site": rows,
                    "area": found.auc,
                    "true at 1% false": found.true_at_1,
                    "control": found.control,
                }


def tables() -> Iterator[tuple[str, Dataset]]:
    """The four hospitals as one table, two of statsmodels (if it is there), one of scikit-learn."""
    import pandas as pd
    from sklearn.datasets import load_breast_cancer

    hospitals = fedwad.datasets.load("heart").values()
    frames = {"heart disease": pd.concat([pd.read_csv(path) for path in hospitals])}
    try:
        from statsmodels.datasets import fair, randhie

        frames["medical visits (randhie)"] = randhie.load_pandas().data
        frames["affairs (fair)"] = fair.load_pandas().data
    except ModuleNotFoundError:
        pass
    cancer = load_breast_cancer(as_frame=True)
    frames["breast cancer"] = cancer.data
    columns = Columns.of(schema="auto")
    for name, frame in frames.items():
        some = frame.sample(min(len(frame), _ROWS), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw = read_raw(some, columns=columns)
        yield name, read(raw, columns=columns).sort_features()
