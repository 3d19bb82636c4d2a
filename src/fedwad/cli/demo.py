"""`fedwad demo`: do four hospitals see the same patients?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

import fedwad
from fedwad._words import format_bytes
from fedwad.cli.compare import ClusterOptions, find_clusters, matrix_in_json, show_matrix
from fedwad.cli.console import make_table, print_json, print_text, progress_bar, screen
from fedwad.cli.options import Json, Output, Seed
from fedwad.cli.sites import page_of_sites, schema_warnings
from fedwad.compare.shown import ShownMatrix


def demo(*, report: Path = Path("fedwad-demo.html"), seed: Seed = 0, as_json: Json = False) -> None:
    """Compare four hospitals' patient data without showing a row.

    Example: `fedwad demo`

    Parameters
    ----------
    report : write an HTML report to this file
    """
    output, title = Output(report, as_json), "Do four hospitals see the same patients?"
    output.check()
    with progress_bar("One summary from each hospital"):
        fed = fedwad.local(fedwad.datasets.load("heart"), label_column="num")  # the diagnosis
        result = fedwad.matrix(fed, seed=seed)
        page = page_of_sites(fed, fed, result, None) | {"warnings": schema_warnings(fed.schema)}
    clusters = find_clusters(result, "auto", ClusterOptions(), seed)
    output.write(result, clusters=np.array(clusters["labels"]), title=title, **page)
    ledgers = {
        name: [asdict(entry) for entry in entries if entry.outcome == "answered"]
        for name, entries in page["ledgers"].items()
    }
    if as_json:
        more = {"ledgers": ledgers, "report": str(report)}
        print_json(matrix_in_json(result, clusters, page) | more)
        return
    screen.print(f"\n[bold]{title}[/]")
    show_matrix(ShownMatrix(result))
    screen.print("\n[bold]Look here first[/]")
    screen.print("\n".join(f"- {sentence}" for sentence in page["warnings"]), markup=False)
    screen.print("\n[bold]What left each hospital[/], by its own ledger; no row did")
    table = make_table("", "columns", "summary with blocks", left=("",), no_wrap=True)
    for name, entries in ledgers.items():
        sizes = {entry["kind"]: format_bytes(entry["bytes"]) for entry in entries}
        table.add_row(name, sizes["columns"], sizes["summary"])
    screen.print(table)
    print_text(f"\nPage: {report}\nNext: fedwad matrix YOUR-FOLDER/ --report sites.html")
