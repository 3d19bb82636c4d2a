"""Requests and replies with one field that is not as it should be: a site answers with a sentence,
and a run of four sites goes on, whatever one of them sends."""

import copy
import logging
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import fedwad
from federation.test_sequences import Carried, hospitals
from fedwad.errors import FedwadError
from fedwad.federation import (
    Client,
    Columns,
    Envelope,
    Failure,
    Policy,
    PrototypesRequest,
    Reply,
    ensure_schema,
    pack,
    read_raw,
    unpack,
)
from parameters import mostly_slow

FOLDER = Path(__file__).parents[2] / "docs" / "policies"
NUMBERS = (0.0, 1e300, -1e300, 1e90, 1e-300, float("nan"), float("inf"), -1.0, 0.5)
WHOLE = (0, -1, 2, 37, 10**12, 10**13, 2**63 - 1)
TEXTS = ("", "\x1b[31m", "a" * 999, "other", "1", "nan", "\u202e", "x\ny", "bern")
RUNS = {
    "matrix": fedwad.matrix,
    "columns": fedwad.columns,
    "hub": lambda fed: fedwad.matrix(fed, method="hub", support=5, rounds=2),
    "coreset": lambda fed: fedwad.coreset(fed, size=5),
    "embed": lambda fed: fedwad.embed(fed, support=4, rounds=2),
}


def places(value, path=()):
    """The paths of all fields in a message."""
    if isinstance(value, tuple) or is_dataclass(value):
        names = range(len(value)) if isinstance(value, tuple) else [f.name for f in fields(value)]
        for name in names:
            inner = value[name] if isinstance(value, tuple) else getattr(value, name)
            yield from places(inner, (*path, name))
    yield path


def odd(value, rng):
    """Another value of about the same type."""
    if isinstance(value, bool):
        return not value
    for kind, some in ((int, WHOLE), (float, NUMBERS), (str, TEXTS)):
        if isinstance(value, kind):
            return some[rng.integers(len(some))]
    if isinstance(value, tuple):
        return [(), value[:-1], value + value[-1:]][rng.integers(3)]
    if isinstance(value, np.ndarray) and value.size:
        array = value.copy()
        array.flat[rng.integers(value.size)] = rng.choice([0, -1, 1e90])
        return [array, -value, value.ravel()[:-1], value * 0][rng.integers(4)]
    return value


def mutated(message, rng):
    """The message with one odd field."""
    paths = [*places(message)][:-1]  # the last is the message itself
    return changed(message, paths[rng.integers(len(paths))], rng)


def changed(value, path, rng):
    if not path:
        return odd(value, rng)
    name, rest = path[0], path[1:]
    if isinstance(value, tuple):
        return (*value[:name], changed(value[name], rest, rng), *value[name + 1 :])
    found = copy.copy(value)
    object.__setattr__(found, name, changed(getattr(value, name), rest, rng))
    return found


@pytest.fixture(scope="module")
def tables():
    return {n: read_raw(t, columns=Columns.of(schema="auto")) for n, t in hospitals().items()}


def clients(tables, policy):
    return {name: Client(table, policy) for name, table in tables.items()}


class Listened(Carried):
    """Sites whose requests are kept, and of which one sends one odd reply."""

    def __init__(self, sites, liar="", lie=0, rng=None):
        super().__init__(sites)
        self.asked, self.liar, self.lie, self.rng = [], liar, lie, rng

    def exchange(self, messages, timeout):
        self.asked += [unpack(one).content for one in messages.values()]
        found = super().exchange(messages, timeout)
        if self.liar in found:
            self.lie -= 1
            envelope = unpack(found[self.liar])
            if self.lie == 0 and isinstance(envelope.content, Reply):
                content = mutated(envelope.content, self.rng)
                found[self.liar] = pack(replace(envelope, content=content))
        return found


@pytest.mark.parametrize("count", mostly_slow([100, 3000], 1))
def test_a_request_with_an_odd_field_gets_a_reply_or_a_sentence(tables, count):
    free = replace(Policy.open(), epsilon=None)
    listened = Listened(clients(tables, free))
    for run in RUNS.values():
        run(ensure_schema(listened))
    requests = [*listened.asked, PrototypesRequest(3, "class", "free", 0)]
    ready = [Policy.load(FOLDER / f"{n}.toml") for n in ("summary", "hub", "coreset")]
    rules = [free, *(replace(one, max_queries=None, max_schemas=None) for one in ready)]
    sites = [Client(tables["bern"], one) for one in rules]
    rng, codes = np.random.default_rng(3), set()
    logging.disable(logging.CRITICAL)
    try:
        for _ in range(count):
            request = mutated(requests[rng.integers(len(requests))], rng)
            answer = unpack(sites[rng.integers(len(sites))].respond(pack(Envelope(request))))
            codes.add(answer.content.code if isinstance(answer.content, Failure) else "")
    finally:
        logging.disable(logging.NOTSET)
    assert "internal" not in codes
    assert {"", "input", "policy"} <= codes


@pytest.mark.parametrize("count", mostly_slow([5, 60], 1))
def test_a_reply_with_an_odd_field_moves_no_pair_of_others(tables, count):
    loose = {"max_queries": None, "max_schemas": None, "max_distinct_replies": None}
    allow = ("describe", "columns", "summary", "transport", "cells", "atoms")
    policy = replace(Policy.load(FOLDER / "summary.toml"), allow=allow, **loose)
    honest = fedwad.matrix(ensure_schema(Listened(clients(tables, policy))))
    for number in range(count):
        rng = np.random.default_rng([9, number])
        name, liar = [*RUNS][number % len(RUNS)], str(rng.choice([*tables]))
        sites = Listened(clients(tables, policy), liar, int(rng.integers(1, 5)), rng)
        try:
            result = RUNS[name](ensure_schema(sites))
        except FedwadError:  # a sentence, and no traceback
            continue
        assert set(getattr(result, "failed", ())) <= {liar}
        if name == "matrix":
            others = [site for site in result.sites if site != liar]
            for one in others:
                for two in others:
                    found, expected = (
                        m.value[m.sites.index(one)][m.sites.index(two)] for m in (result, honest)
                    )
                    assert found == pytest.approx(expected, rel=0.5), number
