"""From a result to a file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad._distance.result import DistanceResult
from fedwad._matrix.result import MatrixResult
from fedwad.errors import InputError
from fedwad.report.page._coreset import coreset_lead, coreset_sections, coreset_title
from fedwad.report.page._distance import distance_lead, distance_sections, distance_title
from fedwad.report.page._frame import write_page
from fedwad.report.page._matrix import matrix_data, matrix_lead, matrix_sections, matrix_title
from fedwad.report.page._subject import Subject

__all__ = ["write_report"]


def write_report(
    result: DistanceResult | MatrixResult | CoresetResult,
    path: str | Path,
    *,
    clusters: Any = None,
    command: str | None = None,
    exact: Any = None,
    others: Mapping[str, CoresetResult] | None = None,
    shape: tuple[int, ...] | None = None,
    title: str | None = None,
    when: datetime | None = None,
) -> None:
    """Write what there is to see of a distance, a matrix or a coreset into one HTML file that needs
    nothing else.

    Parameters
    ----------
    result : the answer of `fedwad.distance`, `fedwad.matrix` or `fedwad.coreset`
    path : the file to write, all of it or nothing
    clusters : for a matrix, a whole number for each client
    command : the command that made the result, to make it again
    exact : the exact distance, or the N x N exact distances of a matrix, where they are known
    others : for a coreset, further ones of the same data to show beside it, by name
    shape : of the images that a coreset's points are, (28, 28) or (32, 32, 3); a square when left
        out
    title : the heading; a question unless given
    when : the date on the page; now unless given
    """
    if isinstance(result, DistanceResult):
        if clusters is not None:
            raise InputError("clusters were given with one distance; they belong to a matrix.")
        if exact is not None and np.ndim(exact) != 0:
            raise InputError(
                f"exact has shape {np.shape(exact)}; give one number with one distance."
            )
        known = None if exact is None else float(exact)
        write_page(
            path,
            title or distance_title(result),
            distance_sections(result, known),
            lead=distance_lead(result),
            command=command,
            when=when,
        )
        return
    if isinstance(result, CoresetResult):
        if clusters is not None or exact is not None:
            raise InputError(
                "clusters and exact distances belong to a matrix; a coreset has others and shape."
            )
        write_page(
            path,
            title or coreset_title(result),
            coreset_sections(result, dict(others or {}), shape),
            lead=coreset_lead(result),
            command=command,
            when=when,
        )
        return
    if not isinstance(result, MatrixResult):
        raise InputError(
            f"The result is a {type(result).__name__}; give the answer of fedwad.distance, matrix or coreset."
        )
    subject = Subject.of(result, clusters, exact)
    write_page(
        path,
        title or matrix_title(subject),
        matrix_sections(subject),
        lead=matrix_lead(subject),
        data=matrix_data(subject),
        command=command,
        when=when,
    )
