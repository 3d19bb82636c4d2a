"""A FLARE job: a folder that names installed classes for the server and the sites, without code.

The names below are those that both ends of a run share. This module does not import FLARE.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedwad.engines.job import Job

#: The installed classes that a job names.
CONTROLLER = "fedwad.engines.flare.controller.JobController"
EXECUTOR = "fedwad.engines.flare.executor.ClientExecutor"

#: Topics of the messages between the processes of one job.
READY, MESSAGE = "ready", "message"

#: Answers of a site to READY, before and after it has read its data (or failed to read them).
OPENING, OPEN = b"opening", b"open"

#: Topic with which the analyst's session requests the progress and the outcome of a job.
COLLECT = "fedwad.collect"


def write_job_folder(folder: Path, job: Job, names: Sequence[str], **settings: Any) -> Path:
    """Write a job for the sites `names` into `folder`, and return the folder.

    The server's JobController takes the job, the names and `settings` as arguments.
    """
    # FLARE replaces {variables} in a job's configuration. Base 64 has no braces.
    encoded = base64.b64encode(job.to_json().encode()).decode()
    arguments = {"job": encoded, "names": list(names), **settings}
    executor = {"tasks": ["fedwad"], "executor": {"path": EXECUTOR, "args": {}}}
    contents: dict[str, dict[str, Any]] = {
        "meta.json": {
            "name": f"fedwad-{job.algorithm}",
            "resource_spec": {},
            # The algorithm, not FLARE, decides whether it can go on without some sites.
            "min_clients": 1,
            "deploy_map": {"app_server": ["server"], "app_site": list(names)},
        },
        "app_server/config/config_fed_server.json": {
            "format_version": 2,
            "workflows": [{"id": "fedwad", "path": CONTROLLER, "args": arguments}],
        },
        "app_site/config/config_fed_client.json": {"format_version": 2, "executors": [executor]},
    }
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
    return folder
