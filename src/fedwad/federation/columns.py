"""What the columns of a table are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Columns"]


@dataclass(frozen=True)
class Columns:
    """Which column of a table is the label; the others are features."""

    label: str | None = None

    def words(self) -> dict[str, Any]:
        """As a site's file, and the functions that open tables, spell it; without what is left out."""
        return {} if self.label is None else {"label_column": self.label}
