"""Table 1 of a federation: what each column is like at each site, and which columns differ.

Each site publishes its columns in one message (`fedwad.tables.profile`): counts, moments, expected
order statistics and counts of levels, none over fewer than `min_cell_size` present values. Which
columns differ is decided by the permutation test over all sites and by nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_flag, check_integer
from fedwad._files import SavedResult, to_plain
from fedwad._html import data_frame, html_rows
from fedwad._words import pluralize
from fedwad.compare.answers import comparable, verdict, with_empty
from fedwad.compare.evidence import Moments, build_columns, column_index
from fedwad.compare.explanation import percent, smd, value_in_words
from fedwad.compare.sentences import (
    ALPHA,
    join,
    join_columns,
    pvalue_in_words,
    takes,
    units_in_words,
)
from fedwad.compare.summaries import summary_request
from fedwad.errors import InputError
from fedwad.federation import (
    ColumnsReply,
    ColumnsRequest,
    MeteredFederation,
    SummaryReply,
    Traffic,
    as_federation,
    choose_sites,
)
from fedwad.statistics.blocking import SMALLEST
from fedwad.statistics.testing import (
    PermutationTest,
    have_same_functions,
    permutation_test,
    rows_needed,
)
from fedwad.tables import ColumnStatistics, Profile, Schema, SchemaColumn
from fedwad.tables.columns import is_number
from fedwad.tables.schema_column import OTHER
from fedwad.transport import Floats

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


#: What tables have in place of a number that a site does not publish.
WITHHELD = "withheld"
ABSENT = "no such column"
#: Before order statistics that are expected ones of small groups of rows.
ABOUT = "\N{ALMOST EQUAL TO}"
ABOUT_IN_WORDS = f"{ABOUT} of small groups of rows on average, so a little nearer to the middle"
_QUARTILES = (0.25, 0.5, 0.75)
_ROUNDING = 1e-12  # in standard deviations; a value so near to 0 is 0
_TRUTH = {"0": "false", "1": "true"}  # codes of a column that is true or false at another site


@dataclass(frozen=True)
class SiteColumn:
    """One column at one site.

    Attributes
    ----------
    count, missing : int or None
        Rows with and without a value; None where the site withholds them.
    mean, std : float
        Of the present numbers; the standard deviation has the divisor n - 1. Dates are in days
        since 1970. They are nan for levels, and where the site withholds them.
    order : tuple of float
        The expected order statistics of m = len(order) draws of the present values, in increasing
        order; empty where the site withholds them.
    levels : mapping of str to int
        Number of rows of each level that the site lists.
    other : int
        Number of rows with a level that it does not list.
    exact : tuple of float
        The quartiles of the present values, where the site lists how often each value occurs.
    """

    _computed: ClassVar[tuple[str, ...]] = ("quartiles",)

    count: int | None
    missing: int | None
    mean: float = math.nan
    std: float = math.nan
    order: tuple[float, ...] = ()
    levels: Mapping[str, int] = field(default_factory=dict)
    other: int = 0
    exact: tuple[float, ...] = ()

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The quartiles, by interpolation between the expected order statistics; nan if unknown.

        They are exact where the site lists how often each value occurs. Otherwise the k-th of m
        order statistics stands for the quantile at (k - 1/2) / m. It is the expectation of the k-th
        of m values drawn at random, so quartiles lie a little nearer to the middle than those of
        all values, by less the larger m is, and not on the values of a column that has few.
        """
        if self.exact:
            first, second, third = self.exact
            return first, second, third
        m = len(self.order)
        if m < 2:  # the mean alone has no quartiles
            return math.nan, math.nan, math.nan
        low, middle, high = np.interp(_QUARTILES, (np.arange(m) + 0.5) / m, self.order).tolist()
        return low, middle, high

    @property
    def total(self) -> int | None:
        """Rows; None where the site withholds them."""
        return None if self.count is None or self.missing is None else self.count + self.missing

    def count_of(self, level: str) -> int | None:
        """Rows with this level; None if it may be among those that the site does not list."""
        if level in self.levels:
            return self.levels[level]
        return 0 if self.levels and not self.other else None

    def histogram(self, edges: Floats) -> Floats:
        """Fractions of the values between these edges, which all lie within the outer ones.

        Each of the m order statistics stands for 1 / m of the values, spread evenly between the
        middles to its neighbours.
        """
        limits = spread(self.order)
        below = np.interp(edges, limits, np.linspace(0, 1, len(limits)))
        below[0] = 0.0
        return np.diff(below)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, None for unknown ones."""
        own: dict[str, Any] = to_plain(vars(self))
        return own | {"quartiles": to_plain(self.quartiles)}


def spread(order: Sequence[float]) -> Floats:
    """Limits of the m intervals over which m order statistics are spread, (m + 1,)."""
    values = np.array(order, dtype=np.float64)
    if len(values) < 2:
        return np.repeat(values, 2)
    middles = (values[1:] + values[:-1]) / 2
    first, last = 2 * values[0] - middles[0], 2 * values[-1] - middles[-1]
    return np.concatenate([[first], middles, [last]])


@dataclass(frozen=True, eq=False)
class Bars:
    """A small picture of a column: labels of bars, and their heights at each site.

    Heights are fractions of the present values, None for a site that withholds them. They are of
    values in bins, of which the first and the last have their outer ends as labels, or of levels.
    If a site does not list all of its levels, the last bar is "other".
    """

    labels: tuple[str, ...]
    fractions: tuple[Floats | None, ...]


@dataclass(frozen=True, eq=False)
class TableColumn:
    """One column of a federation; `column[k]` is what it is like at site k.

    Attributes
    ----------
    name, kind : str
        The kind is "number", "category", "boolean", "date", "identifier", "label", "empty" or
        "unusable".
    reason : str
        Why the column was not compared; empty if it was.
    sites : tuple of N SiteColumn or None
        The column at each site; None if a site has no such column.
    pvalue : float
        By the test over all sites, adjusted for the number of columns (max-T); nan if it was not
        tested.
    """

    _computed: ClassVar[tuple[str, ...]] = ("smd", "missing_smd")

    name: str
    kind: str
    reason: str
    sites: tuple[SiteColumn | None, ...]
    pvalue: float = math.nan

    def __getitem__(self, site: int) -> SiteColumn | None:
        return self.sites[site]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, None for unknown numbers."""
        numbers = {name: getattr(self, name) for name in ("pvalue", "smd", "missing_smd")}
        known = {name: x if math.isfinite(x) else None for name, x in numbers.items()}
        own = {"name": self.name, "kind": self.kind, "reason": self.reason}
        return own | known | {"sites": to_plain(self.sites)}

    @property
    def smd(self) -> float:
        """The largest standardised mean difference over pairs of sites, see `ColumnsResult.smd`."""
        # As few values as no block of the test has say nothing about a site.
        found = [one for one in self.sites if one is not None and (one.count or 0) >= SMALLEST]
        if self.kind in ("number", "date"):
            moments = [{"mean": one.mean, "std": one.std} for one in found if one.std == one.std]
            values = [smd("number", a, b) for a, b in combinations(moments, 2)]
        else:
            values = [_smd_of_levels(a, b) for a, b in combinations(found, 2)]
        return max((value for value in values if not math.isnan(value)), default=math.nan)

    @property
    def missing(self) -> list[float]:
        """The fraction of missing values at each site that publishes it."""
        found = [one for one in self.sites if one is not None]
        return [(one.missing or 0) / total for one in found if (total := one.total)]

    @property
    def missing_smd(self) -> float:
        """The largest standardised mean difference of whether a value is missing."""
        pairs = combinations([{"mean": fraction} for fraction in self.missing], 2)
        return max((smd("boolean", a, b) for a, b in pairs), default=math.nan)

    @property
    def levels(self) -> list[str]:
        """Levels that some site lists, in the order of the first site that does."""
        return list(dict.fromkeys(level for one in self.sites if one for level in one.levels))

    def bars(self, bins: int = 16) -> Bars | None:
        """The column as bars, the same ones at all sites; None if no site publishes it.

        There are half as many `bins` as the most order statistics that a site sends.
        """
        if self.kind in ("number", "date"):
            known = [spread(one.order) for one in self.sites if one is not None and one.order]
            if not known:
                return None
            low, high = min(one[0] for one in known), max(one[-1] for one in known)
            edges = np.linspace(low, high if high > low else low + 1.0, bins + 1)
            outer = np.r_[edges[0], (edges[2:-1] + edges[1:-2]) / 2, edges[-1]]
            labels = tuple(value_in_words(float(x), self.kind) for x in outer)
            fractions = [
                one.histogram(edges) if one is not None and one.order else None
                for one in self.sites
            ]
            return Bars(labels, tuple(fractions))
        levels = self.levels
        if not levels:
            return None
        rest = ["other"] if any(one is not None and one.other for one in self.sites) else []
        heights: list[Floats | None] = []
        for one in self.sites:
            if one is None or not one.count or not one.levels:
                heights.append(None)
                continue
            counts = [one.levels.get(level, 0) for level in levels] + [one.other for _ in rest]
            heights.append(np.array(counts) / one.count)
        return Bars((*levels, *rest), tuple(heights))

    def texts(self, min_cell_size: Sequence[int]) -> list[tuple[str, tuple[str, ...]]]:
        """What the table says about it: names of statistics, and a text for each site."""
        kind, found = self.kind, self.sites
        rows: list[tuple[str, tuple[str, ...]]] = []

        def add(statistic: str, text: Callable[[SiteColumn, int], str]) -> None:
            pairs = zip(found, min_cell_size, strict=True)
            texts = [ABSENT if one is None else text(one, least) for one, least in pairs]
            rows.append((statistic, tuple(texts)))

        if kind == "label":
            add("label", lambda *_: "not sent")
            return rows
        if kind in ("number", "date"):
            add("mean (SD)", lambda one, _: _mean_in_words(one, kind))
            exact = all(one.exact for one in found if one is not None and one.order)
            median = "median [Q1, Q3]" if exact else f"{ABOUT} median [Q1, Q3]"
            add(median, lambda one, _: _quartiles_in_words(one, kind))
        for level in self.levels:
            add(level, partial(_level_in_words, level))
        if any(one is not None and one.other for one in found):
            add(
                "other levels",
                lambda one, least: _share(None if 0 < one.other < least else one.other, one.count),
            )
        if not rows or any(one is not None and one.missing != 0 for one in found):
            add("missing", lambda one, _: _share(one.missing, one.total))
        return rows


@dataclass(frozen=True)
class TableRow:
    """One row of the printed table: a column, what of it, and a text for each site."""

    column: str
    statistic: str
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ColumnsResult(SavedResult):
    """Table 1 of a federation.

    Attributes
    ----------
    sites : tuple of str
    rows : tuple of int
        Rows of each site.
    columns : tuple of K TableColumn
        Each column at all sites: `columns[k][i]` is column k at site i.
    test : PermutationTest or None
        The test over all sites; None if it did not run.
    tested : tuple of str
        The sites that took part in the test.
    enough : int
        About how many rows at each site the test would need; 0 if there are enough.
    min_cell_size : tuple of int
        Fewest present values that a number of each site is about.
    notes : tuple of str
        What could not be compared.
    failed : mapping
        Sites that did not answer, with the reason.
    seed : int
    traffic : Traffic
        Bytes `up` and `down`, and the number of replies, those of an agreement on a schema
        included.
    """

    _format: ClassVar[str] = "fedwad columns 1"
    _noun: ClassVar[str] = "columns"
    _computed: ClassVar[tuple[str, ...]] = ("differs", "sentence")

    sites: tuple[str, ...]
    rows: tuple[int, ...]
    columns: tuple[TableColumn, ...]
    min_cell_size: tuple[int, ...]
    traffic: Traffic
    seed: int = 0
    test: PermutationTest | None = None
    tested: tuple[str, ...] = ()
    enough: int = 0
    notes: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(one.name for one in self.columns)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """What the columns are."""
        return tuple(one.kind for one in self.columns)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why columns were not compared; empty for those that were."""
        return tuple(one.reason for one in self.columns)

    @cached_property
    def pvalue(self) -> Floats:
        """P-value of each column, (K,); nan where it was not tested."""
        return np.array([one.pvalue for one in self.columns])

    def __repr__(self) -> str:
        return (
            f"<columns: {pluralize(len(self.names), 'column')} of"
            f" {pluralize(len(self.sites), 'site')}>"
        )

    def __getitem__(self, name: str) -> dict[str, SiteColumn | None]:
        """The column of this name at each site, by the name of the site."""
        if name not in self.names:
            raise InputError(
                f"There is no column '{name}'; the columns are {', '.join(self.names)}.",
                "unknown-column",
            )
        return dict(zip(self.sites, self.columns[self.names.index(name)].sites, strict=True))

    @cached_property
    def smd(self) -> Floats:
        """Standardised mean difference of each column, the largest over pairs of sites, (K,).

        For numbers it is |m - m'| / sqrt((s^2 + s'^2) / 2), for levels that of Yang and Dalton
        (2012), all of present values; sites with fewer than ten do not count. Levels that one site
        of a pair does not list count as one, which can only make it smaller. It is nan if fewer
        than two sites publish the column, and infinite if sites that differ have no variance.
        """
        return np.array([one.smd for one in self.columns])

    @cached_property
    def missing_smd(self) -> Floats:
        """The same of whether a value is missing, (K,)."""
        return np.array([one.missing_smd for one in self.columns])

    @property
    def differs(self) -> bool | None:
        """Whether the tested sites differ, by the test over all of them at 5%; None if unknown."""
        return None if self.test is None else verdict(self.test.pvalue, self.test.smallest)

    @property
    def order(self) -> tuple[int, ...]:
        """Columns, the smallest p-value first, then the largest standardised mean difference."""
        pvalue = np.nan_to_num(self.pvalue, nan=2.0)
        return tuple(np.lexsort((-np.nan_to_num(self.smd, nan=-1.0), pvalue)).tolist())

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of the columns that differ by themselves; empty unless the sites differ."""
        return tuple(one.name for one in self.cause_columns)

    @property
    def cause_columns(self) -> tuple[TableColumn, ...]:
        """The columns that differ by themselves, the smallest p-value first."""
        ordered = [self.columns[k] for k in self.order if self.differs]
        return tuple(one for one in ordered if one.pvalue <= ALPHA)

    @property
    def sentence(self) -> str:
        """What may be said, in the words that the command line and the page print."""
        return " ".join([_answer(self), *self.notes])

    def table(self) -> list[TableRow]:
        """The rows of the printed table, column by column, in the order of the sites' tables."""
        rows = [TableRow("rows", "n", tuple(f"{count:,}" for count in self.rows))]
        for one in self.columns:
            rows += [TableRow(one.name, *texts) for texts in one.texts(self.min_cell_size)]
        return rows

    def to_frame(self) -> pd.DataFrame:
        """Return Table 1 as a pandas DataFrame of texts: one row for each column and level.

        Its index has the column and what of it; there is a column for each site, and SMD and
        p-value stand in the first row of each column. Numbers are in `columns`, and in `to_dict`.
        """
        frame = data_frame(self._records(), columns=["column", "statistic", *self._titles])
        return frame.set_index(["column", "statistic"])

    @property
    def _titles(self) -> tuple[str, ...]:
        return (*self.sites, "SMD", "p-value")

    def _records(self) -> list[list[str]]:
        """The rows of the table, with SMD and p-value in the first row of each column."""
        left = {
            name: (value_in_words(value), value_in_words(pvalue))
            for name, value, pvalue in zip(self.names, self.smd, self.pvalue, strict=True)
        }
        return [
            [row.column, row.statistic, *row.texts, *left.pop(row.column, ("", ""))]
            for row in self.table()
        ]

    def plot(self, path: Any = None) -> Figure:
        """Draw a small histogram, or bars of levels, for each column and site.

        Parameters
        ----------
        path : a .png, .svg or .pdf file to write, optional
        """
        from fedwad.compare.plots import draw_columns

        return draw_columns(self, path)

    def _repr_html_(self) -> str:
        rows, before = [], ""
        for column, *texts in self._records():
            rows.append(("", ["" if column == before else column, *texts]))
            before = column
        return html_rows(self.sentence, ("column", "", *self._titles), rows)

    def _content(self) -> dict[str, Any]:
        return super()._content() | {"differs": self.differs, "sentence": self.sentence}

    def _check(self) -> None:
        columns = [len(one.sites) for one in self.columns]
        if {len(self.rows), len(self.min_cell_size), *columns} != {len(self.sites)}:
            raise ValueError("not one entry for each site")
        self._repr_html_()  # it raises if a field has a wrong type


def columns(
    fed: Any, sites: Sequence[str] | None = None, seed: int = 0, *, test: bool = True
) -> ColumnsResult:
    """Table 1 of a federation: each column at each site, and which columns differ.

    One message from each site says how many rows it has, and of each column the number of missing
    values, mean, standard deviation, quartiles, or counts of levels. Nothing is about fewer present
    values than the site's `min_cell_size`; such entries are "withheld". Quartiles come from
    expected order statistics, unless a site lists all values: see `SiteColumn.quartiles`. With a
    second message, which is the one of `fedwad.matrix`, the sites are tested.

    Parameters
    ----------
    fed : a federation, or a mapping from names to data, which become local sites
    sites : names of the sites; all when left out
    seed : seed of the test's random permutations
    test : False to ask for nothing but columns; no p-value is known then

    Returns
    -------
    ColumnsResult
        `sentence`, `causes`, `pvalue`, `smd`, `columns`; `.to_frame()`, `.plot()`, `.save`.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(2, 300, 3))
    >>> Y[:, 1] += 1
    >>> t = fedwad.columns({"paris": X, "oslo": Y})
    >>> t.causes, t["column 2"]["oslo"].count
    (('column 2',), 300)
    """
    seed, test = check_integer(seed, "seed", 0), check_flag(test, "test")
    federation = as_federation(fed)
    names = choose_sites(federation, sites, "Table 1")
    metered = MeteredFederation(federation)
    replies = metered.ask(dict.fromkeys(names, ColumnsRequest()), ColumnsReply, allow_failures=True)
    if metered.schema is None:
        widths = {name: len(reply.profile.columns) for name, reply in replies.items()}
        replies = metered.keep_most_frequent_dimension(replies, widths)
    profiles = {name: reply.profile for name, reply in replies.items()}
    result = ColumnsResult(
        sites=tuple(replies),
        rows=tuple(profile.rows for profile in profiles.values()),
        columns=_read_profiles(metered, profiles),
        min_cell_size=tuple(profile.min_cell_size for profile in profiles.values()),
        traffic=Traffic(),
        seed=seed,
    )
    if test and len(replies) > 1:
        with single_threaded_blas():
            result = _with_test(result, metered, replies)
    return replace(result, traffic=metered.traffic, failed=metered.failed)


def _with_test(
    result: ColumnsResult, metered: MeteredFederation, known: Mapping[str, ColumnsReply]
) -> ColumnsResult:
    """Ask for the summaries that a matrix asks for, and test all sites by their blocks."""
    names = result.sites
    request = summary_request(metered, names, known=known)
    failed = dict(metered.failed)
    replies = metered.ask(
        dict.fromkeys(names, request), SummaryReply, allow_failures=True, at_least=0
    )
    refused, metered.failed = metered.failed, failed  # these sites have sent their columns
    sent, ordered = [one.blocks for one in replies.values()], list(replies)
    blocks = {ordered[k]: one for k in comparable(sent) if (one := sent[k]) is not None}
    own = list(blocks.values())
    silent = (
        "it sent no block means; its policy withholds them, rows or units are too few, or weighted."
    )
    sizes = {name: one.summary.count for name, one in replies.items()}
    absent = [name for name in names if name not in blocks]
    few = [name for name in absent if sizes.get(name, SMALLEST) < SMALLEST]
    notes = []
    if few:
        which, verb = ("Site", "has") if len(few) == 1 else ("Sites", "have")
        notes.append(
            f"{which} {join([*map(_quote, few)])} {verb} too few rows for the test (fewer than"
            f" {SMALLEST})."
        )
    notes += [
        f"{_quote(name)} took no part in the test: {refused.get(name, silent)}"
        for name in absent
        if name not in few
    ]
    result = replace(result, notes=tuple(notes))
    if len(own) < 2 or not have_same_functions(own):
        features = replies[ordered[0]].summary.dimension if replies else 0
        every = with_empty(sent, list(sizes.values()), features)
        own = [one for one in every if one is not None]
        if len(own) == len(names) and have_same_functions(own):
            return replace(result, tested=names, enough=rows_needed(own))
        return result
    tested = tuple(name for name in names if name in blocks)
    units = [order.count for name in tested if (order := replies[name].order) is not None]
    notes += units_in_words([sizes[name] for name in tested], units)
    encoded = build_columns(own[0].features, metered.features, metered.schema)
    try:
        test = permutation_test(own, column_index(encoded).tolist(), seed=result.seed)
    except InputError:  # too few blocks of one size
        test = None
    result = replace(result, tested=tested, notes=tuple(notes), test=test)
    if test is None or result.differs is None:
        return replace(result, enough=rows_needed(own))
    titles = _titles(metered, next(iter(known.values())).profile)
    named = titles if metered.schema is None else [column.name for column in encoded]
    pvalues = dict(zip(named, test.columns.tolist(), strict=True))
    columns = [replace(one, pvalue=pvalues.get(one.name, math.nan)) for one in result.columns]
    return replace(result, columns=tuple(columns))


def _quote(name: str) -> str:
    """A site's name, in quotation marks where it could be read as a number."""
    return f"'{name}'" if is_number(name) else name


def _titles(metered: MeteredFederation, profile: Profile) -> list[str]:
    """Names of columns without a schema: "column 1", ... if the data have none."""
    numbered = profile.names == tuple(map(str, range(len(profile.columns))))
    if metered.features is None and numbered:
        return [f"column {k + 1}" for k in range(len(profile.columns))]
    return list(profile.names)


def _read_profiles(
    metered: MeteredFederation, profiles: Mapping[str, Profile]
) -> tuple[TableColumn, ...]:
    """The columns of all sites, side by side, by their names.

    A site that holds a table publishes it as it is. One whose data are encoded publishes the
    features, from which the schema gives the columns.
    """
    schema = metered.schema
    tables: dict[str, Mapping[str, ColumnStatistics]] = {}
    decoded: dict[str, Mapping[str, SiteColumn]] = {}
    for site, profile in profiles.items():
        if schema is None:
            tables[site] = dict(zip(_titles(metered, profile), profile.columns, strict=True))
        elif metered.schema_of(site) is None and profile.names == schema.feature_names:
            decoded[site] = _decode(schema, profile)
        else:
            tables[site] = profile.by_name()
    of_sites = [tables.get(site) or decoded[site] for site in profiles]
    found = []
    for name in dict.fromkeys(name for own in of_sites for name in own):
        entry = schema[name] if schema and name in schema else None
        reason = ""
        if entry is not None and not entry.width:
            reason = entry.reason or "not compared"
        kind = _kind(entry, [own[name] for own in tables.values() if name in own])
        cells = [
            _site_column(one, kind, entry) if isinstance(one, ColumnStatistics) else one
            for one in (own.get(name) for own in of_sites)
        ]
        found.append(TableColumn(name, kind, reason, tuple(cells)))
    return tuple(found)


def _kind(entry: SchemaColumn | None, found: Sequence[ColumnStatistics]) -> str:
    """What a column is: as the schema says, or as most sites read it."""
    if entry is not None and entry.kind != "ignored":
        return entry.kind
    if any(s.identifier for s in found):
        return "identifier"
    kinds = [s.kind for s in found if s.kind != "empty"] or ["empty"]
    return max(dict.fromkeys(kinds), key=kinds.count)


def _site_column(s: ColumnStatistics, kind: str, entry: SchemaColumn | None) -> SiteColumn:
    """A column as its site published it; values that a schema calls missing do not count."""
    if kind == "label" or s.kind == "label":
        return SiteColumn(None, None)
    levels = dict(zip(s.levels, s.level_counts, strict=True))
    gaps = () if entry is None else entry.missing_values
    if kind in ("number", "date") and s.moments:
        missing = {float(gap) for gap in gaps if is_number(gap)}
        counts = zip(s.sentinels, s.sentinel_counts, strict=True)
        found = _numbers(s, [(value, rows) for value, rows in counts if value in missing])
        if s.kind == "number" and s.levels and not s.other and found.count == s.count:
            values = np.repeat([float(level) for level in s.levels], s.level_counts)
            return replace(found, exact=tuple(np.quantile(values, _QUARTILES).tolist()))
        return found
    if kind in ("category", "boolean"):
        if kind == "boolean":
            levels = {_TRUTH.get(level, level): count for level, count in levels.items()}
        absent = sum(levels.pop(gap, 0) for gap in gaps)
        return SiteColumn(s.count - absent, s.missing + absent, levels=levels, other=s.other)
    return SiteColumn(s.count, s.missing)


def _numbers(s: ColumnStatistics, absent: Sequence[tuple[float, int]]) -> SiteColumn:
    """Numbers without some values, each given with its number of rows."""
    count, mean, squares, order = s.count, s.mean, s.sum_of_squares, s.order
    for value, rows in absent:
        rest = count - rows
        if rest < 1:
            return SiteColumn(0, s.count + s.missing)
        without = mean + (mean - value) * rows / rest
        squares -= rows * (value - mean) * (value - without)
        count, mean, order = rest, without, ()
    std = math.sqrt(max(squares, 0.0) / (count - 1)) if count > 1 else math.nan
    return SiteColumn(count, s.missing + s.count - count, mean, std, order)


def _decode(schema: Schema, profile: Profile) -> dict[str, SiteColumn]:
    """The columns of data that are encoded, from what the site publishes about the features."""
    features = profile.columns
    stds = np.array([math.sqrt(s.sum_of_squares / profile.rows) for s in features])
    moments = Moments(profile.rows, np.array([s.mean for s in features]), stds)
    found = {}
    for column in build_columns(schema.width, schema=schema):
        values = column.describe(moments)  # nan where the site withholds a feature
        fraction = values.pop("missing", 0.0)
        if math.isnan(fraction):
            found[column.name] = SiteColumn(None, None)
            continue
        missing = round(fraction * profile.rows)
        count = profile.rows - missing
        one = SiteColumn(count, missing)
        if column.kind == "category" or (column.kind == "boolean" and count):
            if column.kind == "boolean":
                values = {"false": 1 - values["mean"], "true": values["mean"]}
            known = {x: round(part * count) for x, part in values.items() if not math.isnan(part)}
            levels = {level: n for level, n in known.items() if n and level != OTHER}
            other = count - sum(levels.values()) if column.kind == "category" else 0
            one = replace(one, levels=levels, other=other)
        elif column.entry is not None and column.kind != "boolean" and count:
            order = features[column.feature_slice.start].order if not missing else ()
            centre, scale = column.entry.centre, column.entry.scale
            values_in_units = np.array([values["mean"], *(centre + scale * np.array(order))])
            values_in_units[np.abs(values_in_units) < _ROUNDING * scale] = 0.0
            mean, *order = values_in_units.tolist()
            one = replace(one, mean=mean, std=values["std"], order=tuple(order))
        found[column.name] = one
    return found


def _smd_of_levels(a: SiteColumn, b: SiteColumn) -> float:
    """Levels that one of two sites does not list count as one."""
    if not a.count or not b.count:
        return math.nan
    here, there = {}, {}
    for level in dict.fromkeys([*a.levels, *b.levels]):
        p, q = a.count_of(level), b.count_of(level)
        if p is not None and q is not None:
            here[level], there[level] = p / a.count, q / b.count
    if not here:
        return math.nan
    rests = [1.0 - sum(of.values()) for of in (here, there)]
    if max(rests) > 1e-12:
        here, there = here | {"": rests[0]}, there | {"": rests[1]}
    return smd("category", here, there)


def _answer(t: ColumnsResult) -> str:
    """The answer of the test over all sites; it names columns only if the sites differ."""
    count = pluralize(len(t.tested) or len(t.sites), "site")
    which = count if len(t.tested) in (0, len(t.sites)) else count.replace(" ", " tested ")
    if t.differs is None:
        if len(t.sites) < 2:
            return "There is one site, so nothing was compared."
        if not t.tested:
            return f"It was not tested whether the {which} differ."
        return f"There are too few rows to tell whether the {which} differ; {takes(t.enough)}."
    assert t.test is not None  # noqa: S101
    said = pvalue_in_words(t.test.pvalue)
    if not t.differs:
        return f"There is no evidence that the {which} differ ({said})."
    if not t.causes:
        return f"The {which} differ ({said}). No single column differs by itself at the 5% level."
    named = [_cause_in_words(one) for one in t.cause_columns]
    return f"The {which} differ ({said}). They differ in {join_columns(named)}."


def _cause_in_words(column: TableColumn) -> str:
    """A column with its p-value, and missing values if these differ by more than the others."""
    said = pvalue_in_words(column.pvalue)
    if column.missing_smd > np.nan_to_num(column.smd):
        fractions = column.missing
        said += f", missing in {percent(min(fractions))} to {percent(max(fractions))}"
    return f"{column.name} ({said})"


def _level_in_words(level: str, one: SiteColumn, _: int) -> str:
    return _share(one.count_of(level), one.count)


def _share(number: int | None, total: int | None) -> str:
    """`12 (40.0%)`."""
    if number is None or total is None:
        return WITHHELD
    return f"{number:,} ({number / total:.1%})" if total else f"{number:,}"


def _mean_in_words(one: SiteColumn, kind: str) -> str:
    if math.isnan(one.mean):
        return "no values" if one.count == 0 else WITHHELD
    unit = " days" if kind == "date" else ""
    return f"{value_in_words(one.mean, kind)} ({value_in_words(one.std)}{unit})"


def _quartiles_in_words(one: SiteColumn, kind: str) -> str:
    low, middle, high = (value_in_words(value, kind) for value in one.quartiles)
    if math.isnan(one.quartiles[0]):
        return "no values" if one.count == 0 else WITHHELD
    return f"{middle} [{low}, {high}]"
