"""All commands of the command line."""

from __future__ import annotations

from typing import Annotated

import typer

import fedwad
from fedwad.cli.accept_data import accept
from fedwad.cli.audit import audit
from fedwad.cli.budget import show_budget
from fedwad.cli.coreset import coreset
from fedwad.cli.demo import demo
from fedwad.cli.distance import distance
from fedwad.cli.embed import embed
from fedwad.cli.join import join
from fedwad.cli.ledger import show
from fedwad.cli.matrix import cluster, matrix
from fedwad.cli.node import check
from fedwad.cli.node_engines import flare, flower
from fedwad.cli.permutation import permutation
from fedwad.cli.plan import plan
from fedwad.cli.reference import reference
from fedwad.cli.reproduce import reproduce
from fedwad.cli.schema import schema
from fedwad.cli.train import train
from fedwad.cli.warm_up import warm_up
from fedwad.cli.watch import watch

__all__ = ["app"]

app = typer.Typer(
    help="Measure how similar datasets are without pooling them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(demo)
app.command()(distance)
app.command()(schema)
app.command()(matrix)
app.command()(cluster)
app.command()(embed)
app.command("test")(permutation)
app.command()(join)
app.command()(reference)
app.command()(watch)
app.command()(coreset)
app.command()(plan)
app.command()(audit)
app.command()(train)
app.command()(reproduce)
app.command("warm-up")(warm_up)

_node = typer.Typer(
    help="For data holders: check what a node would answer, and run one.", no_args_is_help=True
)
_node.command()(check)
_node.command("accept-data")(accept)
_node.command()(flower)
_node.command()(flare)
app.add_typer(_node, name="node")

_ledger = typer.Typer(help="For data holders: what left a node?", no_args_is_help=True)
_ledger.command()(show)
app.add_typer(_ledger, name="ledger")

_budget = typer.Typer(
    help="For data holders: how much of a privacy budget is spent?", no_args_is_help=True
)
_budget.command("show")(show_budget)
app.add_typer(_budget, name="budget")


@_ledger.callback()
@_budget.callback()
def _group() -> None:  # with a callback `ledger show` stays two words, although `show` is alone
    pass


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"fedwad {fedwad.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Measure how similar datasets are without pooling them."""
