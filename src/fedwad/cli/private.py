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
Delta = Annotated[
    float | None,
    typer.Option(
        help="Its delta, well below one over the samples; 1e-5 when left out.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Radius = Annotated[
    float | None,
    typer.Option(
        help="How far from the origin samples can lie, from what is public about them; farther ones are drawn back.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


def promise(epsilon: float | None, delta: float | None, clip_norm: float | None) -> dict[str, Any]:
    """The option `privacy` of a distance or matrix; empty if none was asked for."""
    if epsilon is None:
        for name, value in (("--clip-norm", clip_norm), ("--delta", delta)):
            if value is not None:
                raise InputError(f"{name} belongs to differential privacy; add --epsilon.")
        return {}
    if clip_norm is None:
        raise InputError(
            "--epsilon needs --clip-norm: how far from the origin samples can lie, from what is public."
        )
    return {"privacy": DP(epsilon, 1e-5 if delta is None else delta, clip_norm).to_dict()}
