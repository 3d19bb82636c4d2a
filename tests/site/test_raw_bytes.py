"""Neighbouring files under an epsilon: whatever bytes one record has, no other record moves."""

import random
import re
import zipfile
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from fedwad.errors import InputError
from fedwad.federation import open_client
from fedwad.tables import Schema, SchemaColumn
from parameters import mostly_slow

POLICY = 'name = "paris"\nallow = ["describe", "private"]\nepsilon = 3.0\nlabel_names = [0, 1]\n'
SCHEMA = Schema(
    (
        SchemaColumn("age", "number", centre=50.0, scale=10.0),
        SchemaColumn("chol", "number", centre=200.0, scale=40.0, missing="indicator"),
        SchemaColumn("sex", "category", levels=("f", "m", "other")),
        SchemaColumn("smoker", "boolean", centre=0.5, scale=0.5, missing="mean"),
        SchemaColumn("seen", "date", centre=18000.0, scale=300.0, missing="mean"),
        SchemaColumn("diagnosis", "label"),
    )
)
ODD = (0, 0x80, 0xC3, 0xE8, 0xFF, 0xEF, *b"\"';,\t#\\ \x1a.-e0")
CELLS = (
    '<c r="{}" t="inlineStr"><is><t>Gen\u00e8ve</t></is></c>',
    '<c r="{}" t="e"><v>#N/A</v></c>',
    '<c r="{}" t="b"><v>1</v></c>',
    '<c r="{}" t="str"><v>12,5</v></c>',
    '<c r="{}" t="d"><v>2020-01-01</v></c>',
    '<c r="{}" t="str"><v>\u0142\u20ac</v></c>',
    '<c r="{}"><f>1/0</f><v>9</v></c>',
    '<c r="{}"><v>-1e300</v></c>',
    '<c r="{}"><v>1e400</v></c>',
    '<c r="{}"><v>nan</v></c>',
    '<c r="{}" t="s"><v>999</v></c>',
    '<c r="{}"/>',
)


@pytest.fixture
def records(tmp_path):
    """A function that opens a node with this file and returns what each record contributes."""
    (tmp_path / "policy.toml").write_text(POLICY)
    SCHEMA.save(tmp_path / "schema.toml")

    def contributions(path):
        for old in tmp_path.glob("ledger*"):
            old.unlink()
        client = open_client(
            path, tmp_path / "policy.toml", tmp_path / "ledger", schema=tmp_path / "schema.toml"
        )
        data = client.data
        labels = [data.names[code] for code in data.labels]
        return Counter(
            (point.tobytes(), label)
            for point, label in zip(data.measure.points, labels, strict=True)
        )

    return contributions


def table(rows=90):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, rows).round(3),
            "chol": rng.normal(200, 40, rows).round(2),
            "sex": rng.choice(["f", "m"], rows),
            "smoker": rng.choice(["yes", "no"], rows),
            "seen": [f"2019-0{1 + k % 9}-11" for k in range(rows)],
            "diagnosis": rng.integers(0, 2, rows),
        }
    )


def changed(line, chance):
    line = bytearray(line)
    for _ in range(chance.choice([1, 1, 2, 5])):
        place, byte = chance.randrange(len(line)), chance.choice([*ODD, chance.randrange(256)])
        if byte in b"\r\n":  # which would make two records of one
            continue
        kind = chance.random()
        if kind < 0.5:
            line[place] = byte
        elif kind < 0.8:
            line.insert(place, byte)
        elif len(line) > 1:
            del line[place]
    return bytes(line)


@pytest.mark.parametrize("count", mostly_slow([30, 1000], 1))
def test_bytes_of_a_text_file(records, tmp_path, count):
    path, chance = tmp_path / "x.csv", random.Random(0)  # noqa: S311
    table().to_csv(path, index=False)
    lines, whole = path.read_bytes().splitlines(), records(path)
    for _ in range(count):
        k = chance.randrange(1, len(lines))
        line = changed(lines[k], chance)
        path.write_bytes(b"\n".join([*lines[:k], line, *lines[k + 1 :]]) + b"\n")
        found = records(path)
        assert found.total() == whole.total(), line
        assert (whole - found).total() <= 1, line


@pytest.mark.parametrize("count", mostly_slow([30, 1000], 1))
def test_cells_of_an_excel_file(records, tmp_path, count):
    """A cell that is no cell of Excel's closes the node before anybody asks."""
    path, chance, closed = tmp_path / "x.xlsx", random.Random(0), 0  # noqa: S311
    table().to_excel(path, index=False)
    whole = records(path)
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"]
    cells = list(re.finditer(rb'<c r="([A-Z]+\d+)"[^>]*?(?:/>|>.*?</c>)', sheet))
    cells = [cell for cell in cells if int(cell[1][1:]) > 1]  # not of the header
    for _ in range(count):
        cell, new = chance.choice(cells), chance.choice(CELLS)
        content = new.format(cell[1].decode()).encode()
        parts["xl/worksheets/sheet1.xml"] = sheet[: cell.start()] + content + sheet[cell.end() :]
        with zipfile.ZipFile(path, "w") as packed:
            for name, part in parts.items():
                packed.writestr(name, part)
        try:
            found = records(path)
        except InputError as error:
            assert error.code == "unreadable-file"  # noqa: PT017
            closed += 1
            continue
        assert found.total() == whole.total(), new
        assert (whole - found).total() <= 1, new
    assert closed < count / 3
