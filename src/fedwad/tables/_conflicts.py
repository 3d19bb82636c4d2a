"""Conflicts between sites, in sentences that name the site and the column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.tables._profile import ColumnStatistics
from fedwad.tables._schema_column import SchemaColumn
from fedwad.tables._table import is_code, level_name

__all__ = ["Conflict", "StatisticsBySite", "find_conflicts", "join_names"]

#: What each site says about a column.
StatisticsBySite = Mapping[str, ColumnStatistics]

_MIN_CONSTANT = 10  # equal values from which on a constant column gets a sentence
_MISSING_HERE, _MISSING_ELSEWHERE = 0.9, 0.5  # fractions of missing values, above and below
_MIN_SENTINEL = 0.05  # fraction of a site's values from which on a sentinel is suspicious
_OUTLYING = 2.0  # standard deviations of the sites without it
_POWERS = (10.0, 100.0, 1000.0, 1e4, 1e6)
#: Ratios of units: pounds and kilograms, inches and centimetres, feet and metres, months and years,
#: glucose, cholesterol, triglycerides and creatinine in mg/dl and mmol/l or umol/l, days and years,
#: days and weeks, hours and days, days and months, minutes and hours.
_UNIT_RATIOS = (
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
# Looser at equal counts: the same rows, rounded after a change of units.
_TOL_SAME_COUNT, _TOL_OTHER_COUNT = 1e-4, 1e-6


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


def join_names(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'; the rest of a long list as a number.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def find_conflicts(name: str, statistics: StatisticsBySite, column: SchemaColumn) -> list[Conflict]:
    """The conflicts about a column between the sites that have it."""
    if not column.width:  # ignored, or the label
        return []
    result = [*_all_missing(name, statistics), *_mostly_missing(name, statistics)]
    if column.kind == "number":
        sentinels = [*_sentinels(name, statistics)]
        result += sentinels
        named = {site for conflict in sentinels for site in conflict.sites}
        others = {site: s for site, s in statistics.items() if site not in named}
        result += _constant(name, others, len(statistics))
        result += _different_units(name, others)
    if column.kind == "category":
        result += _constant(name, statistics, len(statistics))
        spellings = [*_spellings(name, statistics)]
        result += spellings or _codings(name, statistics)
    return result


def _all_missing(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    for site, s in statistics.items():
        if s.count == 0:
            sentence = f"All {s.missing} values of column '{name}' at {site} are missing."
            yield Conflict(name, (site,), "all missing", sentence)


def _mostly_missing(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """A column missing in over 90% of the rows at some sites and in less than half at another."""
    missing = {site: s.missing / (s.count + s.missing) for site, s in statistics.items()}
    sites = [site for site, fraction in missing.items() if _MISSING_HERE < fraction < 1.0]
    if sites and min(missing.values()) < _MISSING_ELSEWHERE:
        listing = join_names([f"{missing[site]:.1%} of the rows of {site}" for site in sites])
        sentence = f"Column '{name}' is missing in {listing}."
        yield Conflict(name, tuple(sites), "mostly missing", sentence)


def _sentinels(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """Values such as 0 or 99 that are frequent here, not frequent at some other sites, and over 2
    standard deviations from their means."""
    for site, s in statistics.items():
        for value, number in zip(s.sentinels, s.sentinel_counts, strict=True):
            without = {o: v for o, v in statistics.items() if v.count and value not in v.sentinels}
            if number >= _MIN_SENTINEL * s.count and _outlying(value, without.values()):
                what = f"All {number}" if number == s.count else f"{number} of {s.count}"
                shown = level_name(value)
                yield Conflict(
                    name,
                    (site,),
                    "suspicious value",
                    f"{what} values of column '{name}' at {site} are {shown}, which is not frequent"
                    f" at {join_names([*without])}; if {shown} stands for a missing value there,"
                    f" say so (missing: {name}={shown}).",
                )


def _outlying(value: float, others: Iterable[ColumnStatistics]) -> bool:
    """Whether a value is far from the means of all sites that sent one."""
    known = [s for s in others if np.isfinite(s.mean)]
    return bool(known) and all(abs(value - s.mean) > _OUTLYING * s.std for s in known)


def _constant(name: str, statistics: StatisticsBySite, sites: int) -> Iterator[Conflict]:
    if sites < 2:
        return
    constant: dict[str, list[str]] = {}
    for site, s in statistics.items():
        if s.count >= _MIN_CONSTANT and s.distinct == 1 and (s.levels or np.isfinite(s.mean)):
            value = s.levels[0] if s.levels else level_name(s.mean)
            constant.setdefault(value, []).append(site)
    for value, where in constant.items():
        count = sum(statistics[site].count for site in where)
        sentence = f"All {count} values of column '{name}' at {join_names(where)} are {value}."
        yield Conflict(name, tuple(where), "constant", sentence)


def _different_units(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """Compare each site with the one of median standard deviation; report a constant factor between
    them."""
    known = {site: s for site, s in statistics.items() if s.count > 1 and s.std > 0}
    if len(known) < 2:
        return
    order = sorted(known, key=lambda site: known[site].std)
    middle = order[(len(order) - 1) // 2]
    for site in known:
        factor = None if site == middle else _unit_factor(known[site], known[middle])
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
        elif site != middle and _are_temperatures(known[site], known[middle]):
            warmer = known[site].std > known[middle].std
            fahrenheit, celsius = (site, middle) if warmer else (middle, site)
            yield Conflict(
                name,
                (site, middle),
                "units",
                f"Values of column '{name}' seem to be in Fahrenheit at {fahrenheit} and in Celsius"
                f" at {celsius}; use the same unit at both.",
            )


def _unit_factor(one: ColumnStatistics, other: ColumnStatistics) -> float | None:
    """The factor between two columns in different units, if that is what they seem to be."""
    log_std_ratio = np.log(one.std / other.std)
    log_mean_ratio = None
    far_from_zero = min(abs(one.mean) / one.std, abs(other.mean) / other.std) > 0.5
    if far_from_zero and one.mean * other.mean > 0:
        log_mean_ratio = np.log(one.mean / other.mean)
    if log_mean_ratio is not None and _rescaled(
        log_std_ratio, log_std_ratio - log_mean_ratio, one.count == other.count
    ):
        return float(np.exp(log_std_ratio))
    for factors, near in ((_POWERS, _NEAR_POWER), (_UNIT_RATIOS, _NEAR_UNIT)):
        for factor in factors:
            log_factor = np.copysign(np.log(factor), log_std_ratio)
            if log_mean_ratio is None:  # means near zero say nothing
                close, observed = factors is _POWERS, log_std_ratio
            else:
                close = abs(log_mean_ratio - log_factor) < near
                observed = (log_std_ratio + log_mean_ratio) / 2.0
            if abs(log_std_ratio - log_factor) < near and close:
                return float(np.exp(log_factor if factors is _UNIT_RATIOS else observed))
    return None


def _rescaled(log_std_ratio: float, log_difference: float, same_count: bool) -> bool:
    """Whether mean and standard deviation differ by one factor, as in rows in a different unit.

    `log_difference` is that of the two factors' logarithms. It is a few percent between independent
    sites of some hundred rows, so a factor near 1 needs a closer match.
    """
    if abs(log_std_ratio) > _OTHER_SCALE:
        return bool(abs(log_difference) < _SAME_SHAPE)
    tolerance = _TOL_SAME_COUNT if same_count else _TOL_OTHER_COUNT
    return bool(abs(log_std_ratio) > _SAME_SHAPE and abs(log_difference) < tolerance)


def _are_temperatures(one: ColumnStatistics, other: ColumnStatistics) -> bool:
    fahrenheit, celsius = (one, other) if one.std > other.std else (other, one)
    return bool(
        abs(fahrenheit.std / celsius.std / 1.8 - 1.0) < 0.03
        and abs(fahrenheit.mean - (1.8 * celsius.mean + 32.0)) < 0.5 * fahrenheit.std
    )


def _spellings(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """Levels that differ in case or spaces only, also within one site; a sentence for each pair of
    sites."""
    spelled: dict[str, dict[str, str]] = {}
    for site, s in statistics.items():
        for level in s.levels:
            spelled.setdefault(" ".join(level.lower().split()), {}).setdefault(level, site)
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for spellings in spelled.values():
        if len(spellings) > 1:
            (one, here), (two, there) = list(spellings.items())[:2]
            pairs.setdefault((here, there), []).append((one, two))
    for (here, there), levels in pairs.items():
        ones, twos = (
            join_names([f"'{level}'" for level in side]) for side in zip(*levels, strict=True)
        )
        yield Conflict(
            name,
            tuple(dict.fromkeys((here, there))),
            "spelling",
            f"Column '{name}' has {ones} at {here} and {twos} at {there}; spell levels one way.",
        )


def _codings(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """Sites that share no level with the first site, or have its codes shifted by a constant."""
    full = {site: s for site, s in statistics.items() if len(s.levels) > 1}
    here = next(iter(full), "")
    groups: dict[str, list[str]] = {}
    for there in list(full)[1:]:
        one, two = set(full[here].levels), set(full[there].levels)
        shifted = not (full[here].other or full[there].other) and _is_shifted(one, two)
        if one.isdisjoint(two) or shifted:
            groups.setdefault(_list_levels(full[there]), []).append(there)
    for levels, others in groups.items():
        where = "both" if len(others) == 1 else "all of them"
        yield Conflict(
            name,
            (here, *others),
            "coding",
            f"Column '{name}' has {_list_levels(full[here])} at {here} and {levels} at"
            f" {join_names(others)}; code it the same way at {where}.",
        )


def _is_shifted(one: set[str], two: set[str]) -> bool:
    if one == two or len(one) != len(two) or not all(is_code(v) for v in one | two):
        return False
    steps = {b - a for a, b in zip(sorted(map(float, one)), sorted(map(float, two)), strict=True)}
    return len(steps) == 1


def _list_levels(s: ColumnStatistics) -> str:
    return ", ".join(s.levels[:4]) + (", ..." if len(s.levels) > 4 else "")
