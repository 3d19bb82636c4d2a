"""The heat map: every pair of sites as a cell, dark if the sites are similar.

The cells are drawn here, one path for each shade, and need no script. The script adds the choice of
a cell. The style sheet sets the size and the position of names, so one drawing serves every screen.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedwad.ot import Floats
from fedwad.report.page._arrange import Ints
from fedwad.report.page._colour import LEVELS, level_of
from fedwad.report.page._digits import outwards
from fedwad.report.page._figures import marker_path
from fedwad.report.page._reading import VERDICTS, Line, reading_lines
from fedwad.report.page._subject import Subject
from fedwad.report.page._text import escape, name, tag

__all__ = ["heat_data", "heat_map"]

_NAMED = 80  # sites up to which every row and column has a name
_FEW = 5  # sites up to which numbers fit into the cells of a phone
_NUMBERED = 14  # sites up to which every cell shows its number
_SPACED = 40  # sites up to which there is a gap between cells
_BESIDE = 26  # sites up to which the readout is beside the map, not above it


def heat_map(subject: Subject) -> str:
    """The figure: the chosen pair, a ruler of colours, and the cells with their names."""
    size = subject.size
    layout = "beside" if size <= _BESIDE else "above"
    names = "named" if size <= _NAMED else "unnamed"
    characters = min(max(len(text) for text in subject.names), 24)
    return tag(
        "figure",
        _reading(subject),
        _scroller(subject),
        tag("div", *_steps(), class_="steps"),
        class_=f"heat {layout} {names}" + (" few" if size <= _FEW else ""),
        id="heat",
        style=f"--n:{size};--characters:{characters}",
    )


def heat_data(subject: Subject) -> dict[str, object]:
    """The numbers for the script: integers in units of the last digit, row by row of i < j."""
    digits, pairs = subject.digits, subject.pairs
    (low, high), (down, up) = subject.bounds, outwards(not subject.of_populations)
    index_of = {int(site): index for index, site in enumerate(subject.tree.order)}
    return {
        "names": list(subject.names),
        "order": subject.tree.order.tolist(),
        "start": [index_of[site] for site in subject.first_pair],
        "decimals": digits.decimals,
        "suffix": digits.suffix,
        "value": digits.whole(subject.value[pairs]),
        "sure": subject.interval_name,
        "lower": digits.whole(low[pairs], down),
        "upper": digits.whole(high[pairs], up),
        "verdict": [] if subject.differs is None else subject.differs[pairs].astype(int).tolist(),
        "others": [_line_data(subject, line) for line in reading_lines(subject)],
        "span": [bound * 10.0 ** (digits.decimals - digits.exponent) for bound in subject.span],
    }


def _line_data(subject: Subject, line: Line) -> dict[str, object]:
    digits, pairs = subject.digits, subject.pairs
    content: dict[str, object] = {"label": line.label, "value": digits.whole(line.value[pairs])}
    if line.bounds is not None:
        low, high = line.bounds
        content |= {
            "sure": subject.sample_interval_name,
            "lower": digits.whole(low[pairs], "down"),
            "upper": digits.whole(high[pairs], "up"),
        }
    return content


def _reading(subject: Subject) -> str:
    """The farthest pair, until another is chosen."""
    i, j = subject.first_pair
    digits, (low, high) = subject.digits, subject.bounds
    value, lower, upper = float(subject.value[i, j]), float(low[i, j]), float(high[i, j])
    lines = [line.text(subject, i, j) for line in reading_lines(subject)]
    if subject.differs is not None:
        lines.insert(0, VERDICTS[int(subject.differs[i, j])])
    others = "".join(
        tag("span", ", ", class_="unseen") + tag("span", escape(line), class_="other")
        for line in lines
    )
    # The punctuation is for screen readers and copying; on screen, lines and sizes replace it.
    readout = (
        tag("span", name(subject.names[i]), " &ndash; ", name(subject.names[j]), class_="pair")
        + tag("span", ": ", class_="unseen")
        + tag("b", escape(digits.text(value)), class_="number")
        + tag("span", ", ", class_="unseen")
        + tag(
            "span", escape(f"{subject.interval_name} {subject.interval(i, j)}"), class_="interval"
        )
    )
    return tag(
        "div",
        tag("p", "Farthest pair", class_="which", id="which"),
        tag(
            "p", readout, others, class_="readout", id="readout", role="status", aria_live="polite"
        ),
        _ruler(subject, value, lower, upper),
        tag("p", "Point at a cell, tap it, or move with the arrow keys.", class_="hint"),
        class_="reading",
    )


def _steps() -> list[str]:
    """Buttons for touch screens, on which small cells are hard to hit."""
    ways = [("left", "←", "0 -1"), ("up", "↑", "-1 0")]
    ways += [("down", "↓", "1 0"), ("right", "→", "0 1")]
    return [
        tag("button", sign, type="button", data_step=step, aria_label=f"One cell {way}")
        for way, sign, step in ways
    ]


def _ruler(subject: Subject, value: float, lower: float, upper: float) -> str:
    """The colour scale from the least lower to the greatest upper bound, with the chosen interval
    above it, and the noise as a mark upon it."""
    low, high = subject.span
    width = (high - low) or 1.0

    def place(number: float) -> float:
        return 100 * min(max((number - low) / width, 0.0), 1.0) if math.isfinite(number) else 100.0

    least, most = subject.range
    start, stop = place(least), place(most)
    shades = "".join(
        tag("rect", x=k, y=0, width=1.02, height=1, class_=f"l{k}") for k in range(LEVELS)
    )
    bar = tag(
        "svg", shades, viewBox=f"0 0 {LEVELS} 1", preserveAspectRatio="none", aria_hidden="true"
    )
    digits = subject.digits
    # Labels extend inwards from the ends of the scale; if it is short, outwards where there is
    # room.
    short = stop - start < 38
    ends = (
        (start, digits.text(least), "similar", "before" if short and start > 18 else "after"),
        (stop, digits.text(most), "far apart", "after" if short and stop < 82 else "before"),
    )
    labels = "".join(
        tag(
            "span", escape(text), " ", tag("i", word), class_=f"end {side}", style=f"left:{at:.2f}%"
        )
        for at, text, word, side in ends
    )
    return tag(
        "div",
        tag(
            "div",
            id="interval-bar",
            class_="interval-bar",
            style=f"left:{place(lower):.2f}%;right:{100 - place(upper):.2f}%",
        ),
        tag("div", id="spot", class_="spot", style=f"left:{place(value):.2f}%"),
        tag("div", bar, class_="bar", style=f"left:{start:.2f}%;right:{100 - stop:.2f}%"),
        _noise_mark(subject, place),
        labels,
        class_="ruler" if subject.noise is None else "ruler with-noise",
        role="img",
        aria_label=f"Colours from {digits.text(least)}, similar, to {digits.text(most)}, far apart",
    )


def _noise_mark(subject: Subject, place: Callable[[float], float]) -> str:
    """What chance alone gives, marked on the colour scale."""
    if subject.noise is None:
        return ""
    at = place(subject.noise)
    text = f"chance alone {subject.digits.text(subject.noise)}"
    side = "before" if at > 50 else "after"
    return tag("div", class_="noise", style=f"left:{at:.2f}%") + tag(
        "span", escape(text), class_=f"end noise-label {side}", style=f"left:{at:.2f}%"
    )


def _scroller(subject: Subject) -> str:
    size, order = subject.size, subject.tree.order
    if size <= _NAMED:
        labels = [
            tag("span", name(subject.names[site]), title=subject.names[site]) for site in order
        ]
        down, across = "".join(labels), "".join(labels)
    else:
        down = across = "".join(_block_name(subject, *block) for block in subject.blocks())
    cells = tag(
        "div",
        _cells(subject),
        class_="cells",
        id="cells",
        tabindex="0",
        role="application",
        aria_roledescription="heat map",
        aria_label=(
            f"Distances between {size} sites; arrow keys choose a pair, the table below lists them"
        ),
    )
    inner = tag(
        "div",
        tag("div", across, class_="across", aria_hidden="true"),
        tag("div", down, class_="down", aria_hidden="true"),
        cells,
        class_="plot",
    )
    return tag("div", inner, class_="scroller")


def _block_name(subject: Subject, label: int, start: int, count: int) -> str:
    """A cluster's marker and number at the middle of its block, where names would not fit."""
    site = int(subject.tree.order[start])
    marker = tag(
        "svg", tag("path", d=marker_path(subject.cluster_index(site))), viewBox="-7 -7 14 14"
    )
    place = f"--at:{start / subject.size:.4f};--share:{count / subject.size:.4f}"
    return tag(
        "span", marker, str(label or ""), class_=f"block {subject.paint_of(site)}", style=place
    )


def _cells(subject: Subject) -> str:
    size, order = subject.size, subject.tree.order
    gap = 0.035 if size <= _SPACED else 0.0
    ordered = subject.value[np.ix_(order, order)]
    shaded = subject.shaded[np.ix_(order, order)]
    levels = level_of(np.where(np.isfinite(shaded), shaded, subject.range[1]), *subject.range)
    # An attribute, not a style rule: rules for descendants do not apply to the copy of <use>.
    edges, dense = (None, None) if gap else ("crispEdges", "dense")
    half = tag(
        "g",
        *_shade_paths(levels, np.isfinite(ordered), gap),
        id="half",
        class_=dense,
        shape_rendering=edges,
    )
    # swaps x and y: the matrix is symmetric
    other_half = '<use href="#half" transform="matrix(0 1 1 0 0 0)"></use>'
    own = "".join(_own(subject, int(site), k, gap) for k, site in enumerate(order))
    frames = "".join(
        tag("rect", x=start, y=start, width=count, height=count, class_="block")
        for _, start, count in subject.blocks()
    )
    numbers = _numbers(subject, ordered, levels) if size <= _NUMBERED else ""
    cursor = tag(
        "g", *(tag("rect", class_=part) for part in ("row", "column", "cell")), id="cursor"
    )
    return tag(
        "svg",
        half,
        other_half,
        own,
        frames,
        numbers,
        cursor,
        viewBox=f"0 0 {size} {size}",
        aria_hidden="true",
    )


def _own(subject: Subject, site: int, place: int, gap: float) -> str:
    """A site's diagonal cell: the marker of its cluster, or filled if cells are small."""
    paint = f"own {subject.paint_of(site)}"
    if gap and subject.clusters is not None:
        turn = f"translate({place + 0.5} {place + 0.5}) scale(.036)"
        return tag("path", d=marker_path(subject.cluster_index(site)), transform=turn, class_=paint)
    return tag(
        "rect",
        x=place + gap,
        y=place + gap,
        width=1 - 2 * gap,
        height=1 - 2 * gap,
        class_=paint,
        shape_rendering=None if gap else "crispEdges",
    )


def _shade_paths(
    levels: Ints, known: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], gap: float
) -> list[str]:
    """One path per shade for the cells above the diagonal; without gaps, runs in a row become one
    bar."""
    paths: dict[str, list[str]] = {}
    size = len(levels)
    for row in range(size):
        column = row + 1
        while column < size:
            shade, start = (levels[row, column], known[row, column]), column
            column += 1
            while not gap and column < size and (levels[row, column], known[row, column]) == shade:
                column += 1
            bar = f"M{start} {row}h{column - start}v1h{start - column}z"
            if gap:
                side = 1 - 2 * gap
                bar = f"M{start + gap:.3f} {row + gap:.3f}h{side:.3f}v{side:.3f}h{-side:.3f}z"
            paths.setdefault(f"l{shade[0]}" if shade[1] else "unknown", []).append(bar)
    return [tag("path", d="".join(bars), class_=shade) for shade, bars in sorted(paths.items())]


def _numbers(subject: Subject, ordered: Floats, levels: Ints) -> str:
    digits, size = subject.digits, subject.size
    if digits.suffix:
        return ""  # a power of ten in every cell would be clutter; the readout shows it
    longest = max(len(text) for text in digits.texts(ordered.ravel()))
    texts = [
        tag(
            "text",
            escape(digits.text(float(ordered[i, j]))),
            x=j + 0.5,
            y=i + 0.5,
            class_=f"t{levels[i, j]}",
        )
        for i in range(size)
        for j in range(size)
        if i != j and math.isfinite(ordered[i, j])
    ]
    return tag("g", *texts, class_="numbers", font_size=min(0.27, 1.35 / longest))
