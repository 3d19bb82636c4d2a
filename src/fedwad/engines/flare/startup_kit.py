"""Prepare a startup kit of FLARE.

At a site the command is `fedwad node flare KIT --data FILE --policy FILE`, and at the server
`python -m fedwad.engines.flare.startup_kit server KIT`.

Provisioning makes a kit for each participant. The participant's own decisions are in the `local`
folder of its kit, which no other participant sees. FLARE reads `resources.json` and
`authorization.json` there, or the `.default` files if they are missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedwad._files import to_toml, write_atomically
from fedwad.engines._site_files import absolute_path, parse_columns
from fedwad.engines.flare._protocol import CONTROLLER, EXECUTOR, SITE_FILE
from fedwad.errors import FedwadError, InputError
from fedwad.federation import open_client

__all__ = ["main", "prepare_server", "prepare_site"]

# Seconds without a heartbeat after which a site counts as gone. FLARE's default is 600, and a job
# would wait that long for the site.
_HEARTBEAT_TIMEOUT = 60

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
    **columns: Any,
) -> None:
    """Write a site's decisions into its kit.

    `columns` are the keywords `label_column`, `drop`, `missing` and `schema` of `open_client`.

    - `fedwad.toml`: its data, policy and ledger, and what the columns of a table are;
    - `resources.json`: jobs start no class but fedwad's executor, and no log leaves the site (by
      default FLARE sends the error log);
    - `authorization.json`: jobs contain no code, and nobody reads the site's files.

    Data, policy and ledger are opened first, as the node will open them. Otherwise an analyst would
    be the first to notice a wrong path, and would not see the reason.
    """
    local = _local_folder(kit, "fed_client.json")
    options = parse_columns(columns).to_options()
    name, client = _site_name(local.parent), open_client(data, policy, ledger, **options)
    if name not in ("", client.policy.name):
        raise InputError(
            f"{policy} is the policy of '{client.policy.name}' and {kit} the kit of '{name}';"
            " use the same name in both."
        )
    settings = {"data": absolute_path(data), "policy": absolute_path(policy), **options}
    settings |= {} if ledger is None else {"ledger": absolute_path(ledger)}
    resources = _read_default(local, "resources.json")
    resources |= {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [EXECUTOR],
        "allow_log_streaming": False,
    }
    write_atomically(local / SITE_FILE, to_toml(settings))
    write_atomically(local / "resources.json", json.dumps(resources, indent=2))
    write_atomically(local / "authorization.json", json.dumps(_RIGHTS, indent=2))


def prepare_server(kit: str | Path) -> None:
    """Write the server's decisions into its kit.

    - `resources.json`: jobs may start fedwad's controller, jobs are stored in the kit's folder
      instead of /tmp, and a site without a heartbeat for a minute counts as gone;
    - `authorization.json`: analysts (role "lead") may follow the jobs that they submitted.
    """
    local = _local_folder(kit, "fed_server.json")
    resources = _read_default(local, "resources.json")
    resources["class_allow_list"] = sorted({*resources.get("class_allow_list", ()), CONTROLLER})
    resources["servers"][0]["heart_beat_timeout"] = _HEARTBEAT_TIMEOUT
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


def _local_folder(kit: str | Path, startup_file: str) -> Path:
    """The `local` folder of a kit; InputError unless its `startup` folder has the given file."""
    folder = Path(kit).expanduser().resolve()
    if not (folder / "startup" / startup_file).is_file() or not (folder / "local").is_dir():
        raise InputError(
            f"{kit} is not the right startup kit of FLARE;"
            f" give the folder that contains startup/{startup_file}."
        )
    return folder / "local"


def _site_name(kit: Path) -> str:
    """The name in a site's certificate, which its kit repeats; empty if the kit does not."""
    try:
        text = (kit / "startup" / "fed_client.json").read_text(encoding="utf-8")
        name = json.loads(text)["client"]["fqsn"]
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    return str(name).rsplit(".", 1)[-1]


def _read_default(local: Path, name: str) -> dict[str, Any]:
    """A configuration as provisioning wrote it."""
    try:
        return dict(json.loads((local / f"{name}.default").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise InputError(
            f"{local / name}.default is missing or not JSON; use the kit from provisioning."
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 2, with a sentence on standard error, if something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m fedwad.engines.flare.startup_kit",
        description="Prepare the startup kit of a FLARE server; `fedwad node flare` is for sites.",
    )
    commands = parser.add_subparsers(required=True)
    server = commands.add_parser("server", help="the kit of the FLARE server")
    server.add_argument("kit", type=Path, help="folder that nvflare package or provision wrote")
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
