"""`fedwad demo`: do four hospitals see the same patients?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedwad._words import format_bytes, pluralize
from fedwad.cli._hospitals import PAPER_ROUNDS, PAPER_SUPPORT, DemoResult, run_demo
from fedwad.cli.console import (
    exit_on_error,
    make_table,
    print_json,
    print_text,
    progress_bar,
    screen,
)
from fedwad.cli.option_groups import Json, Seed, check_ending
from fedwad.cli.sites import schema_warnings

__all__ = ["demo"]

# Titles of the kinds of requests in the table of what left each hospital.
_KIND_TITLES = {
    "schema": "profile",
    "encode": "schema taken",
    "summary": "summary",
    "blocks": "block means",
}


@exit_on_error
def demo(
    report: Annotated[Path, typer.Option(help="Write an HTML report to this file.")] = Path(
        "fedwad-demo.html"
    ),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare four hospitals' patient data without showing a row."""
    check_ending(report, ".html", "--report")
    with progress_bar("Reading the tables") as bar:
        result = run_demo(seed, bar.line)
        _write(result, report)
    if as_json:
        print_json(_as_dict(result, report))
    else:
        _show(result, report)


def _write(result: DemoResult, report: Path) -> None:
    from fedwad.report import write_report

    write_report(
        result.matrix,
        report,
        clusters=result.clusters,
        command="fedwad demo",
        schema=result.schema,
        warnings=schema_warnings(result.schema),
        title="Do four hospitals see the same patients?",
    )


def _as_dict(result: DemoResult, report: Path) -> dict[str, Any]:
    return {
        "matrix": result.matrix.to_dict(),
        "clusters": result.clusters.tolist(),
        "warnings": schema_warnings(result.schema),
        "ledgers": {
            name: [asdict(entry) for entry in entries] for name, entries in result.ledgers.items()
        },
        "paper": result.paper.to_dict(),
        "exact": result.exact.tolist(),
        "raw_bytes": result.raw_bytes,
        "report": str(report),
    }


def _show(result: DemoResult, report: Path) -> None:
    from fedwad.report.sentences import heterogeneity_sentences, matrix_answer, what_was_compared
    from fedwad.report.why import why_sentences

    def section(title: str, *sentences: str) -> None:
        screen.print(f"\n[bold]{title}[/]")
        screen.print(" ".join(sentences), markup=False)

    matrix = result.matrix
    verdict, *details = matrix_answer(matrix)
    section("Do four hospitals see the same patients?", verdict, *why_sentences(matrix), *details)
    section(
        "How different are they, and is there an odd one out?", *heterogeneity_sentences(matrix)
    )
    conflicts = schema_warnings(result.schema)
    section("Look here first", "\n".join(f"- {sentence}" for sentence in conflicts))
    section("What was compared", *what_was_compared(matrix, result.schema))
    screen.print("\n[bold]Distances between the populations[/] (chance alone in brackets)")
    screen.print(_distances(result))
    screen.print("\n[bold]What left each hospital[/], by its own ledger; no row did")
    screen.print(_bytes_by_kind(result))
    section("What the paper's method would have needed", _paper_sentence(result))
    print_text(f"\nPage: {report}\nNext: fedwad matrix YOUR-FOLDER/ --report sites.html")


def _distances(result: DemoResult) -> Table:
    matrix = result.matrix
    table = make_table("", *matrix.sites, left=("",), no_wrap=True)
    assert matrix.population is not None  # noqa: S101
    assert matrix.noise is not None  # noqa: S101
    for i, name in enumerate(matrix.sites):
        cells = [
            "" if i == j else f"{matrix.population[i, j]:.2f} ({matrix.noise[i, j]:.2f})"
            for j in range(len(matrix))
        ]
        table.add_row(name, *cells)
    return table


def _bytes_by_kind(result: DemoResult) -> Table:
    all_entries = (entry for entries in result.ledgers.values() for entry in entries)
    kinds = list(dict.fromkeys(entry.kind for entry in all_entries))
    titles = [_KIND_TITLES.get(kind, kind) for kind in kinds]
    table = make_table("", *titles, left=("",), no_wrap=True)
    for name, entries in result.ledgers.items():
        sizes = {entry.kind: entry.bytes for entry in entries}
        cells = [format_bytes(sizes[kind]) if kind in sizes else "" for kind in kinds]
        table.add_row(name, *cells)
    return table


def _paper_sentence(result: DemoResult) -> str:
    paper = result.paper
    assert paper.fedwad is not None  # noqa: S101
    messages = paper.traffic.messages // len(paper)  # of each hospital
    return (
        f"FedWaD, pair by pair ({PAPER_SUPPORT} points, {PAPER_ROUNDS} rounds):"
        f" {pluralize(messages, 'message')} from each hospital and {format_bytes(paper.traffic.up)}"
        f" in all, for distances that are {result.error_of(paper.fedwad):+.0%} off on average."
        f" Here: {pluralize(result.messages // len(paper), 'message')} from each and"
        f" {format_bytes(result.sent)} in all, {result.error_of(result.matrix.value):+.1%} off."
        f" (The exact distances need all rows in one place.)"
    )
