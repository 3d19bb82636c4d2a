"""The options that say what the columns of tables are."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Drop", "LabelColumn"]

LabelColumn = Annotated[
    str | None, typer.Option(help="Column of a .csv or .parquet that is a label and no feature.")
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a .csv or .parquet that is not read, such as a patient's number; may be repeated.",
        metavar="COLUMN",
        show_default=False,
    ),
]
