"""A matrix and its clusters on the screen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import fedwad
from fedwad._words import format_bytes
from fedwad.cli.console import print_failed, screen, warn_small_cells
from fedwad.cli.health import health_lines
from fedwad.report.sentences import cluster_numbers, judged_sites, matrix_answer
from fedwad.report.why import why_sentences

__all__ = ["show_clusters", "show_matrix"]

_WIDEST = 12
_NEIGHBOURS = ("nearest", "distance", "interval", "farthest", "distance")

Labels = NDArray[np.int64]


def show_matrix(result: fedwad.MatrixResult, clusters: Labels | None) -> None:
    """Print the answer, all distances or each site's neighbours, and what was sent."""
    _print_answer(result)
    labelled = result.class_covariance is not None
    what = "Dataset distances" if labelled else f"W{result.p:g} distances"
    of = "their populations" if judged_sites(result) else "their samples"
    title = f"{what} between {len(result)} sites, method {result.method}, of {of}"
    screen.print(title, soft_wrap=True)
    columns, rows = _headings(result, clusters is not None)
    screen.print(
        _distances(result, columns, rows, clusters) if columns else _neighbours(result, clusters)
    )
    if result.privacy is not None:
        kept = f"epsilon {result.privacy['epsilon']:g} and delta {result.privacy['delta']:g}"
        screen.print(f"Differential privacy: {kept} for the one release of each site.")
    for line in health_lines(result):
        screen.print(line, soft_wrap=True, markup=False)
    screen.print(_notes(result), soft_wrap=True)
    for name, reason in result.failed.items():
        print_failed(name, reason)
    warn_small_cells(result.min_cell_size, result.method)


def _print_answer(result: fedwad.MatrixResult) -> None:
    """Print whether the sites differ by more than chance, why, and who is most similar."""
    verdict, *rest = matrix_answer(result)
    screen.print(Text(verdict, style="bold"), soft_wrap=True)
    for sentence in (*why_sentences(result), *rest):
        screen.print(sentence, soft_wrap=True, markup=False)


def _table(clusters: Labels | None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    if clusters is not None:
        table.add_column("cluster", justify="right")
    return table


def _first_cells(name: str, row: int, clusters: Labels | None) -> list[str]:
    if clusters is None:
        return [escape(name)]
    number = cluster_numbers(clusters.tolist())[int(clusters[row])]
    return [escape(name), str(number) if number else "single"]


def _distances(
    result: fedwad.MatrixResult,
    columns: tuple[str, ...],
    rows: tuple[str, ...],
    clusters: Labels | None,
) -> Table:
    table = _table(clusters)
    for name in columns:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for row, name in enumerate(rows):
        shown = result.value if not judged_sites(result) else result.population
        assert shown is not None  # noqa: S101
        values = ["?" if value != value else f"{value:.4g}" for value in shown[row]]
        values[row] = ""
        table.add_row(*_first_cells(name, row, clusters), *values)
    return table


def _neighbours(result: fedwad.MatrixResult, clusters: Labels | None) -> Table:
    table = _table(clusters)
    for title in _NEIGHBOURS:
        table.add_column(title, justify="right" if title == "distance" else "left")
    for row, name in enumerate(result.sites):
        near, *_, far = result.nearest(name)
        table.add_row(
            *_first_cells(name, row, clusters),
            escape(near.site),
            f"{near.value:.4g}",
            f"{near.lower:.4g} to {near.upper:.4g}",
            escape(far.site),
            f"{far.value:.4g}",
        )
    return table


def _notes(result: fedwad.MatrixResult) -> str:
    pairs = np.triu_indices(len(result), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.nan_to_num((result.upper - result.lower) / result.value, posinf=0.0)[pairs]
    kind = "Certified" if result.certified else "Likely"
    cell = f"; smallest cell {result.min_cell_size}" if result.privacy is None else ""
    traffic = result.traffic
    return (
        f"{kind} intervals have a median width of {np.median(width):.0%} of the estimate (--save,"
        f" --report).\nSent: {format_bytes(traffic.up)} by the sites in {traffic.messages}"
        f" messages, {format_bytes(traffic.down)} to them{cell}."
    )


def _headings(
    result: fedwad.MatrixResult, clusters: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return headings of columns and rows that fit on the screen.

    Names of the sites come first, then numbers. No columns means that neither fits.
    """
    if len(result) > _WIDEST:
        return (), result.sites
    cell = max(len(f"{number:.4g}") for number in result.value.flat)
    numbers = tuple(str(k + 1) for k in range(len(result)))
    numbered = tuple(f"{number} {name}" for number, name in zip(numbers, result.sites, strict=True))
    for columns, rows in ((result.sites, result.sites), (numbers, numbered)):
        width = max(map(len, rows)) + 2 + 9 * clusters
        if width + sum(max(len(name), cell) + 2 for name in columns) <= screen.width:
            return columns, rows
    return (), result.sites


def _suggested(result: fedwad.MatrixResult, clusters: dict[str, Any]) -> str:
    """Return the suggested number, and why it is not that of the distances."""
    if clusters["suggested"] == clusters["suggested_by_distance"]:
        return str(clusters["suggested"])
    sharper = "" if result.pvalue is not None else "; fedwad matrix --test tests more sharply"
    return (
        f"{clusters['suggested']}, because no difference between sites is more than chance (at the"
        f" 2.5% level; distances alone suggest {clusters['suggested_by_distance']}{sharper})"
    )


def show_clusters(result: fedwad.MatrixResult, clusters: dict[str, Any]) -> None:
    """Print the members of each cluster, the suggested number, and how stable they are."""
    for number in sorted(set(clusters["labels"])):
        members = [
            name
            for name, label in zip(result.sites, clusters["labels"], strict=True)
            if label == number
        ]
        shown = cluster_numbers(clusters["labels"])[number]
        title = f"Cluster {shown}" if shown else "A single site"
        screen.print(f"{title}: {', '.join(members)}", markup=False, soft_wrap=True)
    screen.print(
        f"Suggested number: {_suggested(result, clusters)}. Clusters of other samples of the same"
        f" sites would agree to {clusters['stability']:.2f} (adjusted Rand index, 1 is perfect).",
        soft_wrap=True,
    )
    if clusters["too_small"]:
        screen.print(
            f"Too small to be judged: {', '.join(clusters['too_small'])}.",
            markup=False,
            soft_wrap=True,
        )
