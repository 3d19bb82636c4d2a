"""`fedwad demo`: four hospitals, one question."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedwad._words import bytes_in_words, counted
from fedwad.cli._hospitals import PAPER_ROUNDS, PAPER_SUPPORT, Story, tell
from fedwad.cli.console import errors, guarded, print_json, screen
from fedwad.cli.groups import check_ending
from fedwad.cli.sites import conflict_sentences

__all__ = ["demo"]

_KINDS = {
    "schema": "profile",
    "encode": "schema taken",
    "summary": "summary",
    "blocks": "block means",
}


@guarded
def demo(
    report: Annotated[Path, typer.Option(help="Write an HTML report to this file.")] = Path(
        "fedwad-demo.html"
    ),
    seed: Annotated[
        int, typer.Option(help="Seed of the random numbers; the same seed gives the same result.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """Compare four hospitals' patient data without showing a row."""
    check_ending(report, ".html", "--report")
    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    quiet = not errors.is_terminal
    with Progress(*columns, console=errors, transient=True, disable=quiet) as progress:
        task = progress.add_task("Reading the tables", total=None)
        story = tell(seed, lambda text: progress.update(task, description=text))
        _write(story, report)
    if as_json:
        print_json(_as_dict(story, report))
    else:
        _show(story, report)


def _write(story: Story, report: Path) -> None:
    from fedwad.report import write_report

    write_report(
        story.matrix,
        report,
        clusters=story.clusters,
        command="fedwad demo",
        schema=story.schema,
        warnings=conflict_sentences(story.schema),
        title="Do four hospitals see the same patients?",
    )


def _as_dict(story: Story, report: Path) -> dict[str, Any]:
    return {
        "matrix": story.matrix.to_dict(),
        "clusters": story.clusters.tolist(),
        "warnings": conflict_sentences(story.schema),
        "ledgers": {
            name: [asdict(entry) for entry in entries] for name, entries in story.ledgers.items()
        },
        "paper": story.paper.to_dict(),
        "exact": story.exact.tolist(),
        "raw_bytes": story.raw,
        "report": str(report),
    }


def _show(story: Story, report: Path) -> None:
    from fedwad.report.sentences import compared_matrix, health_sentences, matrix_answer
    from fedwad.report.why import why_sentences

    def part(title: str, *sentences: str) -> None:
        screen.print(f"\n[bold]{title}[/]")
        screen.print(" ".join(sentences), markup=False)

    matrix = story.matrix
    verdict, *rest = matrix_answer(matrix)
    part("Do four hospitals see the same patients?", verdict, *why_sentences(matrix), *rest)
    part("How different are they, and is there an odd one out?", *health_sentences(matrix))
    conflicts = conflict_sentences(story.schema)
    part("Look here first", "\n".join(f"- {sentence}" for sentence in conflicts))
    part("What was compared", *compared_matrix(matrix, story.schema))
    screen.print("\n[bold]Distances between the populations[/] (chance alone in brackets)")
    screen.print(_distances(story))
    screen.print("\n[bold]What left each hospital[/], by its own ledger; no row did")
    screen.print(_sent(story))
    part("What the paper's method would have needed", _paper(story))
    screen.print(
        f"\nPage: {report}\nNext: fedwad matrix YOUR-FOLDER/ --report sites.html",
        soft_wrap=True,
        markup=False,
    )


def _table(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    return table


def _distances(story: Story) -> Table:
    matrix = story.matrix
    table = _table("", *matrix.sites)
    assert matrix.population is not None  # noqa: S101
    assert matrix.noise is not None  # noqa: S101
    for i, name in enumerate(matrix.sites):
        cells = [
            "" if i == j else f"{matrix.population[i, j]:.2f} ({matrix.noise[i, j]:.2f})"
            for j in range(len(matrix))
        ]
        table.add_row(name, *cells)
    return table


def _sent(story: Story) -> Table:
    kinds = list(dict.fromkeys(entry.kind for one in story.ledgers.values() for entry in one))
    table = _table("", *(_KINDS.get(kind, kind) for kind in kinds))
    for name, entries in story.ledgers.items():
        sizes = {entry.kind: entry.bytes for entry in entries}
        cells = [bytes_in_words(sizes[kind]) if kind in sizes else "" for kind in kinds]
        table.add_row(name, *cells)
    return table


def _paper(story: Story) -> str:
    paper = story.paper
    assert paper.fedwad is not None  # noqa: S101
    rounds = paper.traffic.messages // len(paper)
    return (
        f"FedWaD, pair by pair ({PAPER_SUPPORT} points, {PAPER_ROUNDS} rounds):"
        f" {counted(rounds, 'message')} from each hospital and {bytes_in_words(paper.traffic.up)}"
        f" in all, for distances that are {story.error_of(paper.fedwad):+.0%} off on average."
        f" Here: {counted(story.messages // len(paper), 'message')} from each and"
        f" {bytes_in_words(story.sent)} in all, {story.error_of(story.matrix.value):+.1%} off."
        f" (The exact distances need all rows in one place.)"
    )
