"""`fedwad plan`: what differential privacy would cost in accuracy, before anything is spent."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from fedwad.cli.console import guarded, print_json, screen
from fedwad.privacy import plan as planned

__all__ = ["plan"]

_MANY = 0.02  # of the samples beyond the radius; their distance then shows it
_WORDS = {
    "feasible": "Feasible at your n and d.",
    "rough": "Rough: distances that differ clearly will, fine differences drown in noise.",
    "not feasible": "Not feasible at your n and d: noise would be most of the answer.",
}


@guarded
def plan(
    n: Annotated[int, typer.Option("--n", help="Samples of each party.", show_default=False)],
    d: Annotated[int, typer.Option("--d", help="Features.", show_default=False)],
    epsilon: Annotated[
        list[float],
        typer.Option(help="The promise; may be given several times.", show_default=False),
    ],
    delta: Annotated[
        float, typer.Option(help="Its delta, well below one over the samples.")
    ] = 1e-5,
    clip_norm: Annotated[
        float,
        typer.Option(
            help="The public radius, in units of a sample's typical distance from the centre."
        ),
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bits.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output.")
    ] = False,
) -> None:
    """Is differential privacy worth it at this size? Releases of made-up data tell; nothing is
    spent."""
    plans = [planned(n, d, one, delta, clip_norm, seed) for one in epsilon]
    if as_json:
        print_json({"plans": [one.to_dict() for one in plans]})
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("epsilon", "error of a distance", "samples for 10%", "verdict"):
        table.add_column(title, justify="left" if title == "verdict" else "right")
    for one in plans:
        enough = "" if one.verdict == "feasible" else f"about {one.enough}"
        table.add_row(f"{one.epsilon:g}", f"{one.error:.0%}", enough, _WORDS[one.verdict])
    screen.print(table)
    screen.print(
        f"Simulated: {n} samples of {d} features, radius {clip_norm:g} times their typical distance from the centre,"
        " centres half a spread apart. Your data may differ; what a summary leaves out comes on top.",
        soft_wrap=True,
    )
    if plans[0].clipped > _MANY:
        screen.print(
            f"Mind: {plans[0].clipped:.0%} of such samples lie beyond the radius and are drawn back to it, which makes"
            " distances too small; try a larger --clip-norm.",
            soft_wrap=True,
        )
