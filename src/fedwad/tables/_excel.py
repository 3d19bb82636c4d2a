"""Tables in Excel files, through openpyxl."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from fedwad.errors import InputError
from fedwad.tables._table import Table, check_names
from fedwad.tables._text import values_column

__all__ = ["read_excel"]


def read_excel(
    path: Path,
    missing_texts: frozenset[str] = frozenset(),
    drop: Sequence[str] = (),
    sheet: str | None = None,
    elementwise: bool = False,
) -> Table:
    """A table from one sheet of an Excel file, the first sheet by default.

    The first row of the sheet names the columns. Empty rows at the end are left out, except with
    `elementwise`: then texts stay texts and no row is left out.
    """
    rows = _sheet_rows(path, sheet)
    while rows and not elementwise and all(value is None for value in rows[-1]):
        rows.pop()
    if len(rows) < 2:
        raise InputError(f"{path} is empty; give a row of names and at least one sample.")
    named_values = [
        ("" if title is None else str(title), values)
        for title, *values in islice(zip_longest(*rows), len(rows[0]))
        if title not in (None, "") or any(value is not None for value in values)
    ]
    check_names([name for name, _ in named_values], str(path), drop)
    columns = tuple(
        values_column(name, values, missing_texts, elementwise)
        for name, values in named_values
        if name not in drop
    )
    return Table(str(path), columns, len(rows) - 1)


def _sheet_rows(path: Path, sheet: str | None) -> list[tuple[Any, ...]]:
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise InputError(
            f"{path} is an Excel file, which needs openpyxl; install it with"
            " pip install 'fedwad[excel]', or save the table as CSV."
        ) from None
    try:
        workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception:  # openpyxl's zip and XML readers raise many kinds of errors
        raise InputError(f"{path} cannot be read as .xlsx; is it complete?") from None
    try:
        if sheet is not None and sheet not in workbook.sheetnames:
            raise InputError(
                f"{path} has no sheet '{sheet}'; it has {', '.join(workbook.sheetnames)}."
            )
        chosen = workbook[sheet] if sheet is not None else workbook.worksheets[0]
        return [tuple(row) for row in chosen.iter_rows(values_only=True)]
    finally:
        workbook.close()
