"""Make a startup kit of FLARE ready: `fedwad node flare KIT --data FILE --policy FILE` at a site,
at the server `python -m fedwad.engines.flare.kit server KIT`.

Provisioning makes a kit for each party. What a party decides for itself stands in the `local`
folder of its kit, which no other party sees. FLARE reads `resources.json` and `authorization.json`
there, or the `.default` ones without them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedwad._files import write_atomically
from fedwad.engines.flare._names import CONDUCTOR, NODE, SITE_FILE
from fedwad.engines.flare.site import toml
from fedwad.errors import FedwadError, InputError
from fedwad.federation import Columns, open_client

__all__ = ["main", "prepare_server", "prepare_site"]

# seconds of silence after which a site counts as gone; with FLARE's 600 a job waits that long for
# it
_HEARTBEAT = 60

#: What others may do at a site, by their role in the project. What is not here is refused: to bring
#: code ("byoc"), to read files of the site by shell commands, to stop its node.
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
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
) -> None:
    """Write what a site decides.

    - `fedwad.toml`: its data, policy, ledger and what the columns of a table are;
    - `resources.json`: jobs start no class but fedwad's node, and no log leaves (by default FLARE
      sends the error log);
    - `authorization.json`: jobs bring no code, and nobody reads the site's files.

    First data, policy and ledger are opened as the node will: else the first to hear of a wrong
    path would be an analyst, days later, and without the reason.
    """
    local, columns = _local(kit, "fed_client.json"), Columns.of(label_column, drop)
    name, client = _site_name(local.parent), open_client(data, policy, ledger, **columns.words())
    if name not in ("", client.policy.name):
        raise InputError(
            f"{policy} is the policy of '{client.policy.name}' and {kit} the kit of '{name}'; make the names agree."
        )
    words = {"data": _whole(data), "policy": _whole(policy), **columns.words()}
    words |= {} if ledger is None else {"ledger": _whole(ledger)}
    resources = _default(local, "resources.json")
    resources |= {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [NODE],
        "allow_log_streaming": False,
    }
    write_atomically(local / SITE_FILE, toml(words))
    write_atomically(local / "resources.json", json.dumps(resources, indent=2))
    write_atomically(local / "authorization.json", json.dumps(_RIGHTS, indent=2))


def prepare_server(kit: str | Path) -> None:
    """Write what the server decides.

    - `resources.json`: jobs may start fedwad's conductor, jobs are stored in the kit's folder and
      not in /tmp, and a site that is silent for a minute counts as gone;
    - `authorization.json`: analysts (role "lead") may follow the jobs that they submitted.
    """
    local = _local(kit, "fed_server.json")
    resources = _default(local, "resources.json")
    resources["class_allow_list"] = sorted({*resources.get("class_allow_list", ()), CONDUCTOR})
    resources["servers"][0]["heart_beat_timeout"] = _HEARTBEAT
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(
        local.parent / "snapshots"
    )
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(local.parent / "jobs")
    rights = _default(local, "authorization.json")
    rights["permissions"]["lead"]["app_command"] = "n:submitter"
    write_atomically(local / "resources.json", json.dumps(resources, indent=2))
    write_atomically(local / "authorization.json", json.dumps(rights, indent=2))


def _local(kit: str | Path, startup: str) -> Path:
    """The folder of a party's own decisions, in a kit that has the given file for its start."""
    place = Path(kit).expanduser().resolve()
    if not (place / "startup" / startup).is_file() or not (place / "local").is_dir():
        raise InputError(
            f"{kit} is not the right startup kit of FLARE; name the folder that holds startup/{startup}."
        )
    return place / "local"


def _site_name(kit: Path) -> str:
    """The name in the certificate of a site, which its kit repeats; empty if it does not."""
    try:
        name = json.loads((kit / "startup" / "fed_client.json").read_text(encoding="utf-8"))[
            "client"
        ]["fqsn"]
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    return str(name).rsplit(".", 1)[-1]


def _default(local: Path, name: str) -> dict[str, Any]:
    """What provisioning proposed."""
    try:
        return dict(json.loads((local / f"{name}.default").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise InputError(
            f"{local / name}.default is missing or not JSON; take the kit as provisioning made it."
        ) from None


def _whole(path: str | Path) -> str:
    return str(Path(path).expanduser().resolve())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 2 with a sentence on standard error when something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m fedwad.engines.flare.kit", description="Make a startup kit ready."
    )
    commands = parser.add_subparsers(dest="party", required=True)
    server = commands.add_parser("server", help="the kit of the FLARE server")
    site = commands.add_parser("site", help="the kit of a site that holds data")
    for command in (server, site):
        command.add_argument("kit", type=Path, help="folder made by nvflare package or provision")
    site.add_argument("--data", type=Path, required=True, help=".npy, .npz, .csv or .parquet")
    site.add_argument("--policy", type=Path, required=True, help="TOML file of what is answered")
    site.add_argument(
        "--ledger", type=Path, help="file of what was answered; beside the policy when left out"
    )
    site.add_argument("--label-column", help="column of a table that is a label and not a feature")
    site.add_argument(
        "--drop", action="append", metavar="COLUMN", help="column that is not read; may be repeated"
    )
    given = parser.parse_args(arguments)
    try:
        if given.party == "server":
            prepare_server(given.kit)
        else:
            prepare_site(
                given.kit,
                given.data,
                given.policy,
                given.ledger,
                given.label_column,
                given.drop or (),
            )
    except FedwadError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{given.kit} is ready; start it with {given.kit / 'startup' / 'start.sh'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
