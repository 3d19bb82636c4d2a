"""The attack on the profile of a table: it finds rare values where no floor is set, and none else."""

import numpy as np
import pandas as pd
import pytest

import fedwad
from fedwad._audit._profiles import count_revealed_rows, infer_values
from fedwad.errors import InputError
from fedwad.federation import Policy, RawTable
from fedwad.tables import profile, read_table

ROWS = 400


def table(seed=0):
    """Rare words, a rare code, one number among zeros, a value that outweighs all others."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(60, 9, ROWS),
            "illness": rng.choice(["asthma", "flu"], ROWS),
            "stage": rng.integers(1, 4, ROWS),
            "dose": np.zeros(ROWS),
            "income": rng.normal(3e3, 5e2, ROWS),
        }
    )
    frame.loc[:2, "illness"] = ["Fabry", "Pompe", "Gaucher"]
    frame.loc[3, "stage"] = 7
    frame.loc[4, "dose"] = 12.75
    frame.loc[5, "income"] = 1e13
    return frame


def policy(floor):
    return Policy(("schema", "encode"), min_cell_size=floor)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_floor_the_rows_come_back(seed):
    found, replies, refused = count_revealed_rows(RawTable(read_table(table(seed))), policy(1))
    assert (found, replies, refused) == (6, 1, "")


@pytest.mark.parametrize("floor", [5, 10, 20])
@pytest.mark.parametrize("seed", range(3))
def test_with_the_floor_none_does(seed, floor):
    found, replies, _ = count_revealed_rows(RawTable(read_table(table(seed))), policy(floor))
    assert (found, replies) == (0, 1)


def test_sums_give_away_what_is_left_when_the_rest_is_known():
    values = pd.DataFrame({"dose": [0.0] * 98 + [3.25, 8.5]})
    found = infer_values(profile(values, 1)["dose"])
    assert any(isinstance(v, float) and abs(v - 3.25) < 1e-9 for v in found)
    assert any(isinstance(v, float) and abs(v - 8.5) < 1e-9 for v in found)


def test_the_audit_has_the_attack_for_tables():
    result = fedwad.audit(table(), policy(1), "schema")
    assert result.leaks
    assert result.rows[-1].score.exact == 6
    guarded = fedwad.audit(table(), policy(10), "schema")
    assert not guarded.leaks
    refused = fedwad.audit(table(), Policy(("summary",)), "schema")
    assert "kind 'schema'" in refused.rows[-1].refused
    with pytest.raises(InputError, match="no table"):
        fedwad.audit(np.zeros((20, 2)), method="schema")


def test_heart_gives_nothing_away_under_the_ready_policy():
    for name, frame in fedwad.datasets.load("heart").items():
        found = count_revealed_rows(RawTable(read_table(frame, name), "num"), policy(10))
        assert found == (0, 1, ""), name


def test_rows_of_a_large_table_are_counted_among_all_its_rows():
    frame = pd.DataFrame({"age": np.arange(2000) % 90, "dose": np.zeros(2000)})
    frame.loc[4, "dose"] = 12.75
    result = fedwad.audit(frame, method="schema")
    assert result.n_attacked == 1000
    assert "of 2000 records exactly" in result.verdict("schema")
