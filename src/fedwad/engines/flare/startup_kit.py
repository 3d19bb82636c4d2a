"""Startup kits of FLARE: prepare one, and read what a site decided in its own.

At a site the command is `fedwad node flare KIT --data FILE --policy FILE`, and at the server
`python -m fedwad.engines.flare.startup_kit server KIT`.

Provisioning makes a kit for each participant. The participant's own decisions are in the `local`
folder of its kit, which no other participant sees. FLARE reads `resources.json` and
`authorization.json` there, or the `.default` files if they are missing. fedwad reads `fedwad.toml`,
which names the data, the policy and the ledger that a node opens; no job can name others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedwad._files import to_toml, write_atomically
from fedwad.engines.flare._job_folder import CONTROLLER, EXECUTOR
from fedwad.engines.site_file import absolute_path, parse_columns
from fedwad.errors import FedwadError, InputError
from fedwad.federation import open_client
from fedwad.tables import has_password, is_database, redact

#: A site's own file in its `local` folder, and the environment variable that names another file.
SITE_FILE, SITE_VARIABLE = "fedwad.toml", "FEDWAD_SITE"

#: The class that a node's main process starts to answer /healthz and /metrics.
_MONITOR = "fedwad.engines.flare.monitor.NodeMonitor"
#: The class that formats the lines of a node's log.json.
_FORMATTER = "fedwad.engines._operation.Formatter"

#: What users may do at a site, by their role in the project. Everything else is refused: jobs with
#: code of their own ("byoc"), and shell commands that read files of the site. Only an administrator
#: of the site's own organisation may stop its node.
_RIGHTS = {
    "format_version": "1.0",
    "permissions": {
        "project_admin": {"submit_job": "any", "manage_job": "any", "view": "any"},
        "org_admin": {"manage_job": "o:submitter", "view": "any", "operate": "o:site"},
        "lead": {"submit_job": "any", "manage_job": "n:submitter", "view": "any"},
        "member": {"view": "any"},
    },
}


def prepare_site(
    kit: str | Path,
    data: str | Path,
    policy: str | Path,
    ledger: str | Path | None = None,
    metrics: int | None = None,
    **columns: Any,
) -> None:
    """Write a site's decisions into its kit.

    `columns` are the keywords of `open_client` that say what the columns are.

    - `fedwad.toml`: its data, policy and ledger, and what the columns of a table are;
    - `resources.json`: jobs start no class but fedwad's executor, and no log leaves the site (by
      default FLARE sends the error log);
    - `authorization.json`: jobs contain no code, and nobody reads the site's files;
    - `log_config.json`: the lines of `log.json` have the run, kind and outcome of each request;
    - `fedwad__p_resources.json`, with a port for `metrics`: the main process of the node answers
      /healthz and /metrics.

    Data, policy and ledger are opened first, as the node will open them. Otherwise an analyst would
    be the first to notice a wrong path, and would not see the reason.
    """
    local = _local_folder(kit, "fed_client.json")
    if is_database(data) and has_password(str(data)):
        raise InputError(
            f"The address of {redact(str(data))} has a password, which would be written into the"
            " kit; leave it out, and put it into ~/.pgpass or PGPASSWORD.",
            "password-in-address",
        )
    options = parse_columns(columns).to_options()
    client = open_client(data, policy, ledger, **options)
    startup = json.loads((local.parent / "startup" / "fed_client.json").read_text(encoding="utf-8"))
    # The name in the site's certificate, which its kit repeats.
    name = str(startup.get("client", {}).get("fqsn", client.policy.name)).rsplit(".", 1)[-1]
    if name != client.policy.name:
        raise InputError(
            f"{policy} is the policy of '{client.policy.name}' and {kit} the kit of '{name}';"
            " use the same name in both.",
            "bad-name",
        )
    settings = {"data": absolute_path(data), "policy": absolute_path(policy), **options}
    settings |= {} if ledger is None else {"ledger": absolute_path(ledger)}
    resources = _read_default(local, "resources.json")
    resources |= {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [EXECUTOR],
        "allow_log_streaming": False,
    }
    log = _read_default(local, "log_config.json")
    formatter = {"()": _FORMATTER, "log_format": "json", "site": name}
    log.setdefault("formatters", {})["jsonFormatter"] = formatter
    monitor = {"id": "fedwad", "path": _MONITOR, "args": {"port": metrics}}
    content = {"format_version": 2, "components": [] if metrics is None else [monitor]}
    write_atomically(local / "log_config.json", json.dumps(log, indent=2))
    write_atomically(local / "fedwad__p_resources.json", json.dumps(content, indent=2))
    write_atomically(local / SITE_FILE, to_toml(settings))
    write_atomically(local / "resources.json", json.dumps(resources, indent=2))
    write_atomically(local / "authorization.json", json.dumps(_RIGHTS, indent=2))


def prepare_server(kit: str | Path, heartbeat_timeout: int = 60) -> None:
    """Write the server's decisions into its kit.

    - `resources.json`: jobs may start fedwad's controller, jobs are stored in the kit's folder
      instead of /tmp, and a site without a heartbeat for so many seconds counts as gone. FLARE's
      default is 600, and a job would wait that long for the site;
    - `authorization.json`: analysts (role "lead") may follow the jobs that they submitted.
    """
    local = _local_folder(kit, "fed_server.json")
    resources = _read_default(local, "resources.json")
    resources["class_allow_list"] = sorted({*resources.get("class_allow_list", ()), CONTROLLER})
    resources["servers"][0]["heart_beat_timeout"] = heartbeat_timeout
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(
        local.parent / "snapshots"
    )
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(local.parent / "jobs")
    rights = _read_default(local, "authorization.json")
    rights["permissions"]["lead"]["app_command"] = "n:submitter"
    write_atomically(local / "resources.json", json.dumps(resources, indent=2))
    write_atomically(local / "authorization.json", json.dumps(rights, indent=2))


def config_path(folder: str | Path, name: str) -> Path:
    """The path of a site's file: the value of FEDWAD_SITE, or else `fedwad.toml` in `folder`.

    {name} in the value stands for the name of the site.
    """
    value = os.environ.get(SITE_VARIABLE)
    return Path(value.replace("{name}", name)) if value else Path(folder) / SITE_FILE


def _local_folder(kit: str | Path, startup_file: str) -> Path:
    """The `local` folder of a kit; InputError unless its `startup` folder has the given file."""
    folder = Path(kit).expanduser().resolve()
    if not (folder / "startup" / startup_file).is_file() or not (folder / "local").is_dir():
        raise InputError(
            f"{kit} is not the right startup kit of FLARE;"
            f" give the folder that contains startup/{startup_file}.",
            "bad-config",
        )
    return folder / "local"


def _read_default(local: Path, name: str) -> dict[str, Any]:
    """A configuration as provisioning wrote it."""
    try:
        return dict(json.loads((local / f"{name}.default").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise InputError(
            f"{local / name}.default is missing or not JSON; use the kit from provisioning.",
            "bad-config",
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 2, with a sentence on standard error, if something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m fedwad.engines.flare.startup_kit",
        description="Prepare the startup kit of a FLARE server; `fedwad node flare` is for sites.",
    )
    parser.add_argument("participant", choices=["server"])
    parser.add_argument("kit", type=Path, help="folder that nvflare package or provision wrote")
    kit = parser.parse_args(arguments).kit
    try:
        prepare_server(kit)
    except FedwadError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{kit} is ready; start it with {kit / 'startup' / 'start.sh'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
