"""A matrix and its clusters on the screen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import fedwad
from fedwad.cli.console import (
    describe_traffic,
    make_table,
    print_failed,
    print_text,
    screen,
    warn_small_cells,
)
from fedwad.report.sentences import cluster_numbers, judged_sites, matrix_answer
from fedwad.report.why import why_sentences

__all__ = ["heterogeneity_in_json", "show_clusters", "show_matrix"]

_MAX_COLUMNS = 12  # of more sites, only the nearest and the farthest are shown

Labels = NDArray[np.int64]


def show_matrix(result: fedwad.MatrixResult, clusters: Labels | None) -> None:
    """Print the answer, all distances or each site's neighbours, and what was sent."""
    _print_answer(result)
    has_classes = result.class_covariance is not None
    what = "Dataset distances" if has_classes else f"W{result.p:g} distances"
    of = "their populations" if judged_sites(result) else "their samples"
    print_text(f"{what} between {len(result)} sites, method {result.method}, of {of}")
    columns, rows = _headings(result, clusters is not None)
    if columns:
        screen.print(_distances(result, columns, rows, clusters))
    else:
        screen.print(_neighbours(result, clusters))
    if result.privacy is not None:
        guarantee = f"epsilon {result.privacy['epsilon']:g} and delta {result.privacy['delta']:g}"
        print_text(f"Differential privacy: {guarantee} for the one release of each site.")
    for line in _heterogeneity_lines(result):
        print_text(line)
    print_text(_notes(result))
    for name, reason in result.failed.items():
        print_failed(name, reason)
    warn_small_cells(result.min_cell_size, result.method)


def _print_answer(result: fedwad.MatrixResult) -> None:
    """Print whether the sites differ by more than chance, why, and who is most similar."""
    verdict, *rest = matrix_answer(result)
    screen.print(Text(verdict, style="bold"), soft_wrap=True)
    for sentence in (*why_sentences(result), *rest):
        print_text(sentence)


def _heterogeneity_lines(result: fedwad.MatrixResult) -> list[str]:
    """Return a line on how different the sites are, and one on the odd one out.

    There are no lines if a site withheld its numbers, and only the first for two sites.
    """
    if result.health is None:
        return []
    heterogeneity = result.heterogeneity
    lines = [
        f"Heterogeneity: {heterogeneity.value:.4g} +- {heterogeneity.error:.2g} (mean squared"
        " distance between populations),"
        f" {max(heterogeneity.fraction, 0):.1%} of the total variance."
    ]
    if len(result) > 2:
        lines.append(_odd_one_out(result.eccentricity))
    return lines


def _odd_one_out(eccentricity: Any) -> str:
    if not eccentricity.odd:
        farthest = eccentricity.farthest
        return f"Odd one out: none beyond chance; {farthest} is the farthest from the rest."
    rows = {name: i for i, name in enumerate(eccentricity.sites)}
    odd_sites = [
        f"{name} (mean squared distance {eccentricity.value[rows[name]]:.4g}, p ="
        f" {eccentricity.pvalue[rows[name]]:.2g})"
        for name in eccentricity.odd
    ]
    return f"Odd one out: {', '.join(odd_sites)}."


def heterogeneity_in_json(result: fedwad.MatrixResult) -> dict[str, Any]:
    """Return heterogeneity and eccentricity as --json prints them; null where unknown."""
    if result.health is None:
        return {"heterogeneity": None, "eccentricity": None}
    return {
        "heterogeneity": result.heterogeneity.to_dict(),
        "eccentricity": result.eccentricity.to_dict(),
    }


def _row_heading(name: str, row: int, clusters: Labels | None) -> list[str]:
    """The name of a site, and the number of its cluster if there are clusters."""
    if clusters is None:
        return [escape(name)]
    number = cluster_numbers(clusters.tolist())[int(clusters[row])]
    return [escape(name), str(number) if number else "single"]


def _shown_distances(result: fedwad.MatrixResult) -> NDArray[np.float64]:
    """Distances between the populations if they can be judged, otherwise between the samples."""
    distances = result.population if judged_sites(result) else result.value
    assert distances is not None  # noqa: S101
    return distances


def _distances(
    result: fedwad.MatrixResult,
    columns: tuple[str, ...],
    rows: tuple[str, ...],
    clusters: Labels | None,
) -> Table:
    titles = ["", *(["cluster"] if clusters is not None else []), *map(escape, columns)]
    table = make_table(*titles, left=("",), no_wrap=True)
    for row, name in enumerate(rows):
        shown = _shown_distances(result)[row]
        values = ["?" if np.isnan(value) else f"{value:.4g}" for value in shown]
        values[row] = ""
        table.add_row(*_row_heading(name, row, clusters), *values)
    return table


def _neighbours(result: fedwad.MatrixResult, clusters: Labels | None) -> Table:
    titles = ("nearest", "distance", "interval", "farthest", "distance")
    first = ("", "cluster") if clusters is not None else ("",)
    table = make_table(*first, *titles, left=("", "nearest", "interval", "farthest"))
    for row, name in enumerate(result.sites):
        near, *_, far = result.nearest(name)
        table.add_row(
            *_row_heading(name, row, clusters),
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
    return (
        f"{kind} intervals have a median width of {np.median(width):.0%} of the estimate (--save,"
        f" --report).\nSent: {describe_traffic(result.traffic)}{cell}."
    )


def _headings(
    result: fedwad.MatrixResult, has_clusters: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return headings of columns and rows with which the table fits on the screen.

    Columns are headed by the names of sites, or else by numbers. There are none if neither fits.
    """
    if len(result) > _MAX_COLUMNS:
        return (), result.sites
    number_width = max(len(f"{number:.4g}") for number in _shown_distances(result).flat)
    numbers = tuple(str(k + 1) for k in range(len(result)))
    numbered = tuple(f"{number} {name}" for number, name in zip(numbers, result.sites, strict=True))
    for columns, rows in ((result.sites, result.sites), (numbers, numbered)):
        width = max(map(cell_len, rows)) + 2 + 9 * has_clusters
        if width + sum(max(cell_len(name), number_width) + 2 for name in columns) <= screen.width:
            return columns, rows
    return (), result.sites


def _suggestion(result: fedwad.MatrixResult, clusters: dict[str, Any]) -> str:
    """Return the suggested number, and if distances alone suggest another one, why not that."""
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
        print_text(f"{title}: {', '.join(members)}")
    print_text(
        f"Suggested number: {_suggestion(result, clusters)}. Clusters of other samples of the same"
        f" sites would agree to {clusters['stability']:.2f} (adjusted Rand index, 1 is perfect)."
    )
    if clusters["too_small"]:
        print_text(f"Too small to be judged: {', '.join(clusters['too_small'])}.")
