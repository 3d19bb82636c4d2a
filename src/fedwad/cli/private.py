"""The options of differential privacy, for the commands that offer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from fedwad.cli.option_groups import OptionGroup
from fedwad.errors import InputError
from fedwad.privacy import DP
from fedwad.tables import Schema

__all__ = ["PrivacyOptions"]

_PANEL = "Differential privacy"


@dataclass(frozen=True)
class PrivacyOptions(OptionGroup):
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
            help="Largest distance of a sample from --centre, from public knowledge; samples beyond"
            " it are clipped.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    centre: Annotated[
        str | None,
        typer.Option(
            help="Public point around which samples are clipped: a number for all features, or one"
            " for each, separated by commas.",
            metavar="NUMBER[,...]",
            show_default="0, or that of the schema file",
            rich_help_panel=_PANEL,
        ),
    ] = None

    def keywords(self, schema: Any = None) -> dict[str, Any]:
        """Return the keyword `privacy` of a distance or matrix; no keyword without --epsilon.

        A schema that was read from a file counts as public. It gives the clip norm and the centre
        where they are left out.
        """
        public_schema = schema if isinstance(schema, Schema) else None
        if self.epsilon is None:
            self._refuse_without_epsilon()
            return {}
        if self.clip_norm is None and public_schema is None:
            raise InputError(
                "--epsilon needs --clip-norm, the largest distance of a sample from --centre, or a"
                " --schema file that gives one; choose it from public knowledge."
            )
        guarantee = DP(
            self.epsilon,
            delta=1e-5 if self.delta is None else self.delta,
            clip_norm=self.clip_norm,
            centre=_parse_centre(self.centre),
        )
        return {"privacy": guarantee.completed(public_schema).to_dict()}

    def _refuse_without_epsilon(self) -> None:
        values = {"--clip-norm": self.clip_norm, "--delta": self.delta, "--centre": self.centre}
        for name, value in values.items():
            if value is not None:
                raise InputError(f"{name} belongs to differential privacy; add --epsilon.")


def _parse_centre(text: str | None) -> float | list[float] | None:
    if text is None:
        return None
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(
            f"--centre is {text!r}; give a number, or one for each feature, separated by commas."
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers
