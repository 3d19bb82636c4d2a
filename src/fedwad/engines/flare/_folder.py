"""A FLARE job as a folder: which installed classes to start at the server and at the sites. No code
travels."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedwad.engines.flare._names import CONDUCTOR, NODE
from fedwad.engines.job import Job

__all__ = ["write_folder"]


def write_folder(folder: Path, job: Job, names: Sequence[str], **settings: Any) -> Path:
    """Write the job for the sites `names` into the new folder `folder`; `settings` are the
    Conductor's."""
    # FLARE looks for {variables} in the words of a job, so the job's own JSON travels in letters
    # without braces.
    words = base64.b64encode(job.to_json().encode()).decode()
    arguments = {"job": words, "names": list(names), **settings}
    meta = {
        "name": f"fedwad-{job.algorithm}",
        "resource_spec": {},
        # which sites a run can do without is for the algorithm to say, not for FLARE
        "min_clients": 1,
        "deploy_map": {"app_server": ["server"], "app_site": list(names)},
    }
    server = {
        "format_version": 2,
        "workflows": [{"id": "fedwad", "path": CONDUCTOR, "args": arguments}],
    }
    site = {
        "format_version": 2,
        "executors": [{"tasks": ["fedwad"], "executor": {"path": NODE, "args": {}}}],
    }
    _write(folder / "meta.json", meta)
    _write(folder / "app_server" / "config" / "config_fed_server.json", server)
    _write(folder / "app_site" / "config" / "config_fed_client.json", site)
    return folder


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
