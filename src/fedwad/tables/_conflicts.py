"""Conflicts between sites, in sentences that name the site and the column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.tables._profile import ColumnStatistics
from fedwad.tables._schema_column import SchemaColumn
from fedwad.tables._table import is_code, level_of

__all__ = ["Conflict", "StatisticsBySite", "conflicts_of", "listed"]

#: What each site says about a column.
StatisticsBySite = Mapping[str, ColumnStatistics]

_FEWEST = 10  # values that all are the same for it to be worth a sentence
_MOSTLY, _SELDOM = 0.9, 0.5  # shares of missing values at one site and at another
_OFTEN = 0.05  # of a site's values are a sentinel for it to be suspicious
_OUTLYING = 2.0  # standard deviations of the sites without it
_POWERS = (10.0, 100.0, 1000.0, 1e4, 1e6)
#: Ratios of units: pounds and kilograms, inches and centimetres, feet and metres, months and years,
#: glucose, cholesterol, triglycerides and creatinine in mg/dl and mmol/l or umol/l, days and years.
_UNITS = (
    2.20462,
    2.54,
    3.28084,
    7.0,
    12.0,
    18.016,
    24.0,
    30.4375,
    38.67,
    60.0,
    88.42,
    88.57,
    365.25,
)
_NEAR_POWER, _NEAR_UNIT = np.log(1.35), np.log(1.03)
_SAME_SHAPE, _OTHER_SCALE = np.log(1.001), np.log(1.5)
_SAME_ROWS, _SAME_NUMBERS = 1e-4, 1e-6  # with and without rounding after a change of units


@dataclass(frozen=True)
class Conflict:
    """Something that people should check before they trust a comparison.

    `problem` is a short name for it, such as "units"; `sentence` names the sites and the column.
    """

    column: str
    sites: tuple[str, ...]
    problem: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def listed(words: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'; the rest of a long list as a number.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if len(words) > 4:
        return f"{', '.join(words[:3])} and {len(words) - 3} others"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def conflicts_of(name: str, found: StatisticsBySite, column: SchemaColumn) -> list[Conflict]:
    """What is odd about a column between the sites that have it."""
    result = [*_all_missing(name, found, column), *_mostly_missing(name, found, column)]
    if column.kind == "number":
        suspicious = [*_sentinels(name, found)]
        result += suspicious
        named = {site for conflict in suspicious for site in conflict.sites}
        result += _constant(name, {s: v for s, v in found.items() if s not in named}, len(found))
        result += _units(name, {s: v for s, v in found.items() if s not in named})
    if column.kind == "category":
        result += _constant(name, found, len(found))
        spellings = [*_spellings(name, found)]
        result += spellings or _codings(name, found)
    return result


def _all_missing(name: str, found: StatisticsBySite, column: SchemaColumn) -> Iterator[Conflict]:
    if column.kind in ("ignored", "label"):
        return
    for site, s in found.items():
        if s.count == 0:
            sentence = f"All {s.missing} values of column '{name}' at {site} are missing."
            yield Conflict(name, (site,), "all missing", sentence)


def _mostly_missing(name: str, found: StatisticsBySite, column: SchemaColumn) -> Iterator[Conflict]:
    """A column that some sites hardly have a value of, and another one mostly has."""
    if column.kind in ("ignored", "label"):
        return
    shares = {site: s.missing / (s.count + s.missing) for site, s in found.items()}
    sites = [site for site, share in shares.items() if _MOSTLY < share < 1.0]
    if sites and min(shares.values()) < _SELDOM:
        listing = listed([f"{shares[site]:.1%} of the rows of {site}" for site in sites])
        sentence = f"Column '{name}' is missing in {listing}."
        yield Conflict(name, tuple(sites), "mostly missing", sentence)


def _sentinels(name: str, found: StatisticsBySite) -> Iterator[Conflict]:
    """Values such as 0 or 99 that are frequent here, absent elsewhere, and far from the rest."""
    for site, s in found.items():
        for value, number in zip(s.frequent, s.frequent_counts, strict=True):
            without = [
                o for o, v in found.items() if o != site and value not in v.frequent and v.count
            ]
            others = [found[o] for o in without if np.isfinite(found[o].mean)]
            far = others and all(abs(value - o.mean) > _OUTLYING * o.std for o in others)
            if number >= _OFTEN * s.count and far:
                what = f"All {number}" if number == s.count else f"{number} of {s.count}"
                shown = level_of(value)
                yield Conflict(
                    name,
                    (site,),
                    "suspicious value",
                    f"{what} values of column '{name}' at {site} are {shown}, which is not frequent"
                    f" at {listed(without)}; if {shown} stands for a missing value there, say so"
                    f" (missing: {name}={shown}).",
                )


def _constant(name: str, found: StatisticsBySite, sites: int) -> Iterator[Conflict]:
    if sites < 2:
        return
    constant: dict[str, list[str]] = {}
    for site, s in found.items():
        if s.count >= _FEWEST and s.distinct == 1 and (s.levels or np.isfinite(s.mean)):
            value = s.levels[0] if s.levels else level_of(s.mean)
            constant.setdefault(value, []).append(site)
    for value, where in constant.items():
        count = sum(found[site].count for site in where)
        sentence = f"All {count} values of column '{name}' at {listed(where)} are {value}."
        yield Conflict(name, tuple(where), "constant", sentence)


def _units(name: str, found: StatisticsBySite) -> Iterator[Conflict]:
    """Each site against the one in the middle: the same shape on another scale."""
    known = {site: s for site, s in found.items() if s.count > 1 and s.std > 0}
    if len(known) < 2:
        return
    order = sorted(known, key=lambda site: known[site].std)
    middle = order[(len(order) - 1) // 2]
    for site in known:
        factor = None if site == middle else _factor(known[site], known[middle])
        if factor is not None:
            more, less = (site, middle) if factor > 1 else (middle, site)
            ratio = max(factor, 1 / factor)
            yield Conflict(
                name,
                (site, middle),
                "units",
                f"Values of column '{name}' are about {ratio:.3g} times as large at {more} as at"
                f" {less}; use the same unit at both.",
            )
        elif site != middle and _temperatures(known[site], known[middle]):
            yield Conflict(
                name,
                (site, middle),
                "units",
                f"Values of column '{name}' at {site} and {middle} seem to be in Fahrenheit and"
                " Celsius; use the same unit at both.",
            )


def _factor(one: ColumnStatistics, other: ColumnStatistics) -> float | None:
    """The factor between two columns of other units, if that is what they seem to be."""
    spread = np.log(one.std / other.std)
    level = None
    if (
        min(abs(one.mean) / one.std, abs(other.mean) / other.std) > 0.5
        and one.mean * other.mean > 0
    ):
        level = np.log(one.mean / other.mean)
    if level is not None and _rescaled(spread, spread - level, one.count == other.count):
        return float(np.exp(spread))
    for factors, near in ((_POWERS, _NEAR_POWER), (_UNITS, _NEAR_UNIT)):
        for factor in factors:
            wanted = np.copysign(np.log(factor), spread)
            around_zero = level is None and factors is _POWERS  # the mean says nothing there
            close = around_zero or (level is not None and abs(level - wanted) < near)
            if abs(spread - wanted) < near and close:
                seen = spread if level is None else (spread + level) / 2.0
                return float(np.exp(wanted if factors is _UNITS else seen))
    return None


def _rescaled(spread: float, apart: float, same_count: bool) -> bool:
    """Whether mean and standard deviation differ by one factor, as in rows of another unit.

    `apart` is by how much the logarithms of the two factors differ. Independent sites of some
    hundred rows are a few percent apart, so a factor near 1 needs a closer match.
    """
    if abs(spread) > _OTHER_SCALE:
        return bool(abs(apart) < _SAME_SHAPE)
    near = _SAME_ROWS if same_count else _SAME_NUMBERS
    return bool(abs(spread) > _SAME_SHAPE and abs(apart) < near)


def _temperatures(one: ColumnStatistics, other: ColumnStatistics) -> bool:
    warm, cold = (one, other) if one.std > other.std else (other, one)
    return bool(
        abs(warm.std / cold.std / 1.8 - 1.0) < 0.03
        and abs(warm.mean - (1.8 * cold.mean + 32.0)) < 0.5 * warm.std
    )


def _spellings(name: str, found: StatisticsBySite) -> Iterator[Conflict]:
    """Levels that differ in upper and lower case only; a sentence for each pair of sites."""
    spelled: dict[str, dict[str, str]] = {}
    for site, s in found.items():
        for level in s.levels:
            spelled.setdefault(" ".join(level.lower().split()), {}).setdefault(level, site)
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for ways in spelled.values():
        if len(ways) > 1:
            (one, here), (two, there) = list(ways.items())[:2]
            pairs.setdefault((here, there), []).append((one, two))
    for (here, there), levels in pairs.items():
        ones, twos = (
            listed([f"'{level}'" for level in side]) for side in zip(*levels, strict=True)
        )
        yield Conflict(
            name,
            tuple(dict.fromkeys((here, there))),
            "spelling",
            f"Column '{name}' has {ones} at {here} and {twos} at {there}; spell levels one way.",
        )


def _codings(name: str, found: StatisticsBySite) -> Iterator[Conflict]:
    """Sites that share no level, or whose codes are those of another site moved by one."""
    full = {site: s for site, s in found.items() if len(s.levels) > 1}
    here = next(iter(full), "")
    groups: dict[str, list[str]] = {}
    for there in list(full)[1:]:
        one, two = set(full[here].levels), set(full[there].levels)
        moved = not (full[here].other or full[there].other) and _moved(one, two)
        if one.isdisjoint(two) or moved:
            groups.setdefault(_shown(full[there]), []).append(there)
    for levels, others in groups.items():
        where = "both" if len(others) == 1 else "all of them"
        yield Conflict(
            name,
            (here, *others),
            "coding",
            f"Column '{name}' has {_shown(full[here])} at {here} and {levels} at"
            f" {listed(others)}; code it the same way at {where}.",
        )


def _moved(one: set[str], two: set[str]) -> bool:
    if one == two or len(one) != len(two) or not all(is_code(v) for v in one | two):
        return False
    steps = {b - a for a, b in zip(sorted(map(float, one)), sorted(map(float, two)), strict=True)}
    return len(steps) == 1


def _shown(s: ColumnStatistics) -> str:
    return ", ".join(s.levels[:4]) + (", ..." if len(s.levels) > 4 else "")
