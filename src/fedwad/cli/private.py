"""The options of differential privacy, for the commands that offer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from fedwad.cli.groups import Group
from fedwad.errors import InputError
from fedwad.privacy import DP

__all__ = ["PrivacyOptions"]

_PANEL = "Differential privacy"


@dataclass(frozen=True)
class PrivacyOptions(Group):
    """The guarantee to ask for."""

    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Ask each site for one release under differential privacy with this epsilon.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(
            help="Delta of the guarantee, well below one over the number of samples.",
            show_default="1e-05",
            rich_help_panel=_PANEL,
        ),
    ] = None
    clip_norm: Annotated[
        float | None,
        typer.Option(
            help="Largest norm of a sample, from public knowledge; longer samples are clipped.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None

    def keywords(self) -> dict[str, Any]:
        """Return the option `privacy` of a distance or matrix; empty if none was asked for."""
        if self.epsilon is None:
            for name, value in (("--clip-norm", self.clip_norm), ("--delta", self.delta)):
                if value is not None:
                    raise InputError(f"{name} belongs to differential privacy; add --epsilon.")
            return {}
        if self.clip_norm is None:
            raise InputError(
                "--epsilon needs --clip-norm, the largest norm of a sample; choose it from public"
                " knowledge."
            )
        delta = 1e-5 if self.delta is None else self.delta
        return {"privacy": DP(self.epsilon, delta=delta, clip_norm=self.clip_norm).to_dict()}
