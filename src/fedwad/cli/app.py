"""All commands of the command line; the module of a command loads when the command runs."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import fedwad

Group = dict[str, str]


def about(function: str) -> str:
    """What the docstring of a command's function says first, without loading its module."""
    module, name = function.split(".")
    return " ".join(_docstrings(module)[name].split("\n\n")[0].split())


@cache
def _docstrings(module: str) -> dict[str, str]:
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
    functions = (one for one in tree.body if isinstance(one, ast.FunctionDef))
    return {one.name: ast.get_docstring(one) or "" for one in functions}


_NODE: Group = {
    "check": "node.check",
    "accept-data": "node.accept",
    "revoke": "node.revoke",
    "flower": "node.flower",
    "flare": "node.flare",
}
_LEDGER: Group = {"show": "ledger.show", "export": "ledger.export", "verify": "ledger.verify"}
_BUDGET: Group = {"show": "ledger.show_budget"}

#: What users want to do, and the commands that do it.
PARTS: dict[str, dict[str, str | tuple[str, Group]]] = {
    "Compare sites": {
        "demo": "demo.demo",
        "columns": "columns.columns",
        "distance": "compare.distance",
        "matrix": "compare.matrix",
        "test": "compare.permutation",
        "cluster": "compare.cluster",
        "join": "compare.join",
        "embed": "compare.embed",
        "schema": "columns.schema",
    },
    "Watch one site": {"reference": "drift.reference", "watch": "drift.watch"},
    "Learn from all sites": {"coreset": "learn.coreset", "train": "learn.train"},
    "Decide what may leave": {
        "plan": "audit.plan",
        "audit": "audit.audit",
        "node": ("For data holders: check what a node would answer, and run one.", _NODE),
        "ledger": ("For data holders: what left a node?", _LEDGER),
        "budget": ("For data holders: how much of a privacy budget is spent?", _BUDGET),
    },
    "Set up": {"warm-up": "console.warm_up"},
}


def load(name: str, entry: str | tuple[str, Group]) -> Any:
    """The command with all its options; this loads its module."""
    from fedwad.cli.console import exit_on_error
    from fedwad.cli.options import expand_option_groups

    title, group = (None, {name: entry}) if isinstance(entry, str) else entry
    made = typer.Typer(help=title, no_args_is_help=True, add_completion=False)
    if title is not None:
        made.callback()(lambda: None)
    for word, each in group.items():
        module, function = each.split(".")
        command = getattr(import_module(f"fedwad.cli.{module}"), function)
        made.command(word)(exit_on_error(expand_option_groups(command)))
    return get_command(made)


class _Commands(TyperGroup):
    """Lists commands by their one line, and loads the one that runs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for part, entries in PARTS.items():
            for name, entry in entries.items():
                text = about(entry) if isinstance(entry, str) else entry[0]
                self.commands[name] = TyperCommand(name, help=text, rich_help_panel=part)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        entries = {word: entry for part in PARTS.values() for word, entry in part.items()}
        if name not in entries:
            return name, command, rest
        entry = entries[name]
        loaded = load(str(name), entry)
        from fedwad.cli.options import FILE, read_settings, show_log

        if "--verbose" in rest:  # it may stand after the command, too
            rest = [word for word in rest if word != "--verbose"]
            ctx.params["verbose"] = True
        if ctx.params.get("verbose"):
            show_log()
        if isinstance(entry, str) and FILE.is_file():
            options = {parameter.name for parameter in loaded.params} - {"help"}
            ctx.default_map = {str(name): read_settings(str(name), options, entries)}
        return name, loaded, rest


app = typer.Typer(
    cls=_Commands,
    help="Measure how similar datasets are without pooling them.",
    epilog="Begin with `fedwad demo`, then `fedwad matrix YOUR-FOLDER/ --report sites.html`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"fedwad {fedwad.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    verbose: bool = typer.Option(
        False, "--verbose", help="Say what is being done; also after the command."
    ),
) -> None:
    """Measure how similar datasets are without pooling them."""
