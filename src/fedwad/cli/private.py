"""The options of a promise, for the commands that can keep one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedwad.errors import InputError
from fedwad.privacy import DP

__all__ = ["Delta", "Epsilon", "Radius", "promise"]

_PANEL = "Differential privacy"
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="Ask for one release of each party under differential privacy with this epsilon.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Delta = Annotated[float, typer.Option(help="Its delta, well below one over the samples.", rich_help_panel=_PANEL)]
Radius = Annotated[
    float | None,
    typer.Option(
        help="How far from the origin samples can lie, from what is public about them; farther ones are drawn back.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


def promise(epsilon: float | None, delta: float, radius: float | None) -> dict[str, Any]:
    """The option `privacy` of a distance or matrix; empty if none was asked for."""
    if epsilon is None:
        if radius is not None:
            raise InputError("--radius belongs to differential privacy; add --epsilon.")
        return {}
    if radius is None:
        raise InputError("--epsilon needs --radius: how far from the origin samples can lie, from what is public.")
    return {"privacy": DP(epsilon, delta, radius).to_dict()}
