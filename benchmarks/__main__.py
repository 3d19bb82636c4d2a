"""Print all tables, or with --json one object. `rivals [GROUP]` compares other tools and papers."""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.table import Table

import fedwad
from benchmarks import (
    accuracy,
    attacks,
    big_pair,
    classifier,
    coresets,
    embeddings,
    first_use,
    growth,
    ledger,
    matrices,
    messages,
    new_messages,
    otdd_conversion,
    private,
    self_test,
    speed,
    training,
)

TABLES = {
    "accuracy": accuracy.measure,
    "messages": messages.measure,
    "transports": speed.transports,
    "whole": speed.whole,
    "loops": speed.loops,
    "n_jobs": speed.n_jobs,
    "growth": speed.growth,
    "slopes": growth.slopes,
    "first_use": first_use.measure,
    "big_pair": big_pair.measure,
    "big_pair_draws": big_pair.draws,
    "datasets": matrices.datasets,
    "clusters": matrices.clusters,
    "hundred": matrices.hundred,
    "many": matrices.many,
    "all_pairs": matrices.all_pairs,
    "embeddings": embeddings.measure,
    "otdd_conversion": otdd_conversion.measure,
    "coresets": coresets.measure,
    "classifier": classifier.measure,
    "classifier_choices": classifier.choices,
    "training": training.steps,
    "gradients": training.gradients,
    "boosting": training.boosting,
    "private": private.measure,
    "private_clusters": private.clusters,
    "private_classifier": private.classifier,
    "attacks": attacks.measure,
    "self_test": self_test.measure,
    "new_messages": new_messages.measure,
    "ledger": ledger.measure,
}


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "POT", "numba")}
    return {
        "fedwad": fedwad.__version__,
        "python": platform.python_version(),
        "cpu": platform.machine(),
        **packages,
    }


def show(title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    columns = {name: value for row in reversed(rows) for name, value in row.items()}
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        table.add_column(name, justify="right" if isinstance(columns[name], float) else "left")
    for row in rows:
        table.add_row(*(_cell(name, row.get(name, math.nan)) for name in names))
    Console(width=200).print(table)


def _cell(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return ""
    relative = name.startswith(("paper", "lower", "upper", "value", "one message"))
    return f"{100 * value:+.2f}%" if relative else f"{value:.3g}"


def plot_growth(rows: list[dict[str, Any]], path: str) -> None:
    """Time against n at S = 10 on two logarithmic axes, with a line of slope one."""
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["S"] == 10]
    n = [row["n"] for row in rows]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for column in ("cost matrix s", "solver s", "solve() s"):
        axes.loglog(n, [row[column] for row in rows], "o-", label=column.removesuffix(" s"))
    top = rows[-1]["solve() s"]
    axes.loglog(n, [top * k / n[-1] for k in n], ":", color="grey", label="slope 1")
    axes.set(xlabel="samples n (S = 10, d = 2)", ylabel="seconds, one thread")
    axes.legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    if sys.argv[1:2] == ["rivals"]:
        from benchmarks import rivals

        rivals.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tables", nargs="*", choices=[*TABLES, []], help="which tables; all when left out"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of tables"
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the table messages or growth into this .svg or .png file",
    )
    options = parser.parse_args()
    results = {name: TABLES[name]() for name in options.tables or TABLES}
    for name, plot in (("messages", messages.plot), ("growth", plot_growth)):
        if options.plot and name in options.tables:
            plot(results[name], options.plot)
    if options.json:
        print(json.dumps({"machine": machine(), **results}, indent=1))
        return
    for name, rows in results.items():
        show(name, rows)


if __name__ == "__main__":
    main()
