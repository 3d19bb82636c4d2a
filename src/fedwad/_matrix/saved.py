"""Reading a saved matrix, and what it holds besides plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from fedwad._checks import check_saved
from fedwad._explain.evidence import Evidence
from fedwad._matrix.health import Health
from fedwad._matrix.newcomers import kept_from_dict
from fedwad.federation import Traffic
from fedwad.ot import Floats

if TYPE_CHECKING:
    from fedwad._matrix.result import MatrixResult

__all__ = ["TABLES", "MatrixRound", "TableName", "check_matrix", "read_fields"]

TableName = Literal["value", "lower", "upper", "fedwad", "noise", "population", "pvalue"]
#: The tables of a matrix. The first three always exist, the others may be None. The last three were
#: added later, so a saved matrix may lack them.
TABLES: tuple[str, ...] = get_args(TableName)


@dataclass(frozen=True)
class MatrixRound:
    """One round of "hub" or "pairs", and the root mean square `shift` of its supports."""

    number: int
    seconds: float
    shift: float


def read_fields(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a matrix from what was saved; this removes entries from `content`."""
    check_saved(content, ("p", "seed", "min_cell_size"))
    check_saved(content.get("privacy") or {}, ("epsilon", "delta"))
    tables: dict[str, Any] = {name: content.pop(name) for name in TABLES[:4]}
    tables |= {name: content.pop(name, None) for name in TABLES[4:]}
    interval, health = content.pop("population_interval", None), content.pop("health", None)
    evidence, kept = content.pop("evidence", None), content.pop("kept", {})
    for name, table in tables.items():
        tables[name] = None if table is None else np.array(table, dtype=np.float64)
    if type(content["sites"]) is not list:
        raise TypeError("not a list of names")
    return dict(
        sites=tuple(content.pop("sites")),
        rows=tuple(map(int, content.pop("rows", ()))),
        covariance_types=tuple(content.pop("covariance_types")),
        traffic=Traffic(**content.pop("traffic")),
        history=tuple(MatrixRound(**record) for record in content.pop("history")),
        population_interval=None if interval is None else _interval(interval),
        health=None if health is None else Health.from_dict(health, len(tables["value"])),
        evidence=None if evidence is None else Evidence.from_dict(evidence),
        kept=kept_from_dict(kept),
        **tables,
        **content,
    )


def check_matrix(result: MatrixResult) -> None:
    """Raise ValueError unless the parts of a matrix fit one another."""
    size = len({name for name in result.sites if type(name) is str})
    if size != len(result.sites):
        raise ValueError("not different names")
    if result.rows and len(result.rows) != size:
        raise ValueError("not one number of rows for each site")
    if any(table.shape != (size, size) for table in _tables(result)):
        raise ValueError("not one row and one column for each site")
    if not np.array_equal(np.clip(result.value, result.lower, result.upper), result.value):
        raise ValueError("not a value between its bounds")


def _tables(result: MatrixResult) -> list[Floats]:
    tables = [result.value, result.lower, result.upper, *(result.population_interval or ())]
    rest = [getattr(result, name) for name in TABLES[3:]]
    return tables + [table for table in rest if table is not None]


def _interval(ends: list[Any]) -> tuple[Floats, Floats]:
    low, high = (np.array(table, dtype=np.float64) for table in ends)
    return low, high
