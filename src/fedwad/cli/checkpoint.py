"""Checkpoints: an interrupted command can continue with the replies it already has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedwad.cli.console import errors
from fedwad.errors import InputError
from fedwad.federation import Journal, LocalFederation

__all__ = ["Checkpoint", "journalled"]

Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Keep every reply in this file; --resume continues with it.",
        rich_help_panel="Resuming",
    ),
]


@contextmanager
def journalled(
    federation: LocalFederation, checkpoint: Path | None, resume: bool
) -> Iterator[LocalFederation | Journal]:
    """Provide the federation, with a journal if one was asked for."""
    if checkpoint is None:
        if resume:
            raise InputError(
                "--resume needs the file of the interrupted run; add --checkpoint FILE."
            )
        yield federation
        return
    with Journal(federation, checkpoint, resume) as journal:
        try:
            yield journal
        except KeyboardInterrupt:
            errors.print(
                f"Replies are kept in {checkpoint}; the same command with --resume continues."
            )
            raise
