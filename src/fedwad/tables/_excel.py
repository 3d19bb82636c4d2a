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
    by_cell: bool = False,
) -> Table:
    """A table from one sheet of an Excel file; its first row names the columns."""
    lines = _lines(path, sheet)
    while lines and not by_cell and all(cell is None for cell in lines[-1]):
        lines.pop()
    if len(lines) < 2:
        raise InputError(f"{path} is empty; give a row of names and at least one sample.")
    found = [
        ("" if head is None else str(head), cells)
        for head, *cells in islice(zip_longest(*lines), len(lines[0]))
    ]
    filled = [(name, cells) for name, cells in found if name or any(c is not None for c in cells)]
    check_names([name for name, _ in filled], str(path), drop)
    columns = tuple(
        values_column(name, cells, missing_texts, by_cell)
        for name, cells in filled
        if name not in drop
    )
    return Table(str(path), columns, len(lines) - 1)


def _lines(path: Path, sheet: str | None) -> list[tuple[Any, ...]]:
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise InputError(
            f"{path} is an Excel file, which needs openpyxl; install it with"
            " pip install 'fedwad[excel]', or save the table as CSV."
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception:  # the zip and XML readers below it raise a dozen kinds
        raise InputError(f"{path} cannot be read as .xlsx; is it complete?") from None
    try:
        if sheet is not None and sheet not in book.sheetnames:
            raise InputError(f"{path} has no sheet '{sheet}'; it has {', '.join(book.sheetnames)}.")
        chosen = book[sheet] if sheet is not None else book.worksheets[0]
        return [tuple(line) for line in chosen.iter_rows(values_only=True)]
    finally:
        book.close()
