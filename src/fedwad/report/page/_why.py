"""What a page says about columns: what each contributes to the distance between two sites.

There is a table of the columns of a pair, with the classes that contribute most and, if the columns
are pixels, where in the image the sites differ. A column is a cause only by its test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from markupsafe import Markup

from fedwad.compare import ClassShare, Explanation
from fedwad.compare.explanation import numbers_in_words, percent, values_in_words
from fedwad.errors import InputError
from fedwad.report.page._colour import N_SHADES, shade_index
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.page._text import clean, drawing, tag
from fedwad.transport import Floats

Shape = tuple[int, ...]

_DIGITS = "0123456789abcdefghijklmnopqrstuv"  # one for each shade


@dataclass(frozen=True, eq=False)
class PairColumns:
    """The columns of one pair, as its table lists them.

    If the columns are pixels, `image` has the numbers of rows and columns of the image. The last
    of `names` is "dependence".
    """

    explanation: Explanation
    image: tuple[int, int] | None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns on the page; a pixel is named by its place in the image."""
        if self.image is None:
            return tuple(map(clean, self.explanation.names))
        count, width = len(self.explanation.here), self.image[1]
        channels = count // math.prod(self.image)
        pixels = (divmod(k // channels, width) for k in range(count))
        places = (f"row {row + 1}, column {column + 1}" for row, column in pixels)
        return (*places, self.explanation.names[-1])

    @cached_property
    def listed(self) -> list[int]:
        """The columns in the table: the causes, then the largest contributions."""
        explanation, known = self.explanation, np.isfinite(self.explanation.contribution)
        causes, count = set(explanation.causes), len(explanation.here)
        order = sorted(explanation.order, key=lambda k: explanation.names[k] not in causes)
        most = 15 if self.image is None else 5
        return [k for k in order if k < count or known[k]][:most]

    def numbers(self, k: int) -> dict[str, Any]:
        """Contribution, share, p-value and SMD of column k as texts; whether it is a cause."""
        texts = numbers_in_words(self.explanation, k)
        del texts["sample_share"]
        return texts | {"cause": self.explanation.names[k] in self.explanation.causes}

    def at_site(self, k: int, site: int) -> str:
        """Column k at the first or the second site, in words; empty for "dependence"."""
        values = (self.explanation.here, self.explanation.there)[site]
        return values_in_words(values[k], self.explanation.kinds[k]) if k < len(values) else ""

    @cached_property
    def classes(self) -> list[list[ClassShare]]:
        """The classes of each of both sites that contribute most."""
        explanation = self.explanation
        return [
            [one for one in explanation.classes if one.site == s][:4] for s in explanation.sites
        ]

    @property
    def pixels(self) -> Floats:
        """The contribution of each pixel to the distance between populations, if sites differ."""
        found = np.nan_to_num(self.explanation.contribution[: len(self.explanation.here)])
        return found if self.explanation.differs else 0 * found

    def table(self, rows: Sequence[str], said: str, hint: str = "") -> dict[str, Any]:
        """What the template of a pair shows, for sites with so many rows, in words."""
        explanation, names, image = self.explanation, self.names, self.image
        count = len(explanation.here)
        return {
            "sites": explanation.sites,
            "n": rows,
            "said": said,
            "hint": hint,
            "tested": bool(np.isfinite(explanation.pvalue).any()),
            "where": None if image is None else picture(self.pixels, image, "where-image"),
            "rows": [
                self.numbers(k)
                | {"name": names[k], "here": self.at_site(k, 0), "there": self.at_site(k, 1)}
                for k in self.listed
            ],
            "more": count - sum(k < count for k in self.listed),
            "classes": [
                vars(one)
                | {
                    "column": names[explanation.names.index(one.column)],
                    "share": percent(one.share),
                }
                for one in chain(*self.classes)
            ],
        }


def columns_of(
    explain: Callable[[], Explanation], rows: Sequence[int], shape: Shape | None = None
) -> dict[str, Any] | None:
    """The columns of one pair with so many rows; None if it cannot be explained."""
    try:
        explanation = explain()
    except InputError:
        return None
    found = _columns(explanation, shape)
    texts = [f"n = {number:,}" for number in rows] or ["", ""]
    return None if found is None else found.table(texts, " ".join(explanation.notes))


def _columns(explanation: Explanation, shape: Shape | None) -> PairColumns | None:
    """The columns of a pair; None if they are too many for a page."""
    count = len(explanation.here)
    if shape is None:
        return PairColumns(explanation, None) if count <= 400 else None
    if math.prod(shape) != count or len(shape) not in (2, 3):
        raise InputError(
            f"shape is {shape} and there are {count} columns; give (rows, columns) of the"
            " images, or (rows, columns, channels).",
            "wrong-shape",
        )
    return PairColumns(explanation, (shape[0], shape[1])) if count <= 4096 else None


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

        Only its notes if the page begins with the sentence of this pair, or for pixels, whose names
        say little.
        """
        whole = self.view.size > 2 and pair.image is None
        return clean(pair.explanation.text if whole else " ".join(pair.explanation.notes))


def explain_pairs(view: MatrixView, shape: Shape | None = None) -> Reasons | None:
    """The columns of all pairs; None if they are unknown, or too many for a page.

    `shape` is the shape of images, if the columns are their pixels.
    """
    if not 1 < view.size <= 60:
        return None
    try:
        explanations = view.matrix.explain()
    except InputError:
        return None
    index, pairs = view.matrix.sites.index, {}
    first = _columns(next(iter(explanations.values())), shape)
    if first is None:
        return None
    for (a, b), explanation in explanations.items():
        pairs[index(a), index(b)] = PairColumns(explanation, first.image)
    return Reasons(view, pairs)


def why_data(reasons: Reasons) -> dict[str, Any]:
    """What the script of the page needs: the table of each pair, and its columns at each site.

    The list "columns" has only the columns that are shown. All other lists refer to a column by its
    position there. "standing" has the distinctive columns. A class is [its number, its rows in
    thousandths of the site's rows, its share of the squared distance as text, the position of the
    column that contributes most to that].
    """
    size, pairs = reasons.view.size, list(reasons.pairs.values())
    names, image = reasons.first.explanation.names, reasons.first.image
    of_classes = {names.index(one.column) for pair in pairs for one in chain(*pair.classes)}
    shown = sorted({*chain(*(pair.listed for pair in pairs)), *reasons.distinctive, *of_classes})
    position = {column: index for index, column in enumerate(shown)}
    # Any pair with a site has the same words about it.
    at_sites = [(reasons.pairs[0, max(k, 1)], min(k, 1)) for k in range(size)]
    content: dict[str, Any] = {
        "columns": [reasons.first.names[k] for k in shown],
        "pairs": [
            [[position[k], *pair.numbers(k).values()] for k in pair.listed] for pair in pairs
        ],
        "said": [reasons.sentence(pair) for pair in pairs],
        "sites": [[pair.at_site(k, side) for k in shown] for pair, side in at_sites],
        "standing": [position[k] for k in reasons.distinctive],
    }
    if of_classes:
        content["classes"] = [
            [
                [
                    [
                        one.number,
                        round(1000 * one.weight),
                        percent(one.share),
                        position[names.index(one.column)],
                    ]
                    for one in site
                ]
                for site in pair.classes
            ]
            for pair in pairs
        ]
    if image is not None and len(pairs) * math.prod(image) <= 200_000:  # characters on the page
        content |= {
            "image": list(image),
            "strengths": [strengths(pair.pixels, image) for pair in pairs],
            "where": [where_numbers(pair.pixels, image) for pair in pairs],
        }
    return content


def why_pair(reasons: Reasons) -> dict[str, Any]:
    """The columns of the farthest pair; the script replaces them when another is chosen."""
    view = reasons.view
    i, j = sorted(view.farthest_pair)
    hint = " Choose another pair in the map above." if view.size > 2 else ""
    pair = reasons.pairs[i, j]
    return pair.table([view.rows_text(i), view.rows_text(j)], reasons.sentence(pair), hint)


def set_apart(reasons: Reasons) -> dict[str, Any] | None:
    """From how many others each site differs in a column, or pictures if the columns are pixels.

    None with fewer than three sites, or if no column is a cause in any pair.
    """
    view, columns = reasons.view, reasons.distinctive
    if view.size < 3 or not columns:
        return None
    others, image = view.size - 1, reasons.first.image
    contributions, differ = reasons.by_site
    if image is not None:
        pixels = contributions[:, :-1]
        order = np.argsort(-pixels.sum(axis=1), kind="stable").tolist()
        shown = [site for site in order if pixels[site].any()][:24]
        pictures = [(view.names[k], picture(pixels[k], image)) for k in shown]
        return {"others": others, "images": pictures}
    shades = shade_index(others - differ, 0.0, others)  # the strongest shade: from all others
    return {
        "others": others,
        "images": [],
        "columns": [reasons.first.names[k] for k in columns],
        "rows": [
            (view.names[site], [(int(differ[site, k]), int(shades[site, k])) for k in columns])
            for site in view.tree.order.tolist()
        ],
    }


# --- where in the image sites differ, if columns are pixels


def _by_pixel(contributions: Floats, shape: tuple[int, int]) -> Floats:
    """The contribution of each pixel: that of its channels, added up. Negative ones count as 0."""
    return np.asarray(np.maximum(contributions, 0.0).reshape(*shape, -1).sum(axis=2))


def strengths(contributions: Floats, shape: tuple[int, int]) -> str:
    """A digit for each pixel, row by row: 0 for no contribution, v for the largest in the image."""
    pixels = _by_pixel(contributions, shape).ravel()
    steps = np.rint((N_SHADES - 1) * pixels / (float(pixels.max()) or 1.0)).astype(int)
    return "".join(_DIGITS[step] for step in steps)


def where_numbers(contributions: Floats, shape: tuple[int, int]) -> list[int]:
    """Four numbers: how many pixels hold half of the difference, then about the strongest pixel.

    These are its row and its column, counted from 1, and its percentage of the difference.
    """
    pixels = _by_pixel(contributions, shape)
    total = float(pixels.sum())
    if not total > 0:
        return [0, 0, 0, 0]
    ordered = np.sort(pixels.ravel())[::-1]
    half = int(np.searchsorted(np.cumsum(ordered), 0.5 * total)) + 1
    row, column = divmod(int(pixels.argmax()), shape[1])
    return [half, row + 1, column + 1, round(100 * float(ordered[0]) / total)]


def picture(
    contributions: Floats, shape: tuple[int, int], name: str | None = None
) -> dict[str, Any]:
    """The picture with its sentence; the pixel that contributes most has the strongest shade.

    There is one path for each digit of `strengths`.
    """
    half, row, column, percentage = where_numbers(contributions, shape)
    sentence = (
        f"Half of the difference lies in {half} of {math.prod(shape)} pixels. The strongest, in row"
        f" {row} and column {column} from the top left, has"
        f" {f'{percentage}%' if percentage else 'below 1%'}."
    )
    paths: dict[str, list[str]] = {}
    for place, digit in enumerate(strengths(contributions, shape)):
        if digit != "0":
            down, across = divmod(place, shape[1])
            paths.setdefault(digit, []).append(f"M{across} {down}h1v1h-1z")
    drawn: list[Markup] = [
        # The first shade of the ramp is the strongest.
        tag("path", d="".join(bars), class_=f"l{N_SHADES - 1 - _DIGITS.index(digit)}")
        for digit, bars in sorted(paths.items())
    ]
    ground = tag("rect", width=shape[1], height=shape[0], class_=f"l{N_SHADES - 1}")
    look = {"shape_rendering": "crispEdges", "id": name}
    image = drawing(shape[1], shape[0], sentence, ground, tag("g", *drawn), **look)
    return {"image": image, "sentence": sentence, "hidden": not half}
