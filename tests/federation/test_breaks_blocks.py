"""One site that refuses block means, or lies in them, is not tested; all others are."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import fedwad
from command_line import run
from fedwad.federation import (
    BlocksReply,
    Client,
    Failure,
    LocalFederation,
    Policy,
    RemoteFederation,
    pack,
    read,
    unpack,
)
from fedwad.report.sentences import matrix_answer

RNG = np.random.default_rng(0)
NAMES = "liar", "oslo", "paris", "rome"
SHIFTS = dict(zip(NAMES, (0.0, 0.0, 0.0, 1.0), strict=True))
DATA = {name: RNG.standard_normal((120, 3)) + shift for name, shift in SHIFTS.items()}
WITHOUT = Policy(["describe", "summary"])
WITH = Policy(["describe", "summary", "blocks"])


def huge(reply):
    """Numbers within the bounds of a message whose fourth powers are not."""
    return replace(reply, scale=np.full(3, 1e95), means=np.full_like(reply.means, -1e95))


LIES = {
    "a failure": lambda _: Failure("input", "the request is wrong for all."),
    "another number of features": lambda reply: replace(
        reply, centre=np.zeros(1), scale=np.ones(1), means=reply.means[:, :4].copy()
    ),
    "blocks of seven rows": lambda reply: replace(reply, rows=7),
    "blocks of more rows than others have": lambda reply: replace(reply, rows=10 * 2**12),
    "numbers that overflow": huge,
}


class Wire(RemoteFederation):
    """Sites behind messages; the first lies about its blocks."""

    def __init__(self, lie):
        super().__init__(NAMES, timeout=5.0)
        self.clients = {name: Client(read(points), WITH) for name, points in DATA.items()}
        self.lie = lie

    def exchange(self, messages, timeout):  # noqa: ARG002
        brought = {}
        for name, message in messages.items():
            answer = unpack(self.clients[name].respond(message))
            if name == "liar" and isinstance(answer.content, BlocksReply):
                answer = replace(answer, content=self.lie(answer.content))
            brought[name] = pack(answer)
        return brought


@cache
def among_themselves():
    return fedwad.matrix({name: DATA[name] for name in NAMES[1:]}, test=True).pvalue


def check(found):
    """The honest sites have the p-values that they have among themselves."""
    assert found.sites == NAMES
    assert not found.failed
    np.testing.assert_array_equal(found.pvalue[1:, 1:], among_themselves())
    assert np.isnan(found.pvalue[0, 1:]).all()
    assert np.isfinite(found.value).all()
    assert found.differs
    answer = " ".join(matrix_answer(found))
    assert "2 of 3 pairs of sites differ" in answer
    assert "liar cannot be judged" in answer
    assert "nan" not in answer
    assert fedwad.MatrixResult.from_dict(found.to_dict()) == found


def test_a_site_that_refuses_blocks_costs_its_own_tests():
    clients = {
        name: Client(read(points), WITHOUT if name == "liar" else WITH)
        for name, points in DATA.items()
    }
    with pytest.warns(
        fedwad.DataWarning, match="liar is not tested: Requests of kind 'blocks'"
    ) as warned:
        check(fedwad.matrix(LocalFederation(clients), test=True))
    assert warned[0].filename == __file__  # the line that asked for the matrix


@pytest.mark.parametrize("lie", LIES)
def test_a_site_that_lies_in_its_blocks_costs_its_own_tests(lie):
    wire = Wire(LIES[lie])
    if lie in ("blocks of more rows than others have", "numbers that overflow"):
        check(fedwad.matrix(wire, test=True))  # well formed; no pair fits it
    else:
        with pytest.warns(fedwad.DataWarning, match="liar is not tested"):
            check(fedwad.matrix(wire, test=True))


def test_where_fewer_than_two_answer_there_is_no_test():
    clients = {
        name: Client(read(points), WITH if name == "liar" else WITHOUT)
        for name, points in DATA.items()
    }
    with pytest.raises(fedwad.PolicyError, match="blocks"):
        fedwad.matrix(LocalFederation(clients), test=True)


def test_the_command_lists_what_was_not_tested(monkeypatch, tmp_path):
    for name, points in DATA.items():
        np.save(tmp_path / f"{name}.npy", points)
    with pytest.warns(fedwad.DataWarning, match="liar is not tested"):
        found = fedwad.matrix(Wire(LIES["a failure"]), test=True)
    monkeypatch.setattr("fedwad.cli.permutation.fedwad.matrix", lambda *_, **__: found)
    done = run("test", *(tmp_path / f"{name}.npy" for name in NAMES))
    assert done.returncode == 3, done.stderr
    assert done.stdout.count("not tested") == 3
    assert "adjusted for 3 pairs" in done.stdout
