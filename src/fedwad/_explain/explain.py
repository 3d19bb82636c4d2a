"""Explanations from the evidence that a result keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedwad._explain.classes import ClassPart
from fedwad._explain.columns import Column, build_columns, column_index
from fedwad._explain.evidence import Evidence
from fedwad._explain.explanation import ClassShare, Dependence, Explanation
from fedwad._explain.parts import PairDistance, Parts, parts_between
from fedwad.errors import InputError
from fedwad.ot import ColumnMoments, Correlation, Floats

__all__ = ["build_explanation", "evidence_columns", "explain_pair", "require_evidence"]


def require_evidence(evidence: Evidence | None, p: float) -> Evidence:
    """The evidence of a result of order p; InputError if it has none."""
    if evidence is not None:
        return evidence
    if p != 2:
        raise InputError(
            f"The order is p = {p:g}; only for p = 2 is a distance the sum of parts of columns."
        )
    raise InputError("This result was saved without what explains it; compute it again.")


def evidence_columns(evidence: Evidence, names: Sequence[str] | None = None) -> tuple[Column, ...]:
    """The columns of the evidence, with other names if some are given."""
    if names is None:
        return build_columns(evidence.dimension, evidence.features, evidence.schema)
    return build_columns(evidence.dimension, tuple(map(str, names)))


def explain_pair(
    evidence: Evidence,
    indices: tuple[int, int],
    sites: tuple[str, str],
    pair: PairDistance,
    names: Sequence[str] | None = None,
) -> Explanation:
    """Explain the distance between two sites, which have these indices in the evidence."""
    columns = evidence_columns(evidence, names)
    i, j = indices
    return build_explanation(
        columns,
        parts_between(evidence, columns, i, j, pair),
        (evidence.moments[i], evidence.moments[j]),
        sites,
        pair.differs,
        evidence.correlations_between(i, j),
        evidence.correlations is not None,
        _list_unknowns(evidence, i, j),
        _class_shares(evidence.class_parts_between(i, j), columns, sites),
    )


def _class_shares(
    parts: Sequence[ClassPart], columns: Sequence[Column], sites: tuple[str, str]
) -> tuple[ClassShare, ...]:
    """The parts of classes with the names of sites and columns instead of their indices."""
    index = column_index(columns)
    return tuple(
        ClassShare(
            sites[part.side],
            part.number,
            part.weight,
            part.share,
            columns[index[part.feature]].name,
        )
        for part in parts
    )


def build_explanation(
    columns: Sequence[Column],
    parts: Parts,
    moments: tuple[ColumnMoments, ColumnMoments],
    sites: tuple[str, str],
    differs: bool | None,
    correlations: Sequence[Correlation],
    dependence_known: bool,
    notes: Sequence[str] = (),
    classes: tuple[ClassShare, ...] = (),
) -> Explanation:
    """The explanation that these parts of the columns give."""
    return Explanation(
        sites=sites,
        names=tuple(column.name for column in columns),
        kinds=tuple(column.kind for column in columns),
        **_to_fractions(parts),
        significant=parts.significant,
        here=tuple(column.describe(moments[0]) for column in columns),
        there=tuple(column.describe(moments[1]) for column in columns),
        dependence=_dependence(correlations, columns),
        dependence_known=dependence_known,
        differs=differs,
        notes=tuple(notes),
        classes=classes,
    )


def _to_fractions(parts: Parts) -> dict[str, Floats]:
    """Parts as fractions of the whole, with standard errors."""
    excess = parts.excess
    square_total, excess_total = float(parts.square.sum()), float(excess.sum())
    fractions = {
        "share": parts.square / (square_total or 1.0),
        "share_std": _fraction_std(parts.square, parts.square_std),
        "excess": excess / (excess_total or 1.0),
        "excess_std": _fraction_std(excess, parts.excess_std),
    }
    for name in ("location", "scale", "rest"):
        fractions[name] = getattr(parts, name) / (excess_total or 1.0)
    return {name: np.asarray(values) for name, values in fractions.items()}


def _fraction_std(values: Floats, stds: Floats) -> Floats:
    """Standard errors of values / sum(values), by the delta method."""
    total = float(values.sum())
    if not total > 0:
        return np.zeros(len(values))
    fractions, variances = values / total, stds**2
    others = float(variances.sum()) - variances
    return np.asarray(np.sqrt((1 - fractions) ** 2 * variances + fractions**2 * others) / total)


def _dependence(
    correlations: Sequence[Correlation], columns: Sequence[Column]
) -> tuple[Dependence, ...]:
    """The changed correlations with the names of features instead of their indices."""
    names = [
        name
        for column in columns
        for name in ((column.name,) if column.entry is None else column.entry.encoded_names)
    ]
    return tuple(
        Dependence(names[x.first], names[x.second], x.here, x.there, x.score) for x in correlations
    )


def _list_unknowns(evidence: Evidence, i: int, j: int) -> list[str]:
    """Sentences about what is not known."""
    sentences = []
    a, b = evidence.moments[i], evidence.moments[j]
    stds_known = a.std is not None and b.std is not None
    if not stds_known:
        sentences.append("Spreads by column are not known, so only means are compared.")
    if stds_known and evidence.correlations is None:
        sentences.append("No correlations were compared, so changed ones would not show.")
    if a.noise is None and b.noise is None:
        sentences.append("Noise by column is not known, so the excess has means and spreads only.")
    if (min(i, j), max(i, j)) not in evidence.squares:
        sentences.append("Shares come from means, spreads and noise, not from a transport plan.")
    return sentences
