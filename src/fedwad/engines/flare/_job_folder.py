"""A FLARE job as a folder that names installed classes for the server and the sites.

The folder contains no code.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedwad.engines.flare._protocol import CONTROLLER, EXECUTOR
from fedwad.engines.job import Job

__all__ = ["write_job_folder"]


def write_job_folder(folder: Path, job: Job, names: Sequence[str], **settings: Any) -> Path:
    """Write a job for the sites `names` into `folder`, and return the folder.

    The server's JobController takes the job, the names and `settings` as arguments.
    """
    # FLARE replaces {variables} in a job's configuration. Base 64 has no braces.
    encoded = base64.b64encode(job.to_json().encode()).decode()
    arguments = {"job": encoded, "names": list(names), **settings}
    meta = {
        "name": f"fedwad-{job.algorithm}",
        "resource_spec": {},
        # The algorithm, not FLARE, decides whether it can go on without some sites.
        "min_clients": 1,
        "deploy_map": {"app_server": ["server"], "app_site": list(names)},
    }
    server = {
        "format_version": 2,
        "workflows": [{"id": "fedwad", "path": CONTROLLER, "args": arguments}],
    }
    site = {
        "format_version": 2,
        "executors": [{"tasks": ["fedwad"], "executor": {"path": EXECUTOR, "args": {}}}],
    }
    _write(folder / "meta.json", meta)
    _write(folder / "app_server" / "config" / "config_fed_server.json", server)
    _write(folder / "app_site" / "config" / "config_fed_client.json", site)
    return folder


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
