"""The options that say what the columns of tables are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from fedwad.cli.groups import Group
from fedwad.federation import Columns

__all__ = ["Drop", "LabelColumn", "TableOptions"]

LabelColumn = Annotated[
    str | None, typer.Option(help="Column of a .csv or .parquet that holds the labels.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a .csv or .parquet to leave out, such as a patient's number; may be"
        " repeated.",
        metavar="COLUMN",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class TableOptions(Group):
    """What the columns of tables are."""

    label_column: LabelColumn = None
    drop: Drop = None

    @property
    def columns(self) -> Columns:
        return Columns.of(self.label_column, self.drop)
