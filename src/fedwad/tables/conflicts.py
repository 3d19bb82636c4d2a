"""Conflicts between sites, or of a table with a schema from a file: in sentences.

They name the site and the column.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fedwad.tables.profiles import MAX_LEVELS, ColumnStatistics, has_many_levels
from fedwad.tables.schema_column import OTHER, SchemaColumn
from fedwad.tables.table import Table, is_code, level_name

if TYPE_CHECKING:
    from fedwad.tables.schema import Schema

#: What each site says about a column.
StatisticsBySite = Mapping[str, ColumnStatistics]

# Factors between two units of one quantity, whatever its name.
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
# Factors between two units of one quantity, by the names that columns of it have.
_QUANTITIES = (
    (re.compile(r"(?i)chol|hdl|ldl"), 38.67, "mg/dl", "mmol/l"),
    (re.compile(r"(?i)trigl|(^|[_\W])tg($|[_\W])"), 88.57, "mg/dl", "mmol/l"),
    (re.compile(r"(?i)gluco|glyc|(^|[_\W])(glu|fpg|fbs)($|[_\W])"), 18.016, "mg/dl", "mmol/l"),
    (re.compile(r"(?i)creat|kreat"), 88.42, "umol/l", "mg/dl"),
    (re.compile(r"(?i)bilirubin"), 17.10, "umol/l", "mg/dl"),
    (re.compile(r"(?i)uric|urate"), 59.48, "umol/l", "mg/dl"),
    (re.compile(r"(?i)calcium"), 4.008, "mg/dl", "mmol/l"),
    (re.compile(r"(?i)ha?emoglobin|(^|[_\W])(hb|hgb)($|[_\W])"), 1.6114, "g/dl", "mmol/l"),
    (re.compile(r"(?i)weight|gewicht|poids|(^|[_\W])(wt|bw)($|[_\W])"), 2.20462, "lb", "kg"),
    (re.compile(r"(?i)height|gr[öo]e?ss?e|taille|(^|[_\W])ht($|[_\W])"), 2.54, "cm", "inches"),
)
_TEMPERATURE = re.compile(r"(?i)temp|fever|fieber|celsius|fahrenheit")


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


def find_conflicts(
    name: str, statistics: StatisticsBySite, column: SchemaColumn, columns: int
) -> Iterator[Conflict]:
    """The conflicts about one of so many columns between the sites that have it as no label."""
    if not column.width:  # ignored, or the label
        return
    statistics = {site: s for site, s in statistics.items() if s.kind != "label"}
    yield from _missing(name, statistics)
    if column.kind == "number":
        sentinels = [*_sentinels(name, statistics)]
        yield from sentinels
        odd = {site for conflict in sentinels for site in conflict.sites}
        yield from (c for c in _constant(name, statistics, columns) if not odd & {*c.sites})
        yield from _different_units(name, [s for s in statistics.items() if s[0] not in odd])
    if column.kind == "category":
        yield from _constant(name, statistics, columns)
        sites = tuple(site for site, s in statistics.items() if has_many_levels(s))
        if sites:
            compared = len([level for level in column.levels if level != OTHER])
            what = f"the {compared} most frequent ones are compared, and the rest as '{OTHER}'"
            sentence = (
                f"Column '{name}' has more than {MAX_LEVELS} different values at"
                f" {join_names(sites)}; {what if compared else 'none is frequent enough to count'}."
            )
            yield Conflict(name, sites, "many levels", sentence)
        spelled = [*_spellings(name, statistics)]
        known = [conflict.sites for conflict in spelled]
        yield from spelled
        yield from (one for one in _codings(name, statistics) if one.sites not in known)


def _missing(
    name: str, statistics: StatisticsBySite, mostly: float = 0.9, rarely: float = 0.5
) -> Iterator[Conflict]:
    """A column without any value at some sites; and one that is missing in over 90% of the rows at
    some sites and in less than half at another."""
    empty = tuple(site for site, s in statistics.items() if s.count == 0)
    if empty:
        sentence = f"Column '{name}' has no value at {join_names(empty)}."
        yield Conflict(name, empty, "all missing", sentence)
    missing = {site: s.missing / (s.count + s.missing) for site, s in statistics.items()}
    sites = [site for site, fraction in missing.items() if mostly < fraction < 1.0]
    if sites and min(missing.values()) < rarely:
        listing = join_names([f"{missing[site]:.1%} of the rows of {site}" for site in sites])
        sentence = f"Column '{name}' is missing in {listing}."
        yield Conflict(name, tuple(sites), "mostly missing", sentence)


def _sentinels(
    name: str,
    statistics: StatisticsBySite,
    share: float = 0.05,
    least: int = 2,
    deviations: float = 2.0,
) -> Iterator[Conflict]:
    """Values such as 0 or 99 that such a share of a site has, in at least so many rows, and that
    others seldom have.

    A code for a missing value is one that no measurement has: 99 lies above all others, 0 or -9
    below them. So it is reported if it is over 2 standard deviations above or below the means of
    those other sites, and of the other values of its own site.
    """
    for site, s in statistics.items():
        for value, number in zip(s.sentinels, s.sentinel_counts, strict=True):
            without = {o: v for o, v in statistics.items() if v.count and value not in v.sentinels}
            others, rest = [(v.mean, v.std) for v in without.values()], s.count - number
            if rest:  # mean and standard deviation of the other values of the site
                mean = (s.count * s.mean - number * value) / rest
                squares = s.sum_of_squares - number * rest / s.count * (value - mean) ** 2
                others.append((mean, math.sqrt(max(squares, 0.0) / rest)))
            sign = 1.0 if value > 0 else -1.0
            far = [sign * (value - m) > deviations * std for m, std in others if math.isfinite(m)]
            if number >= max(least, share * s.count) and without and far and all(far):
                what = f"All {number}" if number == s.count else f"{number} of {s.count}"
                shown = level_name(value)
                sentence = (
                    f"{what} values of column '{name}' at {site} are {shown}, which is not frequent"
                    f" at {join_names([*without])}; if {shown} stands for a missing value there,"
                    f" say so (missing: {shlex.quote(f'{name}={shown}')})."
                )
                yield Conflict(name, (site,), "suspicious value", sentence)


def _constant(
    name: str, statistics: StatisticsBySite, columns: int, least: int = 10, chance: float = 1e-3
) -> Iterator[Conflict]:
    """A column with one value in `least` rows of some sites, where that is not chance.

    It is chance if rows that are dealt at random give a site no other value with a probability of
    at least `chance` over the number of columns.
    """
    constant: dict[str, list[str]] = {}
    for site, s in statistics.items():
        if s.count >= least and s.distinct == 1 and (s.levels or math.isfinite(s.mean)):
            value = s.levels[0] if s.levels else level_name(s.mean)
            constant.setdefault(value, []).append(site)
    for value, same in constant.items():
        equal = different = 0  # values of the other sites, as far as they are known
        for s in (s for site, s in statistics.items() if site not in same):
            known = dict(zip(map(level_name, s.sentinels), s.sentinel_counts, strict=True))
            number = (known | dict(zip(s.levels, s.level_counts, strict=True))).get(value, 0)
            equal, different = equal + number, different + s.count - number
        sites = [
            site
            for site in same
            if _log_all_equal(statistics[site].count, equal, different) < math.log(chance / columns)
        ]
        if sites and len(statistics) > 1:
            count = sum(statistics[site].count for site in sites)
            sentence = f"All {count} values of column '{name}' at {join_names(sites)} are {value}."
            yield Conflict(name, tuple(sites), "constant", sentence)


def _log_all_equal(rows: int, equal: int, different: int) -> float:
    """The logarithm of the probability that `rows` of all rows, drawn at random, are equal ones,
    where so many of the other rows are `equal` to them and so many `different`."""
    total = rows + equal + different
    log = math.lgamma
    return log(rows + equal + 1) - log(equal + 1) - log(total + 1) + log(total - rows + 1)


def _different_units(
    name: str, statistics: Iterable[tuple[str, ColumnStatistics]]
) -> Iterator[Conflict]:
    """Sites whose values seem to be in another unit than those of the site of median std, where a
    site counts with its rows: the std of a small site may be far from that of all others."""
    varying = {site: s for site, s in statistics if s.count > 1 and s.std > 0}
    if len(varying) < 2:
        return
    order = sorted(varying, key=lambda site: varying[site].std)
    rows = np.cumsum([varying[site].count for site in order])
    median_site = order[int(np.argmax(2 * rows >= rows[-1]))]
    median = varying[median_site]
    stds, means = ([getattr(s, field) for s in varying.values()] for field in ("std", "mean"))
    for site, s in varying.items():
        if site == median_site:
            continue
        if _is_passed(s.std, median.std, stds) and not (
            _is_far_from_zero(s, median) and not _is_passed(s.mean, median.mean, means)
        ):
            continue  # units leave a gap, and these spreads pass into each other
        larger, smaller = (site, median_site) if s.std > median.std else (median_site, site)
        pair = varying[larger], varying[smaller]
        units = _quantity_units(name, *pair)
        factor = None if units else _unit_factor(*pair)
        if units is not None:
            problem = (
                f"Values of column '{name}' seem to be in {units[0]} at {larger} and in {units[1]}"
                f" at {smaller}"
            )
        elif factor is not None:
            problem = (
                f"The standard deviation of column '{name}' is about {factor:.3g} times as large at"
                f" {larger} as at {smaller}"
            )
        else:
            continue
        sentence = f"{problem}; if their units differ, use one at both."
        yield Conflict(name, (site, median_site), "units", sentence)


def _is_far_from_zero(one: ColumnStatistics, other: ColumnStatistics) -> bool:
    """Whether both means are on one side of zero and say something about the unit."""
    nearest = min(abs(one.mean) / one.std, abs(other.mean) / other.std)
    return bool(nearest > 0.5 and one.mean * other.mean > 0)


def _is_passed(one: float, other: float, values: Sequence[float]) -> bool:
    """Whether a value is in the middle between two, in logarithms."""
    low, high = sorted(np.log(np.abs([one, other])))
    between = np.log(np.abs([value for value in values if value]))
    lowest, highest = 0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high
    return bool(np.any((between > lowest) & (between < highest)))


def _unit_factor(
    large: ColumnStatistics,
    small: ColumnStatistics,
    power: float = 1.35,
    unit: float = 1.03,
    least: int = 20,
) -> float | None:
    """The factor between two columns in different units, if that is what they seem to be.

    A ratio counts as a power of ten, or as a ratio of units, if it differs by less than these. Of
    means that are not near zero, and of at least `least` rows, a power of ten may differ by more:
    by the error of a ratio of so few rows, up to a quarter of the way to it from 1. Ratios of fewer
    rows are near one of the units by chance, and means near zero say nothing.
    """
    means = stds = np.log(large.std / small.std)
    near, sure = np.log(power), False
    if _is_far_from_zero(large, small):
        means = np.log(large.mean / small.mean)
        sure = min(large.count, small.count) >= least
        if sure:
            near += np.sqrt(1.0 / large.count + 1.0 / small.count)
            near = min(near, np.log(10.0) / 4.0)
    for factor in (10.0, 100.0, 1000.0, 1e4, 1e6):
        if max(abs(stds - np.log(factor)), abs(means - np.log(factor))) < near:
            return float(np.exp((stds + means) / 2.0))
    for factor in _UNIT_RATIOS if sure else ():
        if max(abs(stds - np.log(factor)), abs(means - np.log(factor))) < np.log(unit):
            return factor
    return None


def _quantity_units(
    name: str, large: ColumnStatistics, small: ColumnStatistics
) -> tuple[str, str] | None:
    """The units of a known quantity in which two sites seem to have it, the smaller unit first.

    A unit multiplies mean and standard deviation by one factor. So both ratios must be nearer to
    the factor than to 1, and nearer to each other than 1 is to the factor by half; and in one unit
    the sites would not overlap: each mean is outside the other's range, of two standard deviations
    of the narrower site. Temperatures have a rule of their own.
    """
    apart = abs(large.mean - small.mean) > 2.0 * min(large.std, small.std)
    positive = small.mean > 0 and large.mean > 0
    for pattern, factor, *units in _QUANTITIES if positive and apart else ():
        means, stds = np.log(large.mean / small.mean), np.log(large.std / small.std)
        half = np.log(factor) / 2.0
        near = max(abs(means - 2.0 * half), abs(stds - 2.0 * half), abs(means - stds)) < half
        if near and pattern.search(name):
            return units[0], units[1]
    return ("Fahrenheit", "Celsius") if _are_temperatures(name, large, small) else None


def _are_temperatures(
    name: str, fahrenheit: ColumnStatistics, celsius: ColumnStatistics, unit: float = 1.03
) -> bool:
    """Whether one site has Fahrenheit where the other has Celsius.

    The ratio of standard deviations is 1.8, or in a column named so nearer to 1.8 than to 1; the
    means differ by more than both sites vary; and the offset of 32 is larger than the standard
    deviation, without which the means would say nothing about it.
    """
    near = np.log(1.8) / 2.0 if _TEMPERATURE.search(name) else np.log(unit)
    return bool(
        abs(np.log(fahrenheit.std / celsius.std / 1.8)) < near
        and abs(fahrenheit.mean - (1.8 * celsius.mean + 32.0)) < 0.5 * fahrenheit.std
        and fahrenheit.mean - celsius.mean > 2.0 * fahrenheit.std
        and fahrenheit.std < 32.0
    )


def _spellings(name: str, statistics: StatisticsBySite) -> Iterator[Conflict]:
    """Levels that differ in case or spaces only, also within one site; and levels that differ by
    one letter inside a long word, such as femal and female, and that no site has both.

    There is one conflict for each pair of sites.
    """
    sites: dict[str, list[str]] = {}
    for site, s in statistics.items():
        for level in s.levels:
            sites.setdefault(level, []).append(site)
    words = {level: level.lower().split() for level in sites}
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for one, two in combinations(sites, 2):
        typo = not {*sites[one]} & {*sites[two]} and _is_typo(words[one], words[two])
        if typo or words[one] == words[two]:
            pairs.setdefault((sites[one][0], sites[two][0]), []).append((one, two))
    for (here, there), levels in pairs.items():
        if here == there:
            held = ", ".join(f"'{one}' and '{two}'" for one, two in levels) + f" at {here}"
        else:
            sides = ([f"'{level}'" for level in side] for side in zip(*levels, strict=True))
            ones, twos = map(join_names, sides)
            held = f"{ones} at {here} and {twos} at {there}"
        sentence = f"Column '{name}' has {held}; if they are the same, spell them one way."
        yield Conflict(name, tuple(dict.fromkeys((here, there))), "spelling", sentence)


def _is_typo(one: Sequence[str], two: Sequence[str], letters: int = 4) -> bool:
    """Whether one pair of words of at least so many letters differs, by one that is not the first.

    A first letter may change the meaning: typical and atypical.
    """
    pairs = [(a, b) for a, b in zip(one, two, strict=False) if a != b]
    if len(one) != len(two) or len(pairs) != 1:
        return False
    short, long = sorted(pairs[0], key=len)
    if len(short) < letters or not (short.isalpha() and long.isalpha()) or short[0] != long[0]:
        return False
    without = [(long[:k] + long[k + 1 :], short[:k] + short[k + 1 :]) for k in range(1, len(long))]
    return any(a in (short, b) for a, b in without)


#: Words that stand for one level in several languages.
_MEANINGS = {
    "female": "weiblich frau féminin feminin femme femenino mujer femminile donna vrouw vrouwelijk"
    " kvinna kvinne kobieta feminino mulher",
    "male": "männlich maennlich mann masculin homme masculino hombre maschile uomo man mannelijk"
    " mężczyzna homem",
    "yes": "ja oui sí si sì sim tak",
    "no": "nein non nee nej nei não nao nie",
    "unknown": "unbekannt inconnu desconocido sconosciuto onbekend okänd ukjent desconhecido",
    "single": "ledig célibataire soltero celibe ongehuwd",
    "married": "verheiratet marié casado sposato gehuwd gift",
}
_MEANING_OF = {w: word for word, others in _MEANINGS.items() for w in (word, *others.split())}


def _translations(one: Iterable[str], two: Iterable[str]) -> str:
    """'; 'weiblich' may be 'female'': a pair of levels that mean the same in two languages."""
    meanings = {_MEANING_OF[v.lower()]: v for v in one if v.lower() in _MEANING_OF}
    for level in two:
        same = meanings.get(_MEANING_OF.get(level.lower(), ""))
        if same is not None and same.lower() != level.lower():
            return f" ('{level}' may be '{same}' in another language)"
    return ""


def _codings(name: str, statistics: StatisticsBySite, least: int = 10) -> Iterator[Conflict]:
    """Sites that share no level with the first site, nor with one that shares some with it and so
    on, or have its codes shifted by a constant.

    Only sites with several levels, in at least so many rows, count; those whose first levels are
    the same are in one conflict.
    """
    with_levels = {s: own for s, own in statistics.items() if len(own.levels) > 1}
    with_levels = {s: own for s, own in with_levels.items() if sum(own.level_counts) >= least}
    here = next(iter(with_levels), "")
    sets = {site: {*map(str.lower, own.levels)} - {OTHER} for site, own in with_levels.items()}
    linked = set(sets.get(here, ()))
    while more := set().union(*(own for own in sets.values() if own & linked)) - linked:
        linked |= more
    groups: dict[str, list[str]] = {}
    for there in list(with_levels)[1:]:
        first, second = with_levels[here], with_levels[there]
        shifted = not (first.other or second.other) and _is_shifted(sets[here], sets[there])
        if linked.isdisjoint(sets[there]) or shifted:
            groups.setdefault(_list_levels(second), []).append(there)
    for levels, others in groups.items():
        where = "both" if len(others) == 1 else "all of them"
        translation = _translations(with_levels[here].levels, with_levels[others[0]].levels)
        sentence = (
            f"Column '{name}' has {_list_levels(with_levels[here])} at {here} and {levels} at"
            f" {join_names(others)}{translation}; code it the same way at {where}."
        )
        yield Conflict(name, (here, *others), "coding", sentence)


def _is_shifted(one: set[str], two: set[str]) -> bool:
    if one == two or len(one) != len(two) or not all(is_code(v) for v in one | two):
        return False
    pairs = zip(sorted(map(float, one)), sorted(map(float, two)), strict=True)
    return len({b - a for a, b in pairs}) == 1


def _list_levels(s: ColumnStatistics) -> str:
    return ", ".join(s.levels[:4]) + (", ..." if len(s.levels) > 4 else "")


def find_schema_conflicts(
    schema: Schema,
    table: Table,
    site: str,
    least: int = 10,
    share: float = 0.05,
    shift: float = 5.0,
    ratio: float = 10.0,
) -> Iterator[Conflict]:
    """The conflicts of a site's table with the schema, for whoever holds the table.

    There is one if `least` values, and such a share, have levels that the schema does not list; or
    if the mean of so many numbers is more than `shift` scales of the schema from its centre, or
    their spread more than `ratio` times as large or small.

    >>> import pyarrow as pa
    >>> from fedwad.tables import Schema, read_table
    >>> schema = Schema((SchemaColumn("weight", "number", centre=75.0, scale=12.0),))
    >>> pounds = read_table(pa.table({"weight": [150.0, 165, 180] * 9}))
    >>> [conflict.problem for conflict in find_schema_conflicts(schema, pounds, "oslo")]
    ['units']
    """
    for spec in schema.compared_columns:
        if spec.name not in table:
            continue
        column = table[spec.name].with_missing(spec.missing_values)
        if spec.kind == "category" and column.kind == "category" and OTHER in spec.levels:
            counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
            listed = [level in spec.levels for level in column.levels]
            unknown = [k for k in np.argsort(-counts, kind="stable") if counts[k] and not listed[k]]
            found, present = int(counts[unknown].sum()), int(counts.sum())
            if found >= max(least, share * present):
                names = join_names([f"'{column.levels[k]}'" for k in unknown[:4]])
                what = f"{found} of {present}" if found < present else f"All {present}"
                sentence = (
                    f"{what} values of column '{spec.name}' at {site} become '{OTHER}', because the"
                    f" schema does not list {names}{' and more' if len(unknown) > 4 else ''}."
                )
                yield Conflict(spec.name, (site,), "unknown levels", sentence)
        elif spec.kind in ("number", "date") and column.kind == spec.kind:
            values = column.values[np.isfinite(column.values)]
            if len(values) < least:
                continue
            mean, deviation = float(values.mean()), float(values.std())
            far = abs(mean - spec.centre) > shift * spec.scale
            narrow = 0.0 < deviation < spec.scale / ratio
            if far or narrow or deviation > ratio * spec.scale:
                measured = f"mean {mean:.4g}" if far else f"standard deviation {deviation:.4g}"
                sentence = (
                    f"Column '{spec.name}' at {site} has {measured} and the schema has centre"
                    f" {spec.centre:.4g} and scale {spec.scale:.4g}; is the unit the same?"
                )
                yield Conflict(spec.name, (site,), "units", sentence)
