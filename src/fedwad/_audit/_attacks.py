"""The table of attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedwad._audit._atoms import difference_slabs, find_outermost
from fedwad._audit._blocks import average_blocks, solve_blocks
from fedwad._audit._differencing import difference_by_sizes, difference_by_weights
from fedwad._audit._exact import invert_with_known_t, invert_with_secret_t
from fedwad._audit._orders import find_flagged_record, find_tail_records
from fedwad._audit._private import average_releases, draw_from_release, subtract_known_records
from fedwad._audit._prototypes import difference_prototypes
from fedwad._audit._repeats import average_rounds, average_summaries
from fedwad._audit._session import AttackSession
from fedwad._audit._summaries import difference_summaries, draw_from_summary, find_rare_records
from fedwad._audit._tomography import tomography
from fedwad._audit._training import bisect_by_tests, invert_update
from fedwad._audit._two_rounds import invert_two_rounds
from fedwad._audit._versions import difference_versions
from fedwad.ot import Floats

__all__ = ["ATTACKS", "REQUEST_KINDS", "Attack"]

#: The kinds of request that each method uses; an attack on the method may use no others.
REQUEST_KINDS: dict[str, frozenset[str]] = {
    "fedwad": frozenset({"moments", "transport", "cells"}),
    "hub": frozenset({"moments", "cells"}),
    "summary": frozenset({"summary"}),
    "test": frozenset({"blocks"}),
    "coreset": frozenset({"moments", "summary", "atoms"}),
    "classifier": frozenset({"labels", "prototypes"}),
    "training": frozenset({"train", "evaluate"}),
    "private": frozenset({"private"}),
    "schema": frozenset({"schema"}),
}


@dataclass(frozen=True)
class Attack:
    """An attack on some methods.

    name : its name in tables
    methods : the methods whose requests it can use
    requests : what it asks for, in words
    run : the function that asks a client and returns guesses of records, (k, d)
    on_all_records : whether it is tried on all records and not on a part, since it is fast
    """

    name: str
    methods: tuple[str, ...]
    requests: str
    run: Callable[[AttackSession, np.random.Generator], Floats]
    on_all_records: bool = False


ATTACKS = (
    Attack(
        "exact interpolant, t known",
        ("fedwad",),
        "one round with the exact interpolant",
        invert_with_known_t,
    ),
    Attack(
        "exact interpolant, t secret",
        ("fedwad",),
        "one round with the exact interpolant",
        invert_with_secret_t,
    ),
    Attack("n points, t secret", ("fedwad",), "two rounds with S = n", invert_two_rounds),
    Attack("tomography", ("fedwad", "hub"), "rounds to supports on lines in one plane", tomography),
    Attack(
        "differencing by weights",
        ("fedwad", "hub"),
        "rounds to supports of unequal weights",
        difference_by_weights,
    ),
    Attack(
        "differencing by sizes",
        ("fedwad", "hub"),
        "rounds to supports of many sizes",
        difference_by_sizes,
    ),
    Attack(
        "averaging of repeats", ("fedwad", "hub"), "the same round twenty times", average_rounds
    ),
    Attack("drawing from one summary", ("summary",), "one summary", draw_from_summary),
    Attack(
        "rare features",
        ("summary",),
        "one summary with its covariance",
        find_rare_records,
        on_all_records=True,
    ),
    Attack(
        "moments by distances",
        ("fedwad", "hub"),
        "distances of order 4 to coinciding points",
        find_flagged_record,
        on_all_records=True,
    ),
    Attack(
        "sums of tails",
        ("fedwad", "hub"),
        "distances of order 1 to coinciding points, for one feature",
        find_tail_records,
        on_all_records=True,
    ),
    Attack(
        "differencing of summaries",
        ("summary",),
        "summaries with other cells and seeds",
        difference_summaries,
    ),
    Attack(
        "averaging of repeats", ("summary",), "the same summary twenty times", average_summaries
    ),
    Attack("solving of block means", ("test",), "one set of block means", solve_blocks),
    Attack("averaging of repeats", ("test",), "block means twenty times", average_blocks),
    Attack("differencing by slabs", ("coreset",), "rounds with atoms on a line", difference_slabs),
    Attack(
        "outermost by dual values",
        ("coreset",),
        "rounds with a far atom whose cell has too few records",
        find_outermost,
    ),
    Attack(
        "differences of versions",
        ("fedwad", "hub", "summary", "test", "coreset", "classifier"),
        "the same request before and after a record joined",
        difference_versions,
        on_all_records=True,
    ),
    Attack(
        "differencing of prototypes",
        ("classifier",),
        "prototypes of different numbers and seeds",
        difference_prototypes,
    ),
    Attack(
        "inverted updates",
        ("training",),
        "one round with weights chosen to reveal records",
        invert_update,
    ),
    Attack(
        "counting by tests", ("training",), "tests of networks that halve the data", bisect_by_tests
    ),
    Attack("drawing from one release", ("private",), "one release", draw_from_release),
    Attack("all other records known", ("private",), "one release", subtract_known_records),
    Attack("averaging, all others known", ("private",), "twenty releases", average_releases),
)
