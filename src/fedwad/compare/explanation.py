"""Why two sites differ: the contribution and the p-value of each column, in numbers and in words.

A column is a cause only if the test of the two sites found a difference and the column's own
p-value, adjusted for the number of columns, is at most 5%. Contributions say how much each column
adds to the squared distance between the populations (`fedwad.statistics.populations`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedwad._html import data_frame, html_rows
from fedwad._words import format_day
from fedwad.compare.clusters import check_labels
from fedwad.compare.evidence import Column, Evidence, Moments, PairEvidence, column_index
from fedwad.compare.sentences import ALPHA, join_columns, pvalue_in_words
from fedwad.errors import InputError
from fedwad.transport import Floats

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Name of the row for what correlations add to the squared distance.
DEPENDENCE = "dependence"
#: The numbers of a row, each with the form in which tables show it; fractions are in percent.
_NUMBERS = {"contribution": ".3g", "share": "", "pvalue": ".2g", "smd": ".2f", "sample_share": ""}
_ROUNDING = 1e-9  # of fractions


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why two sites differ.

    Arrays have an entry for each column, and a last one for "dependence": what the correlations of
    columns add. Unknown numbers are nan.

    Attributes
    ----------
    sites : tuple of two str
        "Here" is the first, "there" the second.
    names, kinds : tuples of K + 1 str
        The columns, then "dependence". A category is one column, however many features encode it.
    contribution : array (K + 1,)
        Part in the squared distance between the populations, an unbiased estimate: it may be
        negative by chance.
    share : array (K + 1,)
        Positive contributions as fractions of their sum; zeros if there are none, nan if no
        contribution is known.
    pvalue : array (K + 1,)
        P-value of each column by itself, adjusted for the number of columns; nan for "dependence".
    smd : array (K + 1,)
        Standardised mean difference, in pooled standard deviations; of a category as Yang and
        Dalton (2012) define it.
    sample_share : array (K + 1,)
        Part of each column in the squared distance between the samples, by the transport plan. In
        high dimension most of it is sampling noise.
    here, there : tuples of K mappings
        The column at both sites in its own units: mean and std (divisor n - 1) or the fractions of
        levels, all of the present values, and the fraction of missing ones.
    differs : bool or None
        The verdict of the test of both sites; None if it could not tell.
    notes : tuple of str
        What these sites' replies cannot show.
    """

    sites: tuple[str, str]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    contribution: Floats
    pvalue: Floats
    smd: Floats
    sample_share: Floats
    here: tuple[Mapping[str, float], ...]
    there: tuple[Mapping[str, float], ...]
    differs: bool | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Explanation):
            return NotImplemented
        return repr(self.to_dict()) == repr(other.to_dict())  # nan equals nan

    __hash__ = None  # type: ignore[assignment]

    @property
    def share(self) -> Floats:
        if np.isnan(self.contribution).all():
            return np.full(len(self), math.nan)
        positive = np.maximum(np.nan_to_num(self.contribution), 0.0)
        return np.asarray(positive / (positive.sum() or 1.0))

    @property
    def order(self) -> tuple[int, ...]:
        """Rows, those of causes first and then the largest contribution.

        Where none is known, `sample_share` decides, and without it the p-value, then `smd`.
        """
        last = np.nan_to_num(self.pvalue, nan=np.inf), -np.nan_to_num(self.smd)
        first = np.nan_to_num(self.contribution, nan=-np.inf)
        keys = (*last[::-1], -np.nan_to_num(self.sample_share), -first, ~self._are_causes)
        return tuple(np.lexsort(keys).tolist())

    @property
    def _are_causes(self) -> NDArray[np.bool_]:
        return np.asarray(bool(self.differs) & (self.pvalue <= ALPHA))

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of the columns that differ by themselves, the largest contribution first.

        Empty unless the test of both sites found a difference.
        """
        return tuple(self.names[k] for k in self._cause_rows)

    @property
    def part_of_causes(self) -> float:
        """The part of the positive contributions that belongs to the causes; 1 if none is known."""
        if np.isnan(self.contribution).all():
            return 1.0
        return float(self.share[self._cause_rows].sum())

    @property
    def _cause_rows(self) -> list[int]:
        return [k for k in self.order if self._are_causes[k]]

    @property
    def causes_with_pvalues(self) -> tuple[str, ...]:
        """The causes with their own p-values, such as "chol (p = 0.0005)"."""
        return tuple(
            f"{self.names[k]} ({pvalue_in_words(self.pvalue[k])})" for k in self._cause_rows
        )

    @property
    def causes_in_words(self) -> tuple[str, ...]:
        """The causes with their changes, such as "chol (mean 247 and 0, p = 0.0005)"."""
        words = []
        for k in self._cause_rows:
            change = ", ".join(
                filter(None, [change_in_words(self, k), pvalue_in_words(self.pvalue[k])])
            )
            words.append(f"{self.names[k]} ({change})")
        return tuple(words)

    @property
    def text(self) -> str:
        """One sentence, or a few."""
        a, b = self.sites
        causes = self.causes_in_words
        if causes:
            first = f"{a} and {b} differ in {join_columns(causes)}."
        elif self.differs:
            first = f"{a} and {b} differ, but no single column does at the 5% level."
        elif self.differs is None:
            first = f"It is not known whether {a} and {b} differ, so no cause is named."
        else:
            first = f"There is no evidence that {a} and {b} differ, so no cause is named."
        return " ".join([first, *self.notes])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        first, second = self.sites
        return f"<explanation {first} - {second}: {', '.join(self.causes[:3]) or 'no cause'}>"

    def levels(self, name: str) -> list[tuple[str, float, float]]:
        """Levels of a category with their fractions here and there, the most changed first."""
        index = self.names.index(name) if name in self.names else -1
        if self.kinds[index] != "category":
            known = [
                one for one, kind in zip(self.names, self.kinds, strict=True) if kind == "category"
            ]
            raise InputError(
                f"There is no category '{name}'; the categories are {known}.", "unknown-column"
            )
        here, there = self.here[index], self.there[index]
        levels = [level for level in here if level != "missing"]
        rows = [(level, float(here[level]), float(there[level])) for level in levels]
        return sorted(rows, key=lambda row: -abs(row[1] - row[2]))

    def records(self) -> list[dict[str, Any]]:
        """One mapping for each row, in `order`, as `--json` prints them."""
        records = []
        for k in self.order:
            row: dict[str, Any] = {"name": self.names[k], "kind": self.kinds[k]}
            row |= _nan_to_none({name: getattr(self, name)[k] for name in _NUMBERS})
            if k < len(self.here):
                row |= {"here": _nan_to_none(self.here[k]), "there": _nan_to_none(self.there[k])}
            records.append(row)
        return records

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each column, the largest contribution first, as a DataFrame."""
        rows = self.records()
        for row in rows:
            here, there = row.pop("here", {}), row.pop("there", {})
            for key in ("mean", "std", "missing"):
                row[f"{key}_here"], row[f"{key}_there"] = here.get(key), there.get(key)
        return data_frame(rows).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists."""
        return {
            "sites": list(self.sites),
            "columns": self.records(),
            "causes": list(self.causes),
            "differs": self.differs,
            "notes": list(self.notes),
            "text": self.text,
        }

    def _repr_html_(self) -> str:
        titles = ("column", "contribution", "share", "p-value", "SMD", *self.sites)
        rows, causes = [], set(self._cause_rows)
        for k in self.order:
            style = "" if k in causes else ' style="color:#888"'
            words = numbers_in_words(self, k)
            del words["sample_share"]
            sites = [of[k] if k < len(of) else None for of in (self.here, self.there)]
            in_words = ["" if one is None else values_in_words(one, self.kinds[k]) for one in sites]
            rows.append((style, [self.names[k], *words.values(), *in_words]))
        return html_rows(self.text, titles, rows)

    def plot(
        self, path: Any = None, max_columns: int = 15, shape: tuple[int, ...] | None = None
    ) -> Figure:
        """Draw the columns that matter most as bars, or all as an image of this `shape`.

        Parameters
        ----------
        path : a .png, .svg or .pdf file to write, optional
        max_columns : largest number of columns, which are the bars
        shape : of an image whose pixels are the columns: (28, 28), or (32, 32, 3) with channels
        """
        from fedwad.compare.plots import draw_explanation

        return draw_explanation(self, path, max_columns, shape)


def smd(kind: str, here: Mapping[str, float], there: Mapping[str, float]) -> float:
    """The standardised mean difference of a column, as tables of baseline characteristics have it.

    For numbers it is |m - m'| / sqrt((s^2 + s'^2) / 2), for booleans the same with s^2 = p (1 - p).
    For categories it is sqrt((p - q)^T S^+ (p - q)) with the mean S of both multinomial covariances
    (Yang and Dalton, A unified approach to measuring the effect size, SAS Global Forum 2012).

    >>> smd("number", {"mean": 1.0, "std": 2.0}, {"mean": 2.0, "std": 2.0})
    0.5
    """
    if kind == "category":
        p, q = (np.array([of[x] for x in here if x != "missing"]) for of in (here, there))
        p, q = p / (p.sum() or 1.0), q / (q.sum() or 1.0)
        if np.isnan(p + q).any():
            return math.nan  # a site has no value
        covariance = (np.diag(p) - np.outer(p, p) + np.diag(q) - np.outer(q, q)) / 2
        inverse = np.linalg.pinv(covariance, rcond=_ROUNDING, hermitian=True)
        if np.abs(covariance @ (inverse @ (p - q)) - (p - q)).max(initial=0.0) > _ROUNDING:
            return math.inf  # they differ where neither site has variance
        square = float((p - q) @ inverse @ (p - q))
        return math.sqrt(max(square, 0.0))
    a, b = here.get("mean", math.nan), there.get("mean", math.nan)
    if kind == "boolean":
        variance = (a * (1 - a) + b * (1 - b)) / 2
    else:
        variance = (here.get("std", math.nan) ** 2 + there.get("std", math.nan) ** 2) / 2
    if a == b:
        return 0.0
    if math.isnan(a - b):
        return math.nan  # a site has no value
    return abs(a - b) / math.sqrt(variance) if variance > 0 else math.inf


def _nan_to_none(values: Mapping[str, float]) -> dict[str, float | None]:
    return {
        key: None if not math.isfinite(value) else float(value) for key, value in values.items()
    }


def numbers_in_words(e: Explanation, k: int) -> dict[str, str]:
    """The numbers of row k as tables show them; empty where they are unknown."""
    words = dict.fromkeys(_NUMBERS, "")
    for name, form in _NUMBERS.items():
        value = float(getattr(e, name)[k])
        if not math.isnan(value):
            words[name] = format(value, form) if form else percent(value)
    return words


def change_in_words(e: Explanation, k: int) -> str:
    """One column at both sites in its own units, such as "mean 233 (SD 51) and 0 (SD 0)"."""
    if k >= len(e.here):
        return ""
    here, there, kind = e.here[k], e.there[k], e.kinds[k]
    if kind == "category":
        changed = [f"{x}: {percent(p)} and {percent(q)}" for x, p, q in e.levels(e.names[k])[:2]]
    elif kind == "boolean":
        changed = [f"true in {percent(here['mean'])} and {percent(there['mean'])}"]
    else:
        # Both are printed: the p-value is that of the column, not of its mean or its spread.
        words = [_known_in_words(of.get("mean", math.nan), kind) for of in (here, there)]
        stds = [of.get("std", math.nan) for of in (here, there)]
        unit = " days" if kind == "date" else ""
        if not any(map(math.isnan, stds)):
            pairs = zip(words, map(value_in_words, stds), strict=True)
            words = [f"{word} (SD {std}{unit})" for word, std in pairs]
        changed = [f"mean {words[0]} and {words[1]}"]
    a, b = (percent(of.get("missing", 0.0)) for of in (here, there))
    return ", ".join(changed if a == b else [*changed, f"missing {a} and {b}"])


def values_in_words(values: Mapping[str, float], kind: str) -> str:
    """A column of this kind at one site."""
    fraction = values.get("missing", 0.0)
    missing = f", {percent(fraction)} missing" if fraction > 0 else ""
    if kind == "category":
        present = [(level, part) for level, part in values.items() if level != "missing"]
        top = sorted(present, key=lambda item: -item[1])[:3]
        words = ", ".join(f"{level}: {percent(part)}" for level, part in top if part > 0)
        return f"{words}{missing}"
    if kind == "boolean":
        return f"{percent(values['mean'])}{missing}"
    unit = " days" if kind == "date" else ""
    spread = f" ± {_known_in_words(values['std'])}{unit}" if "std" in values else ""
    return f"{_known_in_words(values['mean'], kind)}{spread}{missing}"


def value_in_words(value: float, kind: str = "number") -> str:
    """A value of a column in its own units, four digits or a date; empty if it is unknown."""
    day = format_day(value) if kind == "date" else None
    return day or ("" if math.isnan(value) else f"{value:.4g}")


def _known_in_words(value: float, kind: str = "number") -> str:
    return value_in_words(value, kind) or "unknown"


def percent(fraction: float) -> str:
    """0.412 -> '41%'."""
    if fraction != fraction:
        return "unknown"
    if 0 < fraction < 0.01:
        return "<1%"
    if 0.995 <= fraction < 1:
        return ">99%"
    return f"{math.floor(100 * fraction + 0.5 + _ROUNDING)}%"  # a half is rounded up everywhere


def require_evidence(evidence: Evidence | None, p: float) -> Evidence:
    """The evidence of a result of order p; InputError if it has none."""
    if evidence is not None:
        return evidence
    if p != 2:
        raise InputError(
            f"The order is p = {p:g}; only for p = 2 is a distance the sum of parts of columns.",
            "bad-option",
        )
    raise InputError(
        "This result has nothing that explains it: sites sent only distances, or it was saved"
        " without; compute it again by a method in which sites send summaries.",
        "not-kept",
    )


def explain_pair(
    evidence: Evidence,
    i: int,
    j: int,
    sites: tuple[str, str],
    differs: bool | None,
    names: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Explanation:
    """Explain the distance between the sites i and j of the evidence, which have these names.

    `notes` are sentences that its text ends with.
    """
    columns, found = evidence.columns(names), evidence.between(i, j)
    unknown = []
    if found.contributions is None:
        unknown.append("What each column contributes is not known.")
    elif found.dependence is None:
        unknown.append("What correlations add is not known.")
    return _explanation(
        columns,
        found,
        (evidence.moments[i], evidence.moments[j]),
        sites=sites,
        differs=differs,
        notes=(*unknown, *notes),
    )


def _explanation(
    columns: Sequence[Column], found: PairEvidence, moments: tuple[Moments, Moments], **more: Any
) -> Explanation:
    """Explain by parts of features; `more` are fields of the explanation as they are."""
    index, unknown = column_index(columns), np.full(len(columns), math.nan)
    square, parts = (
        unknown if one is None else np.bincount(index, one, len(columns)).astype(np.float64)
        for one in (found.squares, found.contributions)
    )
    parts = np.append(parts, math.nan if found.dependence is None else found.dependence)
    parts[np.abs(parts) < _ROUNDING * np.nansum(np.abs(parts))] = 0.0  # of columns that agree
    here, there = (tuple(column.describe(one) for column in columns) for one in moments)
    kinds = [column.kind for column in columns]
    return Explanation(
        names=(*(column.name for column in columns), DEPENDENCE),
        kinds=(*kinds, DEPENDENCE),
        contribution=parts,
        pvalue=np.append(unknown if found.pvalues is None else found.pvalues, math.nan),
        smd=np.array([*map(smd, kinds, here, there), math.nan]),
        sample_share=np.append(square / (float(square.sum()) or 1.0), math.nan),
        here=here,
        there=there,
        **more,
    )


def explain_clusters(
    evidence: Evidence,
    sites: Sequence[str],
    labels: Any,
    differs: Any,
    names: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> dict[int, Explanation]:
    """Explain what separates each cluster from all sites outside it.

    The contribution of a column is its mean over pairs of a site inside and a site outside, less
    its mean over pairs of sites inside. Its p-value is that of the hypothesis that the column
    differs in fewer than half of the pairs across the border: with n pairs and r = n / 2 rounded
    up, n - r + 1 times the r-th smallest p-value, whatever the pairs have in common (Benjamini and
    Heller, Screening for partial conjunction hypotheses, Biometrics 2008).

    Parameters
    ----------
    labels : the cluster of each site
    differs : (N, N) verdicts of the tests of pairs: True, False or None
    notes : sentences that the texts end with
    """
    cluster_of = check_labels(labels, len(sites)).tolist()
    if len(set(cluster_of)) < 2:
        raise InputError(
            "All sites are in one cluster; an explanation needs two or more clusters.",
            "nothing-to-compare",
        )
    columns = evidence.columns(names)
    explanations = {}
    for label in sorted(set(cluster_of)):
        inside = [k for k, cluster in enumerate(cluster_of) if cluster == label]
        outside = [k for k, cluster in enumerate(cluster_of) if cluster != label]
        border = list(product(inside, outside))
        across = [evidence.between(*pair) for pair in border]
        within = [evidence.between(*pair) for pair in combinations(inside, 2)]
        verdicts = [differs[pair] for pair in border]
        explanations[label] = _explanation(
            columns,
            PairEvidence(
                _gap("contributions", across, within),
                _gap("dependence", across, within),
                _partial_conjunction([one.pvalues for one in across]),
                _gap("squares", across, ()),
            ),
            (_pooled(evidence, inside), _pooled(evidence, outside)),
            sites=(sites[inside[0]] if len(inside) == 1 else f"cluster {label}", "the rest"),
            differs=None if None in verdicts else sum(map(bool, verdicts)) >= len(verdicts) / 2,
            notes=tuple(notes),
        )
    return explanations


def _gap(name: str, across: Sequence[PairEvidence], within: Sequence[PairEvidence]) -> Any:
    """The mean over pairs across a border less that over pairs within it; None if unknown."""
    outer, inner = ([getattr(one, name) for one in pairs] for pairs in (across, within))
    if any(one is None for one in (*outer, *inner)):
        return None
    return np.mean(outer, axis=0) - (np.mean(inner, axis=0) if inner else 0.0)


def _partial_conjunction(pvalues: Sequence[Floats | None]) -> Floats | None:
    """P-value for each column that it differs in at least half of the pairs."""
    if any(one is None for one in pvalues):
        return None
    ordered = np.sort(np.array(pvalues), axis=0)
    n = len(ordered)
    r = (n + 1) // 2
    return np.asarray(np.minimum((n - r + 1) * ordered[r - 1], 1.0))


def _pooled(evidence: Evidence, indices: Sequence[int]) -> Moments:
    """Mean and standard deviations of the rows of several sites together."""
    moments = [evidence.moments[k] for k in indices]
    counts = np.array([one.count for one in moments])
    weights = counts / counts.sum()
    means = np.array([one.mean for one in moments])
    mean = weights @ means
    stds = [one.std for one in moments if one.std is not None]
    std = None
    if len(stds) == len(moments):  # otherwise those of a site are not known
        std = np.sqrt(weights @ (np.array(stds) ** 2 + (means - mean) ** 2))
    return Moments(int(counts.sum()), mean, std)
