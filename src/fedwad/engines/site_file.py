"""A site's own file: data, policy, ledger, and what the columns of a table are.

    data = "/srv/paris.csv"
    policy = "/etc/fedwad/paris.toml"
    ledger = "/var/lib/fedwad/paris.sqlite"
    drop = ["patient_id"]

The operator of a site writes it beside the node; no job can name another. Further keys are the
keywords of `open_client`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedwad.errors import InputError
from fedwad.federation import Client, Columns, open_client
from fedwad.tables import Schema, is_database

_KEYS = {"data", "policy", "ledger", "label_column", *(spec.name for spec in fields(Columns))}
_KEYS -= {"label", "schema_path", "elementwise", "by"}


def open_site_file(path: str | Path) -> Client:
    """Open the client that a site's file describes."""
    return open_client(**read_site_file(path))


def read_site_file(path: str | Path) -> dict[str, Any]:
    """The keywords of `open_client` in a site's file. Relative paths start from its folder.

    Unknown keys are refused: if a misspelt `drop` were ignored, an identifier would become a
    feature.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            f"There is no file at {path}; write one that names data and policy.", "no-such-file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise InputError(
            f"{path} is not TOML; write lines such as data = '/srv/data.csv'.", "bad-toml"
        ) from None
    if unknown := sorted(content.keys() - _KEYS):
        raise InputError(
            f"{path} has unknown keys {', '.join(unknown)}; its keys are"
            f" {', '.join(sorted(_KEYS))}.",
            "unknown-key",
        )
    texts = {"data", "policy", *content.keys() & {"ledger", "schema", "label_column"}}
    texts |= {key for key, value in content.items() if value == ""}
    wrong = [
        key for key in texts if not (isinstance(content.get(key), str) and content[key].strip())
    ]
    if wrong:
        raise InputError(
            f"{path} has no text for {', '.join(sorted(wrong))}; give it in quotes.", "bad-config"
        )
    if content.get("schema", "none") not in ("auto", "none"):
        content["schema"] = str(path.parent / content["schema"])
    parse_columns({key: content[key] for key in content.keys() - {"data", "policy", "ledger"}})
    for key in content.keys() & {"data", "policy", "ledger"}:
        if not is_database(content[key]):
            content[key] = path.parent / content[key]
    return content


def parse_columns(options: Mapping[str, Any]) -> Columns:
    """Columns of tables, from the keywords of `open_client` that describe them.

    Without a schema among them, the sites agree on one. A given schema is the path of its file,
    because other processes read it.
    """
    if isinstance(options.get("schema"), Schema):
        raise InputError(
            "schema is a Schema; save it, and give the path of its file.", "bad-option"
        )
    return Columns.of(**{"schema": "auto", **options})


def absolute_path(path: str | Path) -> str:
    """An absolute path, for processes that run in other folders; a database as it is."""
    return str(path) if is_database(path) else str(Path(path).expanduser().resolve())
