"""Drift of one site: a reference, and tests of later data against it.

A reference has a summary and means over blocks of rows of one site. Comparisons with one reference
depend on each other, because they share it, so the tests cannot be treated as independent. Test
k = 1, 2, ... gets the level alpha w_k. If the weights w_k sum to one, the union bound holds: the
probability of any false alarm is at most alpha, however many tests there are. The weights are
w_k = m / ((k + m - 1) (k + m)) with m = 12. They sum to one, since
w_k = m / (k + m - 1) - m / (k + m). The first m tests use half of alpha.

A history is a log of comparisons: one JSON line for each, appended in one piece.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_integer, check_path, check_text, format_value
from fedwad._files import SavedResult
from fedwad.compare.answers import verdict
from fedwad.compare.api import distance
from fedwad.compare.explanation import Explanation
from fedwad.compare.results import DistanceResult
from fedwad.compare.sentences import ALPHA, MAX_NAMED, join
from fedwad.compare.summaries import require_blocks, summary_request
from fedwad.errors import InputError
from fedwad.federation import (
    ColumnsReply,
    ColumnsRequest,
    Federation,
    KeptFederation,
    KeptReply,
    MeteredFederation,
    Policy,
    SchemaFederation,
    Site,
    SummaryReply,
    Traffic,
    check_same_features,
    local,
)
from fedwad.federation.kept import check_keep
from fedwad.methods import Summary
from fedwad.statistics import Blocks, permutation_test
from fedwad.statistics.testing import PermutationTest
from fedwad.tables import Schema


def for_later_tables(federation: Federation, agreed: Schema, name: str) -> Site:
    """A site whose table is encoded so that later tables can be compared with it."""
    reply = MeteredFederation(federation).ask({name: ColumnsRequest()}, ColumnsReply)[name]
    schema = agreed.without_rare_levels(reply.profile).for_new_data()
    return SchemaFederation(federation, schema, [name])[name]


@dataclass(frozen=True, eq=False)
class Reference(SavedResult):
    """A summary, means over blocks of rows and the schema of one site, to find drift later.

    It holds no rows. Its site's policy must allow that replies are kept (`keep = true`).

    Attributes
    ----------
    site : str
        Name of the site.
    summary : KeptReply
        The request that the site answered, and its reply, which has the blocks of the test.
    features : tuple of str or None
        Names of the features.
    schema : Schema or None
        The schema that encoded the table.

    Examples
    --------
    >>> import numpy as np, fedwad
    >>> rng = np.random.default_rng(0)
    >>> reference = fedwad.Reference.from_data(rng.normal(size=(500, 3)), name="last year")
    >>> reference
    <reference of last year: 500 rows, 3 features, 41 blocks>
    >>> reference.compare(rng.normal(size=(400, 3))).drift
    False
    >>> reference.compare(rng.normal(0.5, 1, (400, 3))).drift
    True
    """

    _format: ClassVar[str] = "fedwad reference 1"
    _noun: ClassVar[str] = "reference"

    site: str
    summary: KeptReply
    features: tuple[str, ...] | None = None
    schema: Schema | None = None

    @classmethod
    def from_data(
        cls,
        source: Any,
        name: str = "reference",
        *,
        cells: int = 10,
        seed: int = 0,
        policy: Policy | None = None,
        **columns: Any,
    ) -> Reference:
        """Ask a site for a summary and for means over blocks, and keep both.

        Parameters
        ----------
        source : data (an array, a data frame, a path), which become a local site; or a site of a
            federation, `fed["paris"]`, whose own policy then decides
        name : name of the local site
        cells : number of cells of the summary
        seed : seed of the random numbers of the summary
        policy : what a local site answers; open by default
        columns : what the columns of a table are: label_column, drop, schema, missing, unit, where,
            keep, category, number, query, header, encoding and sheet of `fedwad.local`
        """
        if isinstance(source, Site):
            site = source
        else:
            fed = local({check_text(name, "name"): source}, policy, **columns)
            site = fed[name]
            if fed.takers and fed.schema is not None:
                site = for_later_tables(fed, fed.schema, name)
        metered = MeteredFederation(site.federation)
        with single_threaded_blas():
            request = summary_request(metered, [site.name], Summary(cells=cells), seed=seed)
            reply = metered.ask({site.name: request}, SummaryReply)[site.name]
        check_keep(site.name, reply)
        require_blocks(site.name, reply)
        return cls(site.name, KeptReply(request, reply), metered.features, metered.schema)

    def __repr__(self) -> str:
        reply = self.summary.reply
        summary, blocks = reply.summary, require_blocks(self.site, reply)
        return (
            f"<reference of {self.site}: {summary.count} rows, {summary.dimension} features,"
            f" {len(blocks.means)} blocks>"
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the content, which identifies the reference in a history."""
        return hashlib.sha256(json.dumps(self.to_dict()).encode("utf-8")).hexdigest()

    def compare(
        self,
        new: Any,
        alpha: float = 0.01,
        *,
        name: str = "new",
        history: str | Path | None = None,
        seed: int = 0,
        **columns: Any,
    ) -> DriftResult:
        """Test whether new data still come from the population of the reference.

        Parameters
        ----------
        new : data, which become a local site and are encoded as the reference was; or a site of a
            federation
        alpha : probability of a false alarm: of this comparison, or with `history` over all
            comparisons with this reference together, however many
        name : name of the new data in the result; a site keeps its own
        history : path of a file of JSON lines to which the comparison is added. Comparison k has
            the significance level alpha 12 / ((k + 11) (k + 12)); these levels sum to alpha. Data
            that were compared before keep their number and get no second line
        seed : seed of the permutations
        columns : what the columns of a table are, as in `from_data`, without schema
        """
        if not isinstance(alpha, float) or not 0 < alpha < 1:
            raise InputError(
                f"alpha is {format_value(alpha)}; give a number between 0 and 1, such as 0.01.",
                "bad-option",
            )
        seed = check_integer(seed, "seed", 0)
        if isinstance(new, Site):
            site = new
        else:  # encoded as the reference was
            fed = local({check_text(name, "name"): new}, schema=self.schema, **columns)
            if fed.features != self.features:
                raise InputError(
                    f"The features of {name} have different names than those of the reference;"
                    " compare the same columns.",
                    "different-columns",
                )
            site = fed[name]
        log = None if history is None else History(history, self.digest)
        metered = MeteredFederation(site.federation)
        request, own = self.summary.request, self.summary.reply
        with single_threaded_blas():
            reply = metered.ask({site.name: request}, SummaryReply)[site.name]
            check_same_features(
                {self.site: own.summary.dimension, site.name: reply.summary.dimension}
            )
            blocks = require_blocks(site.name, reply)
            data_digest = hashlib.sha256(blocks.means.tobytes()).hexdigest()
            number = 1 if log is None else log.comparison_number(data_digest)
            level = alpha if log is None else level_at(alpha, number)
            before = self.site if self.site != site.name else f"{self.site} (reference)"
            kept = {before: [self.summary], site.name: [KeptReply(request, reply)]}
            both = KeptFederation(kept, None, self.features, self.schema)
            apart = distance(both[before], both[site.name], cells=request.cells, seed=request.seed)
            test = compare_blocks(require_blocks(self.site, own), blocks, level, seed)
        result = DriftResult(
            distance=ReferenceDistance.of_test(apart, test, level, metered.traffic),
            pvalue=test.pvalue,
            smallest=test.smallest,
            alpha=alpha,
            level=level,
            test=number,
            blocks=(test.blocks[0], test.blocks[1]),
            data=data_digest,
            reference=self.digest,
        )
        if log is not None:
            log.append(result.line())
        return result

    def history(self, path: str | Path) -> list[dict[str, Any]]:
        """Return the comparisons with this reference in a history file, oldest first."""
        return History(path, self.digest).entries


@dataclass(frozen=True, eq=False)
class ReferenceDistance(DistanceResult):
    """The distance from a reference, with the test of the drift at its `level`."""

    level: float = ALPHA

    @classmethod
    def of_test(
        cls, apart: DistanceResult, test: PermutationTest, level: float, traffic: Traffic
    ) -> ReferenceDistance:
        """Return a distance with this test; without a difference it has no estimate."""
        changed: dict[str, Any] = {"pvalue": test.pvalue, "smallest": test.smallest}
        if not verdict(test.pvalue, test.smallest, level):
            changed["population"] = math.nan
            if apart.population_interval is not None:
                changed["population_interval"] = (0.0, apart.population_interval[1])
        return cls(**vars(apart) | changed | {"level": level, "traffic": traffic})

    @property
    def differs(self) -> bool | None:
        """Whether there is a drift; None if so small a p-value is impossible."""
        return verdict(self.pvalue, self.smallest, self.level)

    @property
    def sentence(self) -> str:
        """What may be said, by the test of the drift."""
        if self.differs is None:
            a, b = self.sites
            return f"It cannot be told at level {self.level:.2g} whether {a} and {b} differ."
        return super().sentence


@dataclass(frozen=True, eq=False)
class DriftResult(SavedResult):
    """A test whether new data come from the population of a reference, and their distance from it.

    Attributes
    ----------
    distance : DistanceResult
        Between the reference and the new data; its test is that of the drift.
    pvalue : float
        Of the hypothesis that both come from one population, by permuting blocks of rows.
    level : float
        The significance level: the largest p-value that counts as drift here. Without a
        history it is `alpha`. With one, the levels of all comparisons with the reference sum to
        `alpha`.
    alpha : float
        The probability of a false alarm that the user allows.
    test : int
        Number of this comparison with the reference, 1 without a history.
    smallest : float
        The smallest p-value that these blocks and the permutations of the test can give.
    blocks : tuple of two int
        Number of blocks of the reference and of the new data.
    data, reference : str
        Digests of the new data's blocks and of the reference.
    """

    _format: ClassVar[str] = "fedwad drift 2"
    _noun: ClassVar[str] = "comparison with a reference"

    distance: ReferenceDistance
    pvalue: float
    smallest: float
    alpha: float
    level: float
    test: int
    blocks: tuple[int, int]
    data: str
    reference: str

    @property
    def drift(self) -> bool:
        """Whether drift was found: the p-value is at most `level`."""
        return self.pvalue <= self.level

    @property
    def judged(self) -> bool:
        """Whether a p-value as small as `level` is possible.

        It is not if the new data have too few blocks, or if the level is so small, as after
        hundreds of comparisons, that even the longest test has too few permutations.
        """
        return self.smallest <= self.level

    @property
    def population(self) -> tuple[float, tuple[float, float] | None]:
        """The distance between the populations and its 95% interval: without a drift nan, and from
        zero on."""
        return self.distance.population, self.distance.population_interval

    def explain(self) -> Explanation:
        """Return which columns differ between the reference and the new data, and how."""
        return self.distance.explain()

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        reference, new = self.distance.sites
        chance = "" if self.distance.noise is None else f", by chance {self.distance.noise:.3g}"
        numbers = f"p = {self.pvalue:.2g} at level {self.level:.2g}; distance"
        numbers += f" {self.distance.value:.3g}{chance}"
        if not self.judged and self.smallest <= MIN_PVALUE:
            return (
                f"The level is too small to judge drift of {new} from {reference} ({numbers});"
                " make a new reference, or allow a larger alpha."
            )
        if not self.judged:
            return f"{new} has too few rows to judge drift from {reference} ({numbers})."
        if not self.drift:
            return f"No evidence that {new} has drifted from {reference} ({numbers})."
        causes = self.explain().causes_with_pvalues[:MAX_NAMED]
        where = f", in {join(causes)}" if causes else ""
        return f"Drift: {new} differs from {reference} by more than chance ({numbers}){where}."

    def __repr__(self) -> str:
        return f"<{self.sentence.removesuffix('.')}>"

    def line(self) -> dict[str, Any]:
        """Return what a history stores about this comparison, enough for a plot over time."""
        d = self.distance
        population, interval = self.population
        return {
            "data": self.data,
            "test": self.test,
            "site": d.sites[1],
            "rows": d.rows[1] if d.rows else None,
            "pvalue": self.pvalue,
            "level": self.level,
            "drift": self.drift,
            "value": d.value,
            "noise": d.noise,
            "population": None if math.isnan(population) else population,
            "population_interval": None if interval is None else list(interval),
        }

    def _html_rows(self) -> dict[str, str]:
        noise = self.distance.noise
        chance = {} if noise is None else {"chance alone": f"{noise:.4g}"}
        numbers = {"distance": f"{self.distance.value:.4g}"} | chance
        return numbers | {"p-value": f"{self.pvalue:.3g}", "level": f"{self.level:.2g}"}

    def _check(self) -> None:
        if not 0 < self.pvalue <= 1:
            raise ValueError("not a p-value")


#: One comparison, as `DriftResult.line` returns it, with the digest of its reference.
Entry = dict[str, Any]


class History:
    """The comparisons with one reference so far, in a file of JSON lines.

    A file may hold the comparisons with several references; those with each are numbered from 1. A
    line that was cut off by an interruption is skipped. It still counts as a comparison, so that no
    significance level is used twice. A file without any whole line is refused.
    """

    def __init__(self, path: str | Path, reference_digest: str) -> None:
        self._path, self._reference_digest = check_path(path, "history"), reference_digest
        self._n_damaged = 0  # after the last entry, whose number counts those before it
        self.entries: list[Entry] = []
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(
                f"{self._path} cannot be read ({error.strerror}); choose another file.",
                "unreadable-file",
            ) from None
        parsed = [_parse(line) for line in lines if line.strip()]
        for entry in parsed:
            if entry is None:
                self._n_damaged += 1
            elif entry["reference"] == self._reference_digest:
                self.entries.append(entry)
                self._n_damaged = 0
        if parsed and not any(parsed):
            raise InputError(
                f"{self._path} is not a history of comparisons; name another file.", "wrong-format"
            )

    def comparison_number(self, data_digest: str) -> int:
        """Return the number of the comparison with these data, the next one for new data."""
        for entry in self.entries:
            if entry["data"] == data_digest:
                return int(entry["test"])
        return 1 + self._n_damaged + max((int(entry["test"]) for entry in self.entries), default=0)

    def append(self, entry: Entry) -> None:
        """Add a comparison, in a single write, unless there is one with the same data."""
        if any(earlier["data"] == entry["data"] for earlier in self.entries):
            return
        entry = {"reference": self._reference_digest, **entry}
        line = json.dumps(entry).encode("utf-8") + b"\n"
        try:
            # One write at the end of the file: readers see the whole line or none of it.
            with self._path.open("a+b", buffering=0) as file:
                if file.tell():  # after a line that was cut off
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                file.write(line)
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(
                f"{self._path} cannot be written ({error.strerror}); choose another file.",
                "cannot-write",
            ) from None
        self.entries.append(entry)


def _parse(line: bytes) -> Entry | None:
    """The comparison that the line describes, or None if the line is damaged."""
    try:
        entry = json.loads(line)
        is_complete = type(entry["reference"]) is str and type(entry["data"]) is str
        return entry if is_complete and type(entry["test"]) is int else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


_MAX_PERMUTATIONS = 1_000_000  # a limit of time
#: The smallest p-value of the longest test.
MIN_PVALUE = 1 / (_MAX_PERMUTATIONS + 1)


def level_at(alpha: float, number: int, half_after: int = 12) -> float:
    """Return the significance level of comparison `number` with one reference, counted from 1.

    The first `half_after` tests use half of alpha: those of one year, at one test a month.

    Examples
    --------
    >>> [round(level_at(0.01, k), 6) for k in (1, 12, 100)]
    [0.000769, 0.000217, 1e-05]
    >>> round(sum(level_at(0.01, k) for k in range(1, 100_000)), 4)
    0.01
    """
    m = half_after
    return alpha * m / ((number + m - 1) * (number + m))


def permutations_for(level: float) -> int:
    """Return how many permutations a test at this level needs, at most a million.

    A p-value near the level then rests on about twenty permutations as extreme as the data, a
    standard error of a fifth.
    """
    return min(max(999, math.ceil(20 / level)), _MAX_PERMUTATIONS)


def compare_blocks(reference: Blocks, new: Blocks, level: float, seed: int = 0) -> PermutationTest:
    """Test whether new blocks and those of a reference come from one population.

    The first test has a few hundred permutations. If fewer than twenty of them are as extreme as
    the observed statistic, a second test with ten times as many replaces the first, and so on until
    there are enough permutations for p-values near `level`.

    The final p-value is valid. Call test s replaced if its p-value is at most t_s; t_s falls with
    s. Let s be the first test with t_s < a, or the last test if there is none, and let the final
    p-value be at most a. Then it is that of test s, or test s was replaced. In both cases the
    p-value of test s is at most a. `smallest` is that of the longest test for this level.
    """
    max_permutations = permutations_for(level)
    permutations = min(499, max_permutations)
    test = permutation_test([reference, new], permutations=permutations, seed=seed)
    while permutations < max_permutations and test.pvalue * (permutations + 1) <= 20:
        permutations, seed = min(10 * permutations, max_permutations), seed + 1
        test = permutation_test([reference, new], permutations=permutations, seed=seed)
    n, m = test.blocks
    # With as many new blocks as reference blocks, exchanging all of them gives the same statistic.
    distinct_splits = math.comb(n + m, n) / (2 if n == m else 1)
    smallest = max(1 / distinct_splits, 1 / (max_permutations + 1))
    return replace(test, smallest=smallest)


_GAUGES = {
    "distance": "Estimated distance between new data and the reference.",
    "noise": "Distance that two samples of one population have by chance.",
    "population": "Distance between the populations, without sampling noise.",
    "pvalue": "P-value of the permutation test.",
    "level": "Largest p-value that counts as drift in this comparison.",
    "drift": "1 if drift was found, else 0.",
    "test": "Number of this comparison with the reference.",
    "rows": "Rows of the new data.",
}


def metrics(numbers: dict[str, Any], reference: str, site: str) -> str:
    """Return text in the exposition format of Prometheus.

    Only the numbers named in `_GAUGES` are written, and those that are None are left out.

    Examples
    --------
    >>> print(metrics({"drift": 1}, "paris", "may"), end="")
    # HELP fedwad_drift 1 if drift was found, else 0.
    # TYPE fedwad_drift gauge
    fedwad_drift{reference="paris",site="may"} 1
    """
    labels = f'{{reference="{_escape(reference)}",site="{_escape(site)}"}}'
    lines = []
    for name, about in _GAUGES.items():
        if numbers.get(name) is not None:
            metric = "fedwad_drift" if name == "drift" else f"fedwad_drift_{name}"
            lines += [f"# HELP {metric} {about}", f"# TYPE {metric} gauge"]
            value = numbers[name]
            text = str(int(value)) if isinstance(value, bool | int) else repr(float(value))
            lines.append(f"{metric}{labels} {text}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
