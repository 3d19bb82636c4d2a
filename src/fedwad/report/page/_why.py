"""What a page says about columns: what each contributes to the distance between two sites.

A column is a cause only by its test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from fedwad.compare import Explanation
from fedwad.compare.explanation import numbers_in_words, values_in_words
from fedwad.errors import InputError
from fedwad.report.page._colour import shade_index
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import clean
from fedwad.transport import Floats

_MAX_COLUMNS = 400  # of a page


@dataclass(frozen=True, eq=False)
class PairColumns:
    """The columns of one pair, as its table lists them; the last of `names` is "dependence"."""

    explanation: Explanation

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns on the page."""
        return tuple(map(clean, self.explanation.names))

    @cached_property
    def listed(self) -> list[int]:
        """The columns in the table: the causes, then the largest contributions."""
        explanation, known = self.explanation, np.isfinite(self.explanation.contribution)
        causes, count = set(explanation.causes), len(explanation.here)
        order = sorted(explanation.order, key=lambda k: explanation.names[k] not in causes)
        return [k for k in order if k < count or known[k]][:15]

    def numbers(self, k: int) -> dict[str, Any]:
        """Contribution, share, p-value and SMD of column k as texts; whether it is a cause."""
        texts = numbers_in_words(self.explanation, k)
        del texts["sample_share"]
        return texts | {"cause": self.explanation.names[k] in self.explanation.causes}

    def at_site(self, k: int, site: int) -> str:
        """Column k at the first or the second site, in words; empty for "dependence"."""
        values = (self.explanation.here, self.explanation.there)[site]
        return values_in_words(values[k], self.explanation.kinds[k]) if k < len(values) else ""

    def table(self, rows: Sequence[str], said: str, hint: str = "") -> dict[str, Any]:
        """What the template of a pair shows, for sites with so many rows, in words."""
        explanation, names = self.explanation, self.names
        count = len(explanation.here)
        return {
            "sites": explanation.sites,
            "n": rows,
            "said": said,
            "hint": hint,
            "tested": bool(np.isfinite(explanation.pvalue).any()),
            "rows": [
                self.numbers(k)
                | {"name": names[k], "here": self.at_site(k, 0), "there": self.at_site(k, 1)}
                for k in self.listed
            ],
            "more": count - sum(k < count for k in self.listed),
        }


def columns_of(explain: Callable[[], Explanation], rows: Sequence[int]) -> dict[str, Any] | None:
    """The columns of one pair with so many rows; None if unknown, or too many for a page."""
    try:
        explanation = explain()
    except InputError:
        return None
    if len(explanation.here) > _MAX_COLUMNS:
        return None
    texts = [f"n = {number:,}" for number in rows] or ["", ""]
    return PairColumns(explanation).table(texts, " ".join(explanation.notes))


@dataclass(frozen=True, eq=False)
class Reasons:
    """The columns of all pairs of a page, by the indices of both sites, i < j."""

    view: MatrixView
    pairs: Mapping[tuple[int, int], PairColumns]

    @property
    def first(self) -> PairColumns:
        return self.pairs[0, 1]

    @cached_property
    def by_site(self) -> tuple[Floats, Floats]:
        """What each column contributes at each site, and from how many others it differs by it.

        Both are arrays (sites, columns). Contributions are means over the pairs of the site that
        differ, by their tests. Negative ones count as zero.
        """
        size, names = self.view.size, self.first.explanation.names
        contributions, differ = np.zeros((2, size, len(names)))
        for sites, pair in self.pairs.items():
            if pair.explanation.differs:
                positive = np.maximum(np.nan_to_num(pair.explanation.contribution), 0.0)
                contributions[list(sites)] += positive / (size - 1)
                differ[list(sites)] += np.isin(names, pair.explanation.causes)
        return contributions, differ

    @cached_property
    def distinctive(self) -> list[int]:
        """The columns that are causes in some pair, those in the most pairs first."""
        contributions, differ = self.by_site
        order = np.lexsort((-contributions.sum(axis=0), -differ.sum(axis=0))).tolist()
        return [k for k in order if differ[:, k].any()][:14]

    def sentence(self, pair: PairColumns) -> str:
        """The sentence of the explanation of a pair.

        Only its notes if the page begins with the sentence of this pair.
        """
        whole = self.view.size > 2
        return clean(pair.explanation.text if whole else " ".join(pair.explanation.notes))


def explain_pairs(view: MatrixView) -> Reasons | None:
    """The columns of all pairs; None if they are unknown, or too many for a page."""
    if not 1 < view.size <= 60:
        return None
    try:
        explanations = view.matrix.explain()
    except InputError:
        return None
    index = view.matrix.sites.index
    pairs = {(index(a), index(b)): PairColumns(one) for (a, b), one in explanations.items()}
    reasons = Reasons(view, pairs)
    return reasons if len(reasons.first.explanation.here) <= _MAX_COLUMNS else None


def why_data(reasons: Reasons) -> dict[str, Any]:
    """What the script of the page needs: the table of each pair, and its columns at each site.

    The list "columns" has only the columns that are shown. All other lists refer to a column by its
    position there. "standing" has the distinctive columns.
    """
    size, pairs = reasons.view.size, list(reasons.pairs.values())
    shown = sorted({*chain(*(pair.listed for pair in pairs)), *reasons.distinctive})
    position = {column: index for index, column in enumerate(shown)}
    # Any pair with a site has the same words about it.
    at_sites = [(reasons.pairs[0, max(k, 1)], min(k, 1)) for k in range(size)]
    return {
        "columns": [reasons.first.names[k] for k in shown],
        "pairs": [
            [[position[k], *pair.numbers(k).values()] for k in pair.listed] for pair in pairs
        ],
        "said": [reasons.sentence(pair) for pair in pairs],
        "sites": [[pair.at_site(k, side) for k in shown] for pair, side in at_sites],
        "standing": [position[k] for k in reasons.distinctive],
    }


def why_pair(reasons: Reasons) -> dict[str, Any]:
    """The columns of the farthest pair; the script replaces them when another is chosen."""
    view = reasons.view
    i, j = sorted(view.farthest_pair)
    hint = " Choose another pair in the map above." if view.size > 2 else ""
    pair = reasons.pairs[i, j]
    return pair.table([view.rows_text(i), view.rows_text(j)], reasons.sentence(pair), hint)


def set_apart(reasons: Reasons) -> dict[str, Any] | None:
    """From how many others each site differs in a column.

    None with fewer than three sites, or if no column is a cause in any pair.
    """
    view, columns = reasons.view, reasons.distinctive
    if view.size < 3 or not columns:
        return None
    others, (_, differ) = view.size - 1, reasons.by_site
    shades = shade_index(others - differ, 0.0, others)  # the strongest shade: from all others
    return {
        "others": others,
        "columns": [reasons.first.names[k] for k in columns],
        "rows": [
            (view.names[site], [(int(differ[site, k]), int(shades[site, k])) for k in columns])
            for site in view.tree.order.tolist()
        ],
    }
