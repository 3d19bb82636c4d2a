"""`fedwad demo`: two hospitals, one question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

import fedwad
from fedwad._words import bytes_in_words
from fedwad.cli.console import guarded, print_json, round_progress, screen

__all__ = ["demo"]

_ROUNDS = 20
_SNAPSHOTS = 1, 3, _ROUNDS


@guarded
def demo(
    picture: Annotated[
        Path, typer.Option(help="Where to draw the picture (.png, .svg or .pdf).")
    ] = Path("fedwad-demo.png"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same bits.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """Two hospitals ask how similar their data are, without showing them to anyone."""
    images, labels = fedwad.datasets.load("digits")
    data = {"north": images[labels < 5], "south": images[labels >= 5]}
    hospitals = fedwad.local(data)
    pair = hospitals["north"], hospitals["south"]
    supports = {}
    with round_progress("FedWaD between the hospitals", _ROUNDS) as show:
        for rounds in _SNAPSHOTS:
            result = fedwad.distance(
                *pair,
                method="fedwad",
                rounds=rounds,
                seed=seed,
                reveal="every",
                callback=show,
            )
            supports[rounds] = result.support
    with round_progress("One summary from each hospital", None):
        summary = fedwad.distance(*pair, method="summary", seed=seed)
    with round_progress("The exact distance, for comparison", None):
        exact = fedwad.wasserstein(data["north"], data["south"])

    from fedwad.report import demo_picture

    demo_picture(
        result, summary, exact, data, {k: s for k, s in supports.items() if s is not None}, picture
    )
    raw = sum(array.nbytes for array in data.values())
    if as_json:
        print_json(_as_dict(result, summary, exact, raw, picture))
    else:
        _show(data, result, summary, exact, raw, picture)


def _as_dict(
    result: fedwad.DistanceResult,
    summary: fedwad.DistanceResult,
    exact: float,
    raw: int,
    picture: Path,
) -> dict[str, Any]:
    return {
        "exact": exact,
        "raw_bytes": raw,
        "fedwad": result.to_dict(),
        "summary": summary.to_dict(),
        "picture": str(picture),
    }


def _show(
    data: dict[str, np.ndarray],
    result: fedwad.DistanceResult,
    summary: fedwad.DistanceResult,
    exact: float,
    raw: int,
    picture: Path,
) -> None:
    north, south = data.values()
    screen.print(
        "\n[bold]Two hospitals want to know how similar their data are before they train"
        " together.[/]\nThe data may not leave the buildings: North holds"
        f" {len(north)} scans and South {len(south)}, of\n{north.shape[1]} numbers each"
        " (handwritten digits 0-4 and 5-9 play the scans). A server asks\n"
        "both, and only small point clouds travel.\n"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("", "distance", "off by", "certified", "replies", "sent"):
        table.add_column(
            title, justify="left" if title in ("", "certified") else "right", no_wrap=True
        )

    def row(
        name: str, value: float, interval: str, replies: str, sent: int, style: str = ""
    ) -> None:
        off = "" if value == exact else f"{100 * (value / exact - 1):+.1f}%"
        table.add_row(
            name, f"{value:.2f}", off, interval, replies, bytes_in_words(sent), style=style
        )

    row("exact, data pooled", exact, "", "", raw)
    paper = result.fedwad if result.fedwad is not None else result.upper
    row("FedWaD as published", paper, "", str(result.traffic.messages), result.traffic.up)
    for name, found in (("ours, same replies", result), ("ours, one reply each", summary)):
        interval = f"{found.lower:.2f} to {found.upper:.2f}"
        row(name, found.value, interval, str(found.traffic.messages), found.traffic.up, "bold")
    screen.print(table)
    screen.print(
        "\nThe distance is the 2-Wasserstein distance, the least root-mean-square effort to turn\n"
        "one dataset into the other. The interval is proven from what the hospitals sent, the\n"
        "estimate inside it is not. Small messages are no privacy guarantee: see the README.\n"
        f"\nPicture: {picture}\nNext:    fedwad distance A.csv B.csv, on files of your own",
        soft_wrap=True,
    )
