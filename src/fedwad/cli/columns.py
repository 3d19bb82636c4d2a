"""Options that name a site's files, and that say what the columns of tables are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fedwad.cli.option_groups import FILE_TYPES, OptionGroup
from fedwad.federation import Columns

__all__ = ["DataFile", "Drop", "LabelColumn", "LedgerFile", "Missing", "PolicyFile", "TableOptions"]

DataFile = Annotated[Path, typer.Argument(help=f"The data: {FILE_TYPES}.", show_default=False)]
PolicyFile = Annotated[Path, typer.Argument(help="The policy, a .toml file.", show_default=False)]
LedgerFile = Annotated[
    Path | None, typer.Option(help="The site's ledger; next to the policy when left out.")
]

LabelColumn = Annotated[str | None, typer.Option(help="Column of a table that holds the labels.")]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a table to leave out, such as a patient's number; may be repeated.",
        metavar="COLUMN",
        show_default=False,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="Text that stands for a missing value, in all columns or in one, as in chol=0; may be"
        " repeated.",
        metavar="TEXT",
        show_default=False,
    ),
]
SchemaFile = Annotated[
    str,
    typer.Option(
        help="Schema file that says how columns are encoded; 'none' uses numeric columns"
        " unchanged.",
        metavar="FILE|none",
        show_default="agreed on by the sites",
    ),
]


@dataclass(frozen=True)
class TableOptions(OptionGroup):
    """What the columns of tables are."""

    label_column: LabelColumn = None
    drop: Drop = None
    missing: Missing = None
    schema: SchemaFile = "auto"

    @property
    def columns(self) -> Columns:
        return Columns.of(self.label_column, self.drop, self.missing, self.schema)
