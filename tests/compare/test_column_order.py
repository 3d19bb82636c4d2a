"""Named columns have one order everywhere: in this process and at nodes, whatever a table's is."""

import numpy as np
import pandas as pd
import pytest

import fedwad
from fedwad.federation import LocalFederation, open_client
from oracles import options_of


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    columns = ["weight", "age", "height", "dose"]
    return {
        name: pd.DataFrame(rng.standard_normal((60, 4)) * [9, 3, 5, 1] + k, columns=columns)
        for k, name in enumerate(("paris", "oslo", "rome"))
    }


@pytest.fixture
def files(tables, tmp_path):
    orders = (["weight", "age", "height", "dose"], ["dose", "height", "age", "weight"])
    for k, (name, table) in enumerate(tables.items()):
        table[orders[k % 2]].to_csv(tmp_path / f"{name}.csv", index=False)
    return {name: tmp_path / f"{name}.csv" for name in tables}


def at_nodes(files, tmp_path):
    policy = tmp_path / "policy.toml"
    allowed = ", ".join(f'"{kind}"' for kind in ("columns", "transport", "cells", "summary"))
    policy.write_text(f'name = "node"\nallow = [{allowed}]\nmin_cell_size = 1\nrounding = 0.0\n')
    return LocalFederation(
        {
            name: open_client(path, policy, tmp_path / f"{name}.sqlite", schema="none")
            for name, path in files.items()
        }
    )


@pytest.mark.parametrize("method", ["summary", "fedwad"])
def test_files_give_the_same_bits_in_process_and_at_nodes(files, tmp_path, method):
    options = options_of(method, 7, rounds=3)
    here, there = fedwad.local(files, schema=None), at_nodes(files, tmp_path)
    found = [fedwad.distance(fed["paris"], fed["oslo"], **options) for fed in (here, there)]
    assert found[0].value == found[1].value
    assert (found[0].lower, found[0].upper) == (found[1].lower, found[1].upper)


@pytest.mark.parametrize("method", ["summary", "hub", "pairs"])
def test_matrices_agree_to_the_last_bit(files, tmp_path, method):
    options = options_of(method, 5, rounds=2)
    here, there = fedwad.local(files, schema=None), at_nodes(files, tmp_path)
    values = [fedwad.matrix(fed, **options).value for fed in (here, there)]
    assert np.array_equal(*values)


def test_the_order_of_columns_in_tables_does_not_matter(tables):
    expected = fedwad.matrix(tables).value
    for order in (["age", "dose", "height", "weight"], ["height", "weight", "dose", "age"]):
        tables["paris"] = tables["paris"][order]
        assert np.array_equal(fedwad.matrix(tables).value, expected)
