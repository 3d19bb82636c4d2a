"""`fedwad audit DATA`: attacks of a curious server on your own data, before anything is sent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import fedwad
from fedwad._audit import AuditResult, Method, Row
from fedwad._matrix.api import Progress
from fedwad.cli.columns import DataFile, TableOptions
from fedwad.cli.console import (
    command_line,
    exit_on_error,
    make_table,
    print_json,
    print_text,
    progress_bar,
    screen,
)
from fedwad.cli.option_groups import Json, Output, Seed, expand_option_groups
from fedwad.cli.policy_check import TRAINING_WARNING, untried_kinds
from fedwad.federation import Policy

__all__ = ["audit"]


@exit_on_error
@expand_option_groups
def audit(
    data: DataFile,
    table_options: TableOptions,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="The policy of your node, a .toml file; by default everything is answered."
        ),
    ] = None,
    method: Annotated[
        Method | None, typer.Option(help="Attack one method only.", show_default=False)
    ] = None,
    seed: Seed = 0,
    save: Annotated[
        Path | None, typer.Option(help="Write the result, without records, to this .json file.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write an HTML report to this file. It shows some of your records: keep it safe."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if records were reconstructed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What could a curious server reconstruct of your data?

    The known attacks run against a client with your data and your policy, on this machine. Nothing
    is sent, and no ledger is written. The result counts the reconstructed records and compares
    them with a fresh sample of the same population.
    """
    Output(save, report).check([str(data)])
    with progress_bar("Attacking") as bar:
        result = fedwad.audit(
            data,
            policy,
            method,
            seed,
            **table_options.columns.to_options(),
            callback=lambda name, done, total: bar.progress(Progress(name, done, total)),
        )
    if save is not None:
        result.save(save)
    if report is not None:
        from fedwad.report.page import write_audit

        write_audit(result, report, command=command_line())
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result, data)
        _warn_of_untried(policy)
    if strict and result.leaks:
        raise typer.Exit(1)


def _show(result: AuditResult, data: Path) -> None:
    """The attacks as a table, the reasons of refusals, and a verdict for each method."""
    count = str(result.n_attacked)
    if result.n_attacked < result.n_records:
        count += f" of {result.n_records}"
    print_text(f"Attacks on the records of {data}, {count}, under {result.policy}")
    screen.print(_attacks(result))
    for reason in dict.fromkeys(_reason(row) for row in result.rows):
        if reason:
            print_text(reason)
    screen.print()
    for method in result.methods:
        print_text(result.verdict(method))
    print_text(
        "Exactly: within a millionth of the typical distance between nearest neighbours. Closest:"
        " the median distance to a guess, in units of that distance. Failed attacks are no proof of"
        " privacy; differential privacy is."
    )


def _warn_of_untried(policy: Path | None) -> None:
    """Name the request kinds that the policy allows and that no rule makes safe."""
    allowed = [] if policy is None else untried_kinds(Policy.load(policy))
    if allowed:
        print_text(f"Warning: the policy allows {', '.join(allowed)}. {TRAINING_WARNING}")


def _attacks(result: AuditResult) -> Table:
    titles = ("method", "attack", "answers", "exactly", "within 10%", "closest")
    table = make_table(*titles, left=("method", "attack"), no_wrap=True)
    for row in result.rows:
        style = "bold red" if row.leaks else ""
        table.add_row(row.method, row.attack, str(row.answered), *_numbers(row), style=style)
    base = result.baseline
    numbers = [str(base.exact), str(base.near), f"{base.closest:.2f}"]
    table.add_row("", "a fresh sample, to compare", "", *numbers)
    return table


def _numbers(row: Row) -> list[str]:
    if math.isfinite(row.score.closest):
        return [str(row.score.exact), str(row.score.near), f"{row.score.closest:.2f}"]
    return ["skipped" if row.skipped_reason else "refused" if row.refused else "", "", ""]


def _reason(row: Row) -> str:
    """Why an attack has no score; empty if it has one."""
    if math.isfinite(row.score.closest):
        return ""
    if row.skipped_reason:
        return f"Not tried: {row.skipped_reason}"
    return f"Refused: {row.refused}" if row.refused else ""
