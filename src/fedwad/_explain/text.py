"""An explanation in words."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from fedwad._words import format_day

if TYPE_CHECKING:
    from fedwad._explain.explanation import Dependence, Explanation

__all__ = ["change_in_words", "html", "percent", "sentences"]

_MAX_NAMED = 3  # columns or correlations in a sentence
_NOTABLE_RATIO = 1.2  # a class is named if its share of the distance exceeds so often its weight
_NOTABLE_MISSING = 0.02  # change of the fraction of missing values from which on it is named
_MISSING = "missing"


def sentences(e: Explanation) -> str:
    """The columns that make the difference, with their changes, or that nothing differs."""
    a, b = e.sites
    causes = [k for k in e.order if e.significant[k]]
    if e.only_dependence:
        correlations = (_correlation_sentence(e, one) for one in e.dependence[:_MAX_NAMED])
        return " ".join([_dependence_sentence(e), *correlations, *e.notes])
    if not causes:
        return " ".join([_no_cause_sentence(e), *e.notes])
    causes_listed = "; ".join(_cause_in_words(e, k) for k in causes[:_MAX_NAMED])
    more = len(causes[_MAX_NAMED:])
    rest = f"; and {more} more column{'s' if more > 1 else ''}" if more else ""
    first = f"{a} and {b} differ in {causes_listed}{rest}."
    return " ".join([first, *_class_sentences(e), *e.notes])


def _class_sentences(e: Explanation) -> list[str]:
    """The class of each site that carries more of the distance than of the rows, if one does."""
    texts = []
    for site in e.sites:
        classes = [one for one in e.classes if one.site == site]
        if len(classes) > 1 and classes[0].share > _NOTABLE_RATIO * classes[0].weight:
            top = classes[0]
            texts.append(
                f"Class {top.number} of {site} has {percent(top.weight)} of its rows and"
                f" {percent(top.share)} of the distance, mostly in {top.column}."
            )
    return texts


def _no_cause_sentence(e: Explanation) -> str:
    a, b = e.sites
    if not e.share.any():
        return f"{a} and {b} have the same data."
    if e.differs:
        return (
            f"{a} and {b} differ by more than chance, in many columns a little; no single column"
            " stands out."
        )
    return f"No column of {a} and {b} differs by more than chance explains."


def _dependence_sentence(e: Explanation) -> str:
    a, b = e.sites
    how = "only" if not (e.location + e.scale).any() else "mainly"
    return f"{a} and {b} differ {how} in how columns depend on each other, not in each by itself."


def _correlation_sentence(e: Explanation, one: Dependence) -> str:
    return (
        f"The correlation of {one.first} and {one.second} is {one.here:.2f} at {e.sites[0]} and"
        f" {one.there:.2f} at {e.sites[1]}."
    )


def _cause_in_words(e: Explanation, k: int) -> str:
    change = change_in_words(e, k)
    return f"{e.names[k]} ({percent(float(e.excess[k]))}{': ' + change if change else ''})"


def change_in_words(e: Explanation, k: int) -> str:
    """The change of one column in its own units, such as "mean 233 and 0"."""
    here, there = e.here[k], e.there[k]
    if e.kinds[k] == "category":
        levels = e.levels(e.names[k])[:2]
        return ", ".join(f"{name}: {percent(p)} and {percent(q)}" for name, p, q in levels)
    parts = []
    if e.kinds[k] == "boolean":
        parts.append(f"true in {percent(here['mean'])} and {percent(there['mean'])}")
    elif e.location[k] >= e.scale[k] or "std" not in here or "std" not in there:
        kind = e.kinds[k]
        parts.append(
            f"mean {_mean_in_words(here['mean'], kind)} and {_mean_in_words(there['mean'], kind)}"
        )
    else:
        stds = f"std {_number_in_words(here['std'])} and {_number_in_words(there['std'])}"
        parts.append(f"{stds} days" if e.kinds[k] == "date" else stds)
    if _missing_changed(here, there):
        parts.append(f"missing: {percent(here[_MISSING])} and {percent(there[_MISSING])}")
    return ", ".join(parts)


def _missing_changed(here: Mapping[str, float], there: Mapping[str, float]) -> bool:
    if _MISSING not in here or _MISSING not in there:
        return False
    return abs(here[_MISSING] - there[_MISSING]) > _NOTABLE_MISSING


def _mean_in_words(value: float, kind: str) -> str:
    day = format_day(value) if kind == "date" else None
    return day or _number_in_words(value)


def _number_in_words(value: float) -> str:
    return "unknown" if value != value else f"{value:.4g}"


def percent(fraction: float) -> str:
    """0.412 -> '41%'."""
    if fraction != fraction:
        return "unknown"
    return f"{100 * fraction:.0f}%" if fraction >= 0.01 or fraction <= 0 else "<1%"


def html(e: Explanation) -> str:
    """A table for notebooks, with columns within noise in grey."""
    head = "".join(
        f"<th>{name}</th>"
        for name in ("column", "excess", "share", *map(escape, e.sites), "change")
    )
    rows = []
    for k in e.order:
        style = "" if e.significant[k] else ' style="color:#888"'
        excess = f"{percent(float(e.excess[k]))} ± {percent(float(e.excess_std[k]))}"
        cells = [e.names[k], excess, percent(float(e.share[k]))]
        cells += [_values_in_words(values[k], e.kinds[k]) for values in (e.here, e.there)]
        cells.append(_kinds_of_change(e, k))
        row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f"<tr{style}>{row}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<p>{escape(e.text)}</p>{table}"


def _values_in_words(values: Mapping[str, float], kind: str) -> str:
    """A column of this kind at one site."""
    if kind == "category":
        top = sorted(values.items(), key=lambda item: -item[1])[:3]
        return ", ".join(f"{level} {percent(fraction)}" for level, fraction in top)
    if kind == "boolean":
        return percent(values["mean"])
    unit = " days" if kind == "date" else ""
    spread = f" ± {_number_in_words(values['std'])}{unit}" if "std" in values else ""
    missing_fraction = values.get(_MISSING, 0.0)
    missing = f", {percent(missing_fraction)} missing" if missing_fraction > 0 else ""
    return f"{_mean_in_words(values['mean'], kind)}{spread}{missing}"


def _kinds_of_change(e: Explanation, k: int) -> str:
    if not e.excess[k] > 0:
        return "within noise"
    named = {"mean": e.location[k], "spread": e.scale[k], "rest": e.rest[k]}
    if e.kinds[k] in ("category", "boolean"):
        named = {"frequency": e.location[k], "rest": e.rest[k] + e.scale[k]}
    return ", ".join(name for name, part in named.items() if part > 0.1 * e.excess[k])
