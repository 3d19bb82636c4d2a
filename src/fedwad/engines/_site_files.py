"""The files of sites and the columns of their tables, from what users give to either engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedwad.engines.job import Job
from fedwad.errors import InputError
from fedwad.federation import Columns
from fedwad.tables import Schema

__all__ = ["absolute_path", "parse_columns", "select_files"]


def parse_columns(options: Mapping[str, Any]) -> Columns:
    """Columns of tables, from the keywords of `open_client` that describe them.

    Without a schema among them, the sites agree on one. A given schema is the path of its file,
    because other processes read it.
    """
    if isinstance(options.get("schema"), Schema):
        raise InputError("schema is a Schema; save it, and give the path of its file.")
    return Columns.of(**{"schema": "auto", **options})


def absolute_path(path: str | Path) -> str:
    """An absolute path, for processes that run in other folders."""
    return str(Path(path).expanduser().resolve())


def select_files(job: Job, data: Mapping[str, str | Path]) -> dict[str, str]:
    """The absolute path of the file of each site of a job; all sites if the job names none."""
    names = job.clients or tuple(data)
    unknown = [name for name in names if name not in data]
    if unknown or not names:
        raise InputError(
            f"There is no file for {', '.join(unknown) or 'any site'}; give one for each site."
        )
    return {name: absolute_path(data[name]) for name in names}
