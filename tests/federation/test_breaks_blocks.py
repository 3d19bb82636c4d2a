"""One site that refuses block means, or lies in them, is not tested; all others are."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import fedwad
from command_line import run
from fedwad.federation import (
    Client,
    LocalFederation,
    Policy,
    RemoteFederation,
    SummaryReply,
    pack,
    read,
    unpack,
)

RNG = np.random.default_rng(0)
NAMES = "liar", "oslo", "paris", "rome"
SHIFTS = dict(zip(NAMES, (0.0, 0.0, 0.0, 1.0), strict=True))
DATA = {name: RNG.standard_normal((120, 3)) + shift for name, shift in SHIFTS.items()}
WITHOUT = Policy(["describe", "columns", "summary"], splits="noise")
WITH = Policy(["describe", "columns", "summary"])
LIES = {
    "another number of features": lambda blocks: replace(blocks, features=1),
    "blocks of seven rows": lambda blocks: replace(blocks, rows=7),
    "numbers that overflow": lambda blocks: replace(blocks, means=1e90 * blocks.means),
    "no numbers": lambda blocks: replace(blocks, means=np.nan * blocks.means),
}


class Wire(RemoteFederation):
    """Sites behind messages; the first lies about its blocks."""

    def __init__(self, lie):
        super().__init__(NAMES, timeout=5.0)
        self.clients = {name: Client(read(points), WITH) for name, points in DATA.items()}
        self.lie = lie

    def lie_in(self, reply):
        return reply

    def exchange(self, messages, timeout):  # noqa: ARG002
        brought = {}
        for name, message in messages.items():
            answer = unpack(self.clients[name].respond(message))
            if name == "liar" and isinstance(answer.content, SummaryReply):
                lie = self.lie(answer.content.blocks)
                told = self.lie_in(replace(answer.content, blocks=lie))
                answer = replace(answer, content=told)
            brought[name] = pack(answer)
        return brought


@cache
def among_themselves():
    return fedwad.matrix({name: DATA[name] for name in NAMES[1:]}).pvalue


def test_a_site_that_sends_no_blocks_costs_its_own_tests():
    clients = {
        name: Client(read(points), WITHOUT if name == "liar" else WITH)
        for name, points in DATA.items()
    }
    found = fedwad.matrix(LocalFederation(clients))
    assert found.sites == NAMES
    assert not found.failed
    assert np.array_equal(found.pvalue[1:, 1:] <= 0.05, among_themselves() <= 0.05)
    assert np.isnan(found.pvalue[0, 1:]).all()
    assert np.isfinite(found.value).all()
    assert (found.differs[1:, 1:] == True).any()  # noqa: E712
    assert "in 2 of 6 pairs" in found.sentence
    assert "The 3 tested sites differ" in found.sentence
    assert "liar was not tested" in found.sentence
    assert "nan" not in found.sentence
    assert fedwad.MatrixResult.from_dict(found.to_dict()) == found


@pytest.mark.parametrize("lie", LIES)
def test_a_site_that_lies_in_its_blocks_is_left_out(lie):
    found = fedwad.matrix(Wire(LIES[lie]))
    assert found.sites == NAMES[1:]
    assert list(found.failed) == ["liar"]
    assert np.array_equal(found.pvalue <= 0.05, among_themselves() <= 0.05)


def test_blocks_of_more_rows_than_others_have_fit_no_pair():
    found = fedwad.matrix(Wire(lambda blocks: replace(blocks, rows=10 * 2**12)))
    assert np.isnan(found.pvalue[0, 1:]).all()
    assert np.array_equal(found.pvalue[1:, 1:] <= 0.05, among_themselves() <= 0.05)


def test_a_site_with_other_functions_costs_no_other_its_test():
    found = fedwad.matrix(Wire(lambda blocks: replace(blocks, means=blocks.means[:, :-2])))
    assert np.array_equal(found.pvalue[1:, 1:] <= 0.05, among_themselves() <= 0.05)
    assert found.test is not None


def test_variances_that_fit_no_summary_cost_that_site_its_answer():
    class Liar(Wire):
        def lie_in(self, reply):
            variances = tuple(np.full_like(one, 1e180) for one in reply.order.variances)
            return replace(reply, order=replace(reply.order, variances=variances))

    found = fedwad.matrix(Liar(lambda blocks: blocks))
    assert found.sites == NAMES[1:]
    assert "do not fit" in found.failed["liar"]


def test_where_fewer_than_two_send_blocks_there_is_no_test():
    clients = {
        name: Client(read(points), WITH if name == "liar" else WITHOUT)
        for name, points in DATA.items()
    }
    found = fedwad.matrix(LocalFederation(clients))
    assert np.isnan(found.pvalue[~np.eye(4, dtype=bool)]).all()


def test_the_command_lists_what_was_not_tested(monkeypatch, tmp_path):
    for name, points in DATA.items():
        np.save(tmp_path / f"{name}.npy", points)
    clients = {
        name: Client(read(points), WITHOUT if name == "liar" else WITH)
        for name, points in DATA.items()
    }
    found = fedwad.matrix(LocalFederation(clients))
    monkeypatch.setattr("fedwad.cli.compare.fedwad.matrix", lambda *_, **__: found)
    done = run("test", *(tmp_path / f"{name}.npy" for name in NAMES))
    assert done.returncode == 3, done.stderr
    assert "not tested" in done.stdout
