"""What the columns of a table are."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fedwad.errors import InputError

__all__ = ["Columns", "dropping"]


@dataclass(frozen=True)
class Columns:
    """Which column of a table is the label, and which are not read. The others are features."""

    label: str | None = None
    drop: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, label_column: str | None = None, drop: str | Iterable[str] | None = None
    ) -> Columns:
        """Columns from the options of a user: one name or several, repeated or not."""
        try:
            names = (drop,) if isinstance(drop, str) else () if drop is None else tuple(drop)
        except TypeError:
            raise InputError(
                f"drop is a {type(drop).__name__}; give the name of a column, or several."
            ) from None
        for name in names:
            if not isinstance(name, str):
                raise InputError(f"drop holds {name!r}; give names of columns, which are words.")
        if label_column in names:
            raise InputError(
                f"Column '{label_column}' is named as the label and to be dropped; choose one."
            )
        return cls(label_column, tuple(dict.fromkeys(names)))

    def words(self) -> dict[str, Any]:
        """The options `label_column` and `drop`, without those that are not set."""
        label = {} if self.label is None else {"label_column": self.label}
        return label | ({"drop": list(self.drop)} if self.drop else {})


def dropping(*names: str) -> str:
    """The option that drops these columns, as a shell takes it."""
    return " ".join(f"--drop {shlex.quote(name)}" for name in names)
