"""Conflicts between sites, in sentences that name the site and the column."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedwad.tables._profile import ColumnStatistics
from fedwad.tables._schema_column import SchemaColumn
from fedwad.tables._table import is_code, level_name

__all__ = ["Conflict", "StatisticsBySite", "find_conflicts", "join_names"]

#: What each site says about a column.
StatisticsBySite = Mapping[str, ColumnStatistics]

_MIN_CONSTANT = 10  # number of equal values from which on a constant column is reported
# A column is mostly missing at a site if more than the first fraction of its values is missing, and
# this is reported if less than the second fraction is missing at another site.
_MOSTLY_MISSING, _RARELY_MISSING = 0.9, 0.5
_MIN_SENTINEL = 0.05  # fraction of a site's values from which on a sentinel is suspicious
_MIN_DEVIATIONS = 2.0  # of a suspicious value from the means of other sites, in their stds
_POWERS = (10.0, 100.0, 1000.0, 1e4, 1e6)
_UNIT_RATIOS = (
    2.20462,  # pounds and kilograms
    2.54,  # inches and centimetres
    3.28084,  # feet and metres
    7.0,  # days and weeks
    12.0,  # months and years
    18.016,  # glucose in mg/dl and mmol/l
    24.0,  # hours and days
    30.4375,  # days and months
    38.67,  # cholesterol in mg/dl and mmol/l
    60.0,  # minutes and hours
    88.42,  # creatinine in mg/dl and umol/l
    88.57,  # triglycerides in mg/dl and mmol/l
    365.25,  # days and years
)
# Differences of logarithms below which a ratio counts as a power of ten, or as a ratio of units.
_NEAR_POWER, _NEAR_UNIT = np.log(1.35), np.log(1.03)
# The ratio of means and that of standard deviations are one factor if they differ by less than the
# first; the factor itself is far from 1 beyond the second.
_SAME_FACTOR, _FAR_FROM_ONE = np.log(1.001), np.log(1.5)
# The same for a factor near 1. Looser at equal counts: the same rows, rounded after a change of
# units.
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
    conflicts = [*_all_missing(name, statistics), *_mostly_missing(name, statistics)]
    if column.kind == "number":
        sentinels = [*_sentinels(name, statistics)]
        conflicts += sentinels
        with_sentinel = {site for conflict in sentinels for site in conflict.sites}
        others = {site: s for site, s in statistics.items() if site not in with_sentinel}
        conflicts += _constant(name, others, len(statistics))
        conflicts += _different_units(name, others)
    if column.kind == "category":
        conflicts += _constant(name, statistics, len(statistics))
        spellings = [*_spellings(name, statistics)]
        conflicts += spellings or _codings(name, statistics)
    return conflicts


def _all_missing(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    for site, s in statistics.items():
        if s.count == 0:
            sentence = f"All {s.missing} values of column '{name}' at {site} are missing."
            yield Conflict(name, (site,), "all missing", sentence)


def _mostly_missing(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """A column missing in over 90% of the rows at some sites and in less than half at another."""
    missing = {site: s.missing / (s.count + s.missing) for site, s in statistics.items()}
    sites = [site for site, fraction in missing.items() if _MOSTLY_MISSING < fraction < 1.0]
    if sites and min(missing.values()) < _RARELY_MISSING:
        listing = join_names([f"{missing[site]:.1%} of the rows of {site}" for site in sites])
        sentence = f"Column '{name}' is missing in {listing}."
        yield Conflict(name, tuple(sites), "mostly missing", sentence)


def _sentinels(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """Values such as 0 or 99 that are frequent at a site and not at others.

    They are reported if they are over 2 standard deviations from the means of those others.
    """
    for site, s in statistics.items():
        for value, number in zip(s.sentinels, s.sentinel_counts, strict=True):
            without = {o: v for o, v in statistics.items() if v.count and value not in v.sentinels}
            if number >= _MIN_SENTINEL * s.count and _is_outlier(value, without.values()):
                what = f"All {number}" if number == s.count else f"{number} of {s.count}"
                shown = level_name(value)
                yield Conflict(
                    name,
                    (site,),
                    "suspicious value",
                    f"{what} values of column '{name}' at {site} are {shown}, which is not frequent"
                    f" at {join_names([*without])}; if {shown} stands for a missing value there,"
                    f" say so (missing: {shlex.quote(f'{name}={shown}')}).",
                )


def _is_outlier(value: float, others: Iterable[ColumnStatistics]) -> bool:
    """Whether a value is far from the means of all sites that sent one."""
    with_mean = [s for s in others if np.isfinite(s.mean)]
    far = (abs(value - s.mean) > _MIN_DEVIATIONS * s.std for s in with_mean)
    return bool(with_mean) and all(far)


def _constant(name: str, statistics: StatisticsBySite, site_count: int) -> Iterator[Conflict]:
    """A column that has one value at some sites; no conflict if there is only one site at all."""
    if site_count < 2:
        return
    constant: dict[str, list[str]] = {}
    for site, s in statistics.items():
        if s.count >= _MIN_CONSTANT and s.distinct == 1 and (s.levels or np.isfinite(s.mean)):
            value = s.levels[0] if s.levels else level_name(s.mean)
            constant.setdefault(value, []).append(site)
    for value, sites in constant.items():
        count = sum(statistics[site].count for site in sites)
        sentence = f"All {count} values of column '{name}' at {join_names(sites)} are {value}."
        yield Conflict(name, tuple(sites), "constant", sentence)


def _different_units(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """Sites whose values seem to be in another unit than those of the site of median std."""
    varying = {site: s for site, s in statistics.items() if s.count > 1 and s.std > 0}
    if len(varying) < 2:
        return
    order = sorted(varying, key=lambda site: varying[site].std)
    median_site = order[(len(order) - 1) // 2]
    median = varying[median_site]
    for site, s in varying.items():
        if site == median_site:
            continue
        larger, smaller = (site, median_site) if s.std > median.std else (median_site, site)
        factor = _unit_factor(s, median)
        if factor is not None:
            ratio = max(factor, 1 / factor)
            problem = f"are about {ratio:.3g} times as large at {larger} as at {smaller}"
        elif _are_temperatures(s, median):
            problem = f"seem to be in Fahrenheit at {larger} and in Celsius at {smaller}"
        else:
            continue
        sentence = f"Values of column '{name}' {problem}; use the same unit at both."
        yield Conflict(name, (site, median_site), "units", sentence)


def _unit_factor(one: ColumnStatistics, other: ColumnStatistics) -> float | None:
    """The factor between two columns in different units, if that is what they seem to be."""
    log_std_ratio = np.log(one.std / other.std)
    log_mean_ratio = None
    far_from_zero = min(abs(one.mean) / one.std, abs(other.mean) / other.std) > 0.5
    if far_from_zero and one.mean * other.mean > 0:
        log_mean_ratio = np.log(one.mean / other.mean)
    if log_mean_ratio is not None and _is_rescaled(
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


def _is_rescaled(log_std_ratio: float, log_difference: float, same_count: bool) -> bool:
    """Whether means and standard deviations have one ratio, as if only the unit were different.

    `log_difference` is the difference between the logarithms of the two ratios. It is a few percent
    between independent sites of some hundred rows, so a ratio near 1 needs a closer match.
    """
    if abs(log_std_ratio) > _FAR_FROM_ONE:
        return bool(abs(log_difference) < _SAME_FACTOR)
    tolerance = _TOL_SAME_COUNT if same_count else _TOL_OTHER_COUNT
    return bool(abs(log_std_ratio) > _SAME_FACTOR and abs(log_difference) < tolerance)


def _are_temperatures(one: ColumnStatistics, other: ColumnStatistics) -> bool:
    fahrenheit, celsius = (one, other) if one.std > other.std else (other, one)
    return bool(
        abs(fahrenheit.std / celsius.std / 1.8 - 1.0) < 0.03
        and abs(fahrenheit.mean - (1.8 * celsius.mean + 32.0)) < 0.5 * fahrenheit.std
    )


def _spellings(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """Levels that differ in case or spaces only, also within one site.

    There is one conflict for each pair of sites.
    """
    first_site: dict[str, dict[str, str]] = {}  # of each spelling of each level
    for site, s in statistics.items():
        for level in s.levels:
            first_site.setdefault(" ".join(level.lower().split()), {}).setdefault(level, site)
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for spellings in first_site.values():
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
    """Sites that share no level with the first site, or have its codes shifted by a constant.

    Only sites with several levels count; those whose first levels are the same are in one conflict.
    """
    with_levels = {site: s for site, s in statistics.items() if len(s.levels) > 1}
    here = next(iter(with_levels), "")
    groups: dict[str, list[str]] = {}
    for there in list(with_levels)[1:]:
        first, second = with_levels[here], with_levels[there]
        one, two = set(first.levels), set(second.levels)
        shifted = not (first.other or second.other) and _is_shifted(one, two)
        if one.isdisjoint(two) or shifted:
            groups.setdefault(_list_levels(second), []).append(there)
    for levels, others in groups.items():
        where = "both" if len(others) == 1 else "all of them"
        yield Conflict(
            name,
            (here, *others),
            "coding",
            f"Column '{name}' has {_list_levels(with_levels[here])} at {here} and {levels} at"
            f" {join_names(others)}; code it the same way at {where}.",
        )


def _is_shifted(one: set[str], two: set[str]) -> bool:
    if one == two or len(one) != len(two) or not all(is_code(v) for v in one | two):
        return False
    steps = {b - a for a, b in zip(sorted(map(float, one)), sorted(map(float, two)), strict=True)}
    return len(steps) == 1


def _list_levels(s: ColumnStatistics) -> str:
    return ", ".join(s.levels[:4]) + (", ..." if len(s.levels) > 4 else "")
