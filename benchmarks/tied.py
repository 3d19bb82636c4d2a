"""Discrete columns beside Gaussian ones: the processor time of a matrix of years of a survey.

`python -m benchmarks.tied` runs 6 and 16 years of 1,400 rows x 3 columns.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

import fedwad

YEARS = (6, 16)


def survey(years: int, discrete: bool, rows: int = 1400) -> dict[str, Any]:
    """A table for each year: age in ten groups, years of school and an answer from 1 to 5; or three
    Gaussian columns of the same moments. Later years have more school."""
    rng = np.random.default_rng(0)
    tables = {}
    for year in range(years):
        if discrete:
            columns = [
                rng.integers(2, 9, rows) * 10.0,
                rng.binomial(20, 0.55 + 0.01 * year, rows),
                rng.choice(5, rows, p=[0.1, 0.2, 0.4, 0.2, 0.1]) + 1.0,
            ]
        else:
            columns = [
                rng.normal(50, 20, rows),
                rng.normal(11 + 0.2 * year, 2.2, rows),
                rng.normal(3, 1.1, rows),
            ]
        tables[f"y{1990 + year}"] = np.column_stack(columns)
    return tables


def seconds(years: int, discrete: bool) -> float:
    """Processor seconds of all threads for the matrix with its test."""
    tables = survey(years, discrete)
    start = time.process_time()
    fedwad.matrix(fedwad.local(tables))
    return time.process_time() - start


def measure() -> list[dict[str, Any]]:
    """One row per number of years: seconds for discrete and for Gaussian columns, and the ratio."""
    for discrete in (True, False):  # what compiles, compiles here
        seconds(3, discrete)
    rows = []
    for years in YEARS:
        discrete, gaussian = (min(seconds(years, one) for _ in range(2)) for one in (True, False))
        rows.append(
            {
                "years": years,
                "discrete s": discrete,
                "Gaussian s": gaussian,
                "ratio": discrete / gaussian,
            }
        )
    return rows


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tied", description=__doc__)
    parser.parse_args()
    for row in measure():
        print(json.dumps(row))


if __name__ == "__main__":
    main()
