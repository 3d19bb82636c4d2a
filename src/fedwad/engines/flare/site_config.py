"""A site's own file, which names the data, the policy and the ledger that its node opens.

The file never leaves the site, and no job can name another one.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedwad.engines._site_files import parse_columns
from fedwad.engines.flare._protocol import SITE_FILE, SITE_VARIABLE
from fedwad.errors import InputError
from fedwad.federation import Client, Columns, open_client

__all__ = ["SiteConfig", "config_path", "read_config"]

_PATH_KEYS = ("data", "policy", "ledger")
_COLUMN_KEYS = ("label_column", "drop", "missing", "schema")
_KEYS = _PATH_KEYS + _COLUMN_KEYS


@dataclass(frozen=True)
class SiteConfig:
    """The content of `fedwad.toml`: paths of data, policy and ledger, and what the columns are."""

    data: Path
    policy: Path
    ledger: Path | None = None
    columns: Columns = field(default_factory=Columns)

    def open(self) -> Client:
        return open_client(self.data, self.policy, self.ledger, **self.columns.to_options())


def config_path(folder: str | Path, name: str) -> Path:
    """The path of a site's file: the value of FEDWAD_SITE, or else `fedwad.toml` in `folder`.

    {name} in the value stands for the name of the site.
    """
    value = os.environ.get(SITE_VARIABLE)
    return Path(value.replace("{name}", name)) if value else Path(folder) / SITE_FILE


def read_config(path: str | Path) -> SiteConfig:
    """Read a site's file. Relative paths in it start from its folder."""
    path = Path(path)
    content = _load(path)
    _check_values(path, content)
    paths = {key: path.parent / content[key] for key in _PATH_KEYS if key in content}
    columns = {key: content[key] for key in _COLUMN_KEYS if key in content}
    if columns.get("schema", "none") not in ("auto", "none"):
        columns["schema"] = path.parent / columns["schema"]
    return SiteConfig(paths["data"], paths["policy"], paths.get("ledger"), parse_columns(columns))


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            f"There is no file at {path}; write one that names data and policy."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise InputError(
            f"{path} is not TOML; write lines such as data = '/srv/data.csv'."
        ) from None


def _check_values(path: Path, content: Mapping[str, Any]) -> None:
    unknown = [key for key in content if key not in _KEYS]
    if unknown:
        raise InputError(
            f"{path} has unknown keys {', '.join(unknown)}; its keys are {', '.join(_KEYS)}."
        )
    wrong = [key for key, value in content.items() if not _is_valid(key, value)]
    missing = [key for key in ("data", "policy") if key not in content]
    if wrong or missing:
        keys = ", ".join(wrong + missing)
        raise InputError(f"{path} has no text for {keys}; give it in quotes.")


def _is_valid(key: str, value: Any) -> bool:
    if key in ("drop", "missing") and isinstance(value, list):
        return all(isinstance(name, str) for name in value)
    return isinstance(value, str) and bool(value)
