"""A site's own file: which data, policy and ledger its node opens. It never leaves the site, and no
job can name it."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedwad.engines.flare._names import SITE_FILE, SITE_VARIABLE
from fedwad.errors import InputError
from fedwad.federation import Client, Columns, open_client

__all__ = ["Site", "find", "read", "toml"]

_KEYS = ("data", "policy", "ledger", "label_column", "drop")


@dataclass(frozen=True)
class Site:
    """What `fedwad.toml` says: paths of data, policy and ledger, and what the columns of tables
    are."""

    data: Path
    policy: Path
    ledger: Path | None = None
    columns: Columns = field(default_factory=Columns)

    def open(self) -> Client:
        return open_client(self.data, self.policy, self.ledger, **self.columns.words())


def find(folder: str | Path, name: str) -> Path:
    """The site's file: where the variable FEDWAD_SITE says, in which {name} stands for the name, or
    in `folder`."""
    named = os.environ.get(SITE_VARIABLE)
    return Path(named.replace("{name}", name)) if named else Path(folder) / SITE_FILE


def read(path: str | Path) -> Site:
    """Read a site's file. Paths in it count from the folder that it is in."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            f"There is no file at {path}; write one that names data and policy."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise InputError(
            f"{path} is not TOML; write lines such as data = '/srv/data.csv'."
        ) from None
    unknown = [key for key in content if key not in _KEYS]
    if unknown:
        raise InputError(f"{path} names {', '.join(unknown)}; its keys are {', '.join(_KEYS)}.")
    odd = [
        key
        for key, value in content.items()
        if not (_is_text(value) or (key == "drop" and _is_list(value)))
    ]
    missing = [key for key in ("data", "policy") if key not in content]
    if odd or missing:
        raise InputError(f"{path} has no text for {', '.join(odd + missing)}; give it in quotes.")
    paths = {
        key: path.parent / content[key] for key in ("data", "policy", "ledger") if key in content
    }
    columns = Columns.of(content.get("label_column"), content.get("drop"))
    return Site(paths["data"], paths["policy"], paths.get("ledger"), columns)


def toml(content: Mapping[str, Any]) -> str:
    """Words, numbers and lists as lines of TOML, which are those of JSON but for these letters and
    for infinity."""
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in content.items())
    return "".join(lines).replace("\x7f", "\\u007f").replace("= Infinity\n", "= inf\n")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
