"""`fedwad audit` and `fedwad plan`: what could be reconstructed, and what privacy would cost."""

from __future__ import annotations

import math
from pathlib import Path

import typer

import fedwad
from fedwad._words import pluralize
from fedwad.audit import AuditResult, Method, Score
from fedwad.cli.console import (
    make_table,
    print_json,
    print_sentence,
    print_text,
    progress_bar,
    screen,
)
from fedwad.cli.node import TRAINING_WARNING, untried_kinds
from fedwad.cli.options import Data, Output, SavedOutput, Seed, SiteOptions
from fedwad.compare import Progress
from fedwad.errors import InputError
from fedwad.federation import Policy
from fedwad.privacy import plan as simulate_releases
from fedwad.tables import Schema, redact


def audit(
    data: Data,
    *,
    table_options: SiteOptions,
    output: SavedOutput,
    policy: Path | None = None,
    method: Method | None = None,
    seed: Seed = 0,
    strict: bool = False,
) -> None:
    """What could a curious server reconstruct of your data?

    The known attacks run against a client with your data and your policy, on this machine. Nothing
    is sent, and no ledger is written. The result counts the reconstructed records and compares
    them with a fresh sample of the same population. The report shows some of your records: keep it
    safe. What --save writes has none.

    Example: `fedwad audit paris.csv --policy paris.toml`

    Parameters
    ----------
    policy : the policy of your node, a .toml file; by default everything is answered
    method : attack one method only
    strict : exit with 1 if records were reconstructed
    """
    output.check([data])
    with progress_bar("Attacking") as bar:
        result = fedwad.audit(
            data,
            policy,
            method,
            seed,
            **table_options.columns.to_options(),
            callback=lambda name, done, total: bar.progress(Progress(name, done, total)),
        )
    output.write(result)
    if output.as_json:
        print_json(result.to_dict())
    else:
        _show_audit(result, data)
        allowed = [] if policy is None else untried_kinds(Policy.load(policy))
        if allowed:
            print_text(f"Warning: the policy allows {', '.join(allowed)}. {TRAINING_WARNING}")
    if strict and result.leaks:
        raise typer.Exit(1)


def _show_audit(result: AuditResult, data: str) -> None:
    """The attacks as a table, the reasons of refusals, and a verdict for each method."""
    count = str(result.n_attacked)
    if result.n_attacked < result.n_records:
        count += f" of {result.n_records}"
    print_text(f"Attacks on the records of {redact(data)}, {count}, under {result.policy}")
    titles = ("method", "attack", "answers", "exactly", "within 10%", "closest")
    table = make_table(*titles, left=("method", "attack"), no_wrap=True)
    reasons: list[str] = []  # why attacks have no score
    for row in result.rows:
        numbers = _numbers(row.score)
        if not math.isfinite(row.score.closest):
            word = "skipped" if row.skipped_reason else "refused" if row.refused else ""
            numbers = [word, "", ""]
            reasons += [f"Not tried: {row.skipped_reason}"] if row.skipped_reason else []
            reasons += [f"Refused: {row.refused}"] if word == "refused" else []
        style = "bold red" if row.leaks else ""
        table.add_row(row.method, row.attack, str(row.answered), *numbers, style=style)
    table.add_row("", "a fresh sample, to compare", "", *_numbers(result.baseline))
    screen.print(table)
    for reason in dict.fromkeys(reasons):
        print_text(reason)
    for row in result.rows:
        if row.words:
            print_text(f"{row.attack.capitalize()}: {row.words}.")
    screen.print()
    for method in result.methods:
        print_text(result.verdict(method))
    print_text(
        "Exactly: within a millionth of the typical distance between nearest neighbours. Closest:"
        " the median distance to a guess, in units of that distance. Failed attacks are no proof of"
        " privacy; differential privacy is."
    )


def _numbers(score: Score) -> list[str]:
    return [str(score.exact), str(score.near), f"{score.closest:.2f}"]


def plan(
    *,
    n: int,
    epsilon: list[float],
    output: Output,
    d: int | None = None,
    schema: Path | None = None,
    delta: float = 1e-5,
    nearest: float = 0.5,
    farthest: float = 1.0,
    seed: Seed = 0,
) -> None:
    """Is differential privacy feasible at this size? Simulated releases show the error; nothing is
    spent.

    Example: `fedwad plan --n 2000 --d 12 --epsilon 1`

    Parameters
    ----------
    n : samples of each site
    epsilon : epsilon of the guarantee; may be repeated
    d : features
    schema : schema file of the tables, instead of --d
    delta : delta of the guarantee, well below 1 / number of samples
    nearest : distance between populations like that of your nearest pair
    farthest : a larger distance that must come out larger, too
    """
    output.check()
    if (d is None) == (schema is None):
        raise InputError(
            "Give the number of features as --d, or --schema, which has it.", "missing-option"
        )
    loaded = None if schema is None else Schema.load(schema)
    features = loaded or d or 0
    reports = [
        simulate_releases(n, features, value, delta, seed=seed, nearest=nearest, farthest=farthest)
        for value in epsilon
    ]
    first = reports[0]
    bins = "the schema's" if loaded is not None else "2 typical norms wide"
    verdicts = "; ".join(f"epsilon {one.epsilon:g}: {one.verdict}" for one in reports)
    sentence = (
        f"{verdicts[0].upper()}{verdicts[1:]}. Simulated: sites of {n} rows and"
        f" {pluralize(first.columns, 'column')}, whose populations are {first.nearest:.3g} and"
        f" {first.farthest:.3g} apart; bins are {bins}. The guarantee is per row. Your data may"
        " differ."
    )
    output.write(reports, sentence=sentence)
    if output.as_json:
        print_json({"sentence": sentence, "plans": [one.to_dict() for one in reports]})
        return
    print_sentence(sentence)
    table = make_table("epsilon", "error of a distance", "order kept", "enough rows")
    for one in reports:
        enough = "" if one.verdict == "feasible" else f"about {one.enough}"
        if one.enough is None:
            enough = f"over {1000 * one.n}"
        numbers = f"{one.epsilon:g}", f"{one.error:.0%}", f"{one.order:.0%}"
        table.add_row(*numbers, enough)
    screen.print(table)
    output.print_report()
