"""`fedwad demo`: do four hospitals see the same patients?"""

from __future__ import annotations

import warnings
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

import numpy as np
from rich.table import Table

import fedwad
from fedwad._words import format_bytes, pluralize
from fedwad.cli.console import make_table, print_json, print_text, progress_bar, screen
from fedwad.cli.options import Json, Seed, check_ending
from fedwad.cli.sites import page_of_sites, schema_warnings
from fedwad.errors import DataWarning
from fedwad.federation import LocalFederation
from fedwad.transport import Floats

_LABEL_COLUMN = "num"  # the diagnosis, which is not compared
#: Support and rounds of the paper's method, for comparison.
PAPER_SUPPORT, PAPER_ROUNDS = 100, 20


def _open(files: dict[str, Path]) -> LocalFederation:
    with warnings.catch_warnings():  # the page and the screen show the conflicts
        warnings.simplefilter("ignore", DataWarning)
        return fedwad.local(files, label_column=_LABEL_COLUMN)


def demo(*, report: Path = Path("fedwad-demo.html"), seed: Seed = 0, as_json: Json = False) -> None:
    """Compare four hospitals' patient data without showing a row.

    Example: `fedwad demo`

    Parameters
    ----------
    report : write an HTML report to this file
    """
    check_ending(report, ".html", "--report")
    files = fedwad.datasets.load("heart")
    with progress_bar("The hospitals agree on what their columns mean") as bar:
        fed = _open(files)
        schema = fed.schema
        assert schema is not None  # noqa: S101
        bar.line("One summary from each hospital")
        matrix = fedwad.matrix(fed, seed=seed)
        page = page_of_sites(fed, fed, matrix, None) | {"warnings": schema_warnings(schema)}
        ledgers = {
            name: [entry for entry in entries if entry.outcome == "answered"]
            for name, entries in page["ledgers"].items()
        }
        bar.line("The paper's method, for comparison")
        method = fedwad.methods.Pairs(support=PAPER_SUPPORT, rounds=PAPER_ROUNDS)
        paper = fedwad.matrix(_open(files), method=method, seed=seed)
        bar.line("The exact distances, for comparison")
        tables = [schema.encode(path) for path in files.values()]
        # From pooled rows, which nobody would have.
        exact = np.zeros((len(tables), len(tables)))
        for i, j in combinations(range(len(tables)), 2):
            exact[i, j] = exact[j, i] = fedwad.wasserstein(tables[i], tables[j])
        clusters = matrix.cluster(matrix.suggest().k, seed=seed)
        from fedwad.report import write_report

        title = "Do four hospitals see the same patients?"
        write_report(matrix, report, clusters=clusters, command="fedwad demo", title=title, **page)
    if as_json:
        print_json(
            {
                "sentence": matrix.sentence,
                "differs": matrix.differs.tolist(),
                "matrix": matrix.to_dict(),
                "clusters": clusters.tolist(),
                "warnings": page["warnings"],
                "ledgers": {
                    name: [asdict(entry) for entry in entries] for name, entries in ledgers.items()
                },
                "paper": paper.to_dict(),
                "exact": exact.tolist(),
                "raw_bytes": sum(path.stat().st_size for path in files.values()),
                "report": str(report),
            }
        )
        return

    def section(title: str, *sentences: str) -> None:
        screen.print(f"\n[bold]{title}[/]")
        screen.print(" ".join(sentences), markup=False)

    heterogeneity = matrix.heterogeneity
    section(title, matrix.sentence)
    section(
        "How different are they?",
        f"{max(heterogeneity.fraction, 0):.0%} of the total variance lies between the hospitals;"
        f" the mean squared distance between two of them is {heterogeneity.value:.3g}.",
    )
    section("Look here first", "\n".join(f"- {sentence}" for sentence in page["warnings"]))
    section("What was compared", *schema.description_lines())
    screen.print("\n[bold]Distances between the populations[/] (chance alone in brackets)")
    screen.print(_distances(matrix))
    screen.print("\n[bold]What left each hospital[/], by its own ledger; no row did")
    table = make_table("", "columns", "summary with blocks", left=("",), no_wrap=True)
    for name, entries in ledgers.items():
        sizes = {entry.kind: format_bytes(entry.bytes) for entry in entries}
        table.add_row(name, sizes["columns"], sizes["summary"])
    screen.print(table)
    sent = sum(entry.bytes for entries in ledgers.values() for entry in entries)
    needed = _paper_sentence(matrix, paper, exact, sent)
    section("What the paper's method would have needed", needed)
    print_text(f"\nPage: {report}\nNext: fedwad matrix YOUR-FOLDER/ --report sites.html")


def _distances(matrix: fedwad.MatrixResult) -> Table:
    """Rows of each hospital, and its distances from the others; - where no difference was found."""
    table = make_table("", "rows", *matrix.sites, left=("",), no_wrap=True)
    assert matrix.population is not None  # noqa: S101
    assert matrix.noise is not None  # noqa: S101
    for i, name in enumerate(matrix.sites):
        cells = [
            "" if i == j else f"{matrix.population[i, j]:.2f} ({matrix.noise[i, j]:.2f})"
            for j in range(len(matrix))
        ]
        table.add_row(name, str(matrix.rows[i]), *(cell.replace("nan", "-") for cell in cells))
    return table


def _paper_sentence(
    matrix: fedwad.MatrixResult, paper: fedwad.MatrixResult, exact: Floats, sent: int
) -> str:
    count, pairs = len(paper), np.triu_indices(len(paper), 1)
    assert paper.fedwad is not None  # noqa: S101
    theirs, ours = (
        float(np.mean(values[pairs] / exact[pairs] - 1)) for values in (paper.fedwad, matrix.value)
    )
    return (
        f"FedWaD, pair by pair ({PAPER_SUPPORT} points, {PAPER_ROUNDS} rounds):"
        f" {pluralize(paper.traffic.messages // count, 'message')} from each hospital and"
        f" {format_bytes(paper.traffic.up)} in all, for distances that are {theirs:+.0%} off on"
        f" average. Here: {pluralize(matrix.traffic.messages // count, 'message')} from each"
        f" and {format_bytes(sent)} in all, {ours:+.1%} off. (The exact distances need all rows in"
        " one place.)"
    )
