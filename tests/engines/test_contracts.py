"""What the modules that use internals of the engines need of them; a failure says in one line what
another version lacks."""

import ast
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import fedwad

ENGINES = Path(fedwad.__file__).parent / "engines"
MODULES = {"flwr": ENGINES / "flower" / "_internals.py", "nvflare": ENGINES / "flare" / "_cells.py"}
CALLS = {
    "flwr": {
        "flwr.supernode.fleet_http_client:FleetHttpClient": (
            "ActivateNode DeactivateNode PullMessages PushMessages PullObject PushObject"
            " ConfirmMessageReceived SendNodeHeartbeat from_server_address close"
        ),
        "flwr.superlink.grid.http_grid": "pull_objects",
        "flwr.app:Message": "object_id metadata content",
    },
    "nvflare": {
        "nvflare.fuel.f3.cellnet.core_cell:CoreCell": "send_request register_request_cb",
        "nvflare.fuel.f3.cellnet.defs:ReturnCode": "OK TIMEOUT UNAUTHENTICATED PROCESS_EXCEPTION",
        "nvflare.fuel.f3.cellnet.defs:MessageHeaderKey": "ORIGIN RETURN_CODE",
        "nvflare.private.fed.server.server_engine:ServerEngine": "get_cell get_clients",
    },
}
ARGUMENTS = {
    "flwr": {
        "flwr.supercore.inflatable.inflatable_utils:pull_objects": (
            "max_time max_tries_per_object initial_backoff backoff_cap"
        ),
        "flwr.supercore.inflatable.inflatable_utils:pull_and_inflate_object_from_tree": (
            "return_type max_time max_tries_per_object initial_backoff backoff_cap"
        ),
    },
    "nvflare": {
        "nvflare.fuel.f3.cellnet.cell:Cell._send_request": (
            "channel target topic request timeout optional abort_signal"
        ),
        "nvflare.fuel.f3.cellnet.core_cell:CoreCell.register_request_cb": "channel topic cb",
    },
}


def found(path):
    module, _, name = path.partition(":")
    thing = import_module(module)
    for part in filter(None, name.split(".")):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("engine", MODULES)
def test_the_engine_has_what_is_used_of_its_internals(engine):
    if find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    missing = []
    for node in ast.walk(ast.parse(MODULES[engine].read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{engine}."):
            module = import_module(node.module)
            missing += [
                f"{node.module}.{a.name}" for a in node.names if not hasattr(module, a.name)
            ]
    for path, names in CALLS[engine].items():
        missing += [f"{path}.{name}" for name in names.split() if not hasattr(found(path), name)]
    for path, names in ARGUMENTS[engine].items():
        known = inspect.signature(found(path)).parameters
        missing += [f"{path}({name})" for name in names.split() if name not in known]
    assert not missing, f"{engine} lacks {', '.join(missing)}"


@pytest.mark.parametrize("engine", MODULES)
def test_no_other_module_uses_internals(engine):
    """Public are flwr.app, clientapp, serverapp, and of FLARE its apis, recipes and sessions.

    Imports of all forms count, and names in texts too, which `import_module` may import."""
    public = {
        "flwr": ("flwr.app", "flwr.clientapp", "flwr.serverapp"),
        "nvflare": ("nvflare.apis", "nvflare.recipe", "nvflare.fuel.flare_api"),
    }[engine]
    for path in ENGINES.rglob("*.py"):
        used = imported(path.read_text(), engine) if path != MODULES[engine] else []
        bad = [name for name in used if not name.startswith((*public, f"{engine}.cli"))]
        assert not [name for name in bad if name != engine], f"{path.name} uses {', '.join(bad)}"


def imported(source, engine):
    """What a module imports of an engine, in statements or by the text of a name."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names += (
                re.findall(rf"\b{engine}(?:\.\w+)*", node.value) if " " not in node.value else []
            )
    return [name for name in names if name.split(".")[0] == engine]


@pytest.mark.parametrize(
    "source",
    [
        "from flwr.supercore import x",
        "import flwr.supercore.x as y",
        "import_module('flwr.supercore.x')",
    ],
)
def test_each_form_of_an_import_is_seen(source):
    (name,) = imported(source, "flwr")
    assert name.startswith("flwr.supercore")


def test_a_message_takes_the_id_by_which_its_reply_refers_to_it(monkeypatch):
    """`_internals` sets it in the dictionary of the metadata, because there is no public way."""
    app = pytest.importorskip("flwr.app", reason="Flower is not installed")
    identity = import_module("flwr.supercore.task_identity").TaskIdentity
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(identity, name, 1)
    message = app.Message(app.RecordDict(), 1, "query")
    message.metadata.__dict__["_message_id"] = "an id"
    assert message.metadata.message_id == "an id"
    reply = app.Message(app.RecordDict(), reply_to=message)
    assert reply.metadata.reply_to_message_id == "an id"
