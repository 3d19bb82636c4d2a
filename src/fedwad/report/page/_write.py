"""Writing a result to a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedwad._coreset.result import CoresetResult
from fedwad._distance.result import DistanceResult
from fedwad._embedding.result import EmbeddingResult
from fedwad._matrix.result import MatrixResult
from fedwad.errors import InputError
from fedwad.report.page._coreset import coreset_lead, coreset_sections, coreset_title
from fedwad.report.page._distance import distance_lead, distance_sections, distance_title
from fedwad.report.page._embedding import embedding_lead, embedding_sections, embedding_title
from fedwad.report.page._frame import Section, write_page
from fedwad.report.page._matrix import matrix_data, matrix_lead, matrix_sections, matrix_title
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._why import explain_pairs
from fedwad.tables import Schema

__all__ = ["write_report"]


def write_report(
    result: DistanceResult | MatrixResult | CoresetResult | EmbeddingResult,
    path: str | Path,
    *,
    clusters: Any = None,
    command: str | None = None,
    exact: Any = None,
    others: Mapping[str, CoresetResult] | None = None,
    shape: tuple[int, ...] | None = None,
    title: str | None = None,
    when: datetime | None = None,
    schema: Schema | None = None,
    warnings: Sequence[str] = (),
    newcomer: str | None = None,
) -> None:
    """Write a distance, a matrix, an embedding or a coreset as one self-contained HTML file.

    Parameters
    ----------
    result : the result of `fedwad.distance`, `fedwad.matrix`, `fedwad.embed` or `fedwad.coreset`
    path : the file; it is written completely or not at all
    clusters : for a matrix or an embedding, an integer label for each site
    command : the command that made the result
    exact : the exact distance, or the N x N exact distances of a matrix, if known
    others : for a coreset, further coresets of the same data to compare, by name
    shape : shape of images, (28, 28) or (32, 32, 3): of a coreset's points, by default a square, or
        of rows whose columns are pixels, by default a square if unnamed columns look like one
    title : the heading; by default a question
    when : the date on the page; by default now
    schema : the schema that encoded the sites' tables; the page says which columns were compared
    warnings : sentences to show near the top, such as conflicts between the sites' tables
    newcomer : for a matrix, a site that has just joined; the page begins with where it belongs
    """
    if isinstance(result, DistanceResult):
        parts = _distance_parts(result, clusters, exact, schema, warnings, shape)
    elif isinstance(result, CoresetResult):
        if clusters is not None or exact is not None:
            raise InputError(
                "clusters and exact distances belong to a matrix; a coreset has others and shape."
            )
        sections = coreset_sections(result, dict(others or {}), shape)
        parts = _Parts(coreset_title(result), sections, coreset_lead(result))
    elif isinstance(result, EmbeddingResult):
        if exact is not None:
            raise InputError("exact distances belong to a matrix; leave them out.")
        sections = embedding_sections(result, clusters, warnings)
        parts = _Parts(embedding_title(result), sections, embedding_lead(result, clusters))
    elif isinstance(result, MatrixResult):
        view = MatrixView.of(result, clusters, exact, schema, warnings, newcomer)
        reasons = explain_pairs(view, shape)
        lead, data = matrix_lead(view), matrix_data(view, reasons)
        parts = _Parts(matrix_title(view), matrix_sections(view, reasons), lead, data)
    else:
        raise InputError(
            f"The result is a {type(result).__name__}; give the result of fedwad.distance,"
            " matrix, embed or coreset."
        )
    write_page(
        path,
        title or parts.title,
        parts.sections,
        lead=parts.lead,
        data=parts.data,
        command=command,
        when=when,
    )


class _Parts(NamedTuple):
    """What depends on the kind of result; see `write_page`."""

    title: str
    sections: list[Section]
    lead: str
    data: Any = None


def _distance_parts(
    result: DistanceResult,
    clusters: Any,
    exact: Any,
    schema: Schema | None,
    warnings: Sequence[str],
    shape: tuple[int, ...] | None,
) -> _Parts:
    if clusters is not None:
        raise InputError("clusters were given with one distance; they belong to a matrix.")
    if exact is not None and np.ndim(exact) != 0:
        raise InputError(f"exact has shape {np.shape(exact)}; give one number with one distance.")
    exact = None if exact is None else float(exact)
    sections = distance_sections(result, exact, schema, warnings, shape)
    return _Parts(distance_title(result), sections, distance_lead(result))
