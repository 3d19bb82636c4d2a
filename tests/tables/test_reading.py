"""Tables of every form: read the same, or refused in one sentence."""

import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedwad.errors import InputError
from fedwad.tables import plain_table, read_table

FRAME = pd.DataFrame(
    {
        "âge": [63.5, np.nan, 41.25, 58.0],
        "city": ["Zürich", "Genève", None, "Zürich"],
        "cp": [1.0, 4.0, 2.0, np.nan],
        "seen": pd.to_datetime(["2020-01-31", "2020-02-29", None, "2021-12-01"]),
        "smokes": pd.array([True, None, False, True], dtype="boolean"),
    }
)


def contents(table):
    """Everything in a table that comparisons can see."""
    result = {}
    for column in table.columns:
        values = column.values
        if column.kind in ("category", "boolean"):
            values = [None if code < 0 else column.levels[code] for code in values]
        else:
            values = [None if value != value else float(value) for value in values]
        result[column.name] = (column.kind, values)
    return result


EXPECTED = {
    "âge": ("number", [63.5, None, 41.25, 58.0]),
    "city": ("category", ["Zürich", "Genève", None, "Zürich"]),
    "cp": ("number", [1.0, 4.0, 2.0, None]),
    "seen": ("date", [18292.0, 18321.0, None, 18962.0]),
    "smokes": ("boolean", ["true", None, "false", "true"]),
}

TEXTS = {
    ",": "âge,city,cp,seen,smokes\n63.5,Zürich,1,2020-01-31,true\n?,Genève,4.0,2020-02-29,NA\n"
    "41.25,,2,,FALSE\n58,Zürich,NaN,2021-12-01,true\n",
    ";": "âge;city;cp;seen;smokes\n63,5;Zürich;1;31.01.2020;true\n;Genève;4,0;29.02.2020;null\n"
    "41,25;n/a;2;?;False\n58;Zürich;?;01.12.2021;True\n",
    "\t": "âge\tcity\tcp\tseen\tsmokes\n63,5\tZürich\t1\t2020-01-31\ttrue\n"
    "\tGenève\t4\t2020-02-29\t\n"
    '41,25\t\t2\t\tfalse\n58\t"Zürich"\t\t2021-12-01\ttrue\n',
    "|": "âge|city|cp|seen|smokes\n63.5| Zürich |1|2020-01-31|true\n?|Genève|4|2020-02-29|?\n"
    "41.25| ? |2|?|false\n58|Zürich|.|2021-12-01|true\n",
}


@pytest.mark.parametrize("separator", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_text_files_of_every_form_are_the_same_table(tmp_path, separator, encoding, newline):
    path = tmp_path / "a.csv"
    path.write_bytes(TEXTS[separator].replace("\n", newline).encode(encoding))
    assert contents(read_table(path)) == EXPECTED


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.gz", "a.gz", "a.csv"])
def test_gzip(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(TEXTS["\t"].encode("utf-16")))
    assert contents(read_table(tmp_path / name)) == EXPECTED


def test_frames_and_parquet_are_the_same_table(tmp_path):
    FRAME.to_parquet(tmp_path / "a.parquet")
    plain = FRAME.astype({"city": object, "smokes": object})
    sources = [
        FRAME,
        plain,
        FRAME.astype({"city": "category", "cp": "Int64", "âge": "float32"}),
        pl.from_pandas(FRAME),
        pl.from_pandas(FRAME).with_columns(pl.col("city").cast(pl.Categorical)).lazy().collect(),
        pa.Table.from_pandas(FRAME),
        pa.concat_tables([pa.Table.from_pandas(FRAME)[:2], pa.Table.from_pandas(FRAME)[2:]]),
        tmp_path / "a.parquet",
        FRAME.assign(seen=FRAME.seen.dt.tz_localize("UTC")),
        FRAME.assign(seen=FRAME.seen.dt.date),
        FRAME.assign(cp=["1", "4", "2", "?"], city=["Zürich", " Genève", "NA", "Zürich"]),
    ]
    for source in sources:
        assert contents(read_table(source, "a")) == EXPECTED


def test_excel(tmp_path):
    pytest.importorskip("openpyxl")
    plain = FRAME.assign(smokes=FRAME.smokes.astype(object))
    plain.to_excel(tmp_path / "a.xlsx", index=False)
    assert contents(read_table(tmp_path / "a.xlsx")) == EXPECTED
    with pytest.raises(InputError, match="no sheet 'b'"):
        read_table(tmp_path / "a.xlsx", sheet="b")


def test_excel_without_its_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"fedwad\[excel\]"):
        read_table(tmp_path / "a.xlsx")


def test_a_category_of_numbers_stays_one():
    table = read_table(pd.DataFrame({"cp": pd.Categorical([1.0, 2.0, None])}))
    assert contents(table) == {"cp": ("category", ["1", "2", None])}


def test_markers_of_the_user(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1,x\n-9,unknown\n3,y\n")
    found = contents(read_table(tmp_path / "a.csv", missing=["-9", "unknown"]))
    assert found == {"u": ("number", [1, None, 3]), "v": ("category", ["x", None, "y"])}
    assert contents(read_table(pd.DataFrame({"u": [1.0, -9.0]}), missing="-9"))["u"][1] == [1, None]


def test_none_is_a_level_among_words_and_missing_among_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1.5,none\nnone,aspirin\n")
    found = contents(read_table(tmp_path / "a.csv"))
    assert found == {"u": ("number", [1.5, None]), "v": ("category", ["none", "aspirin"])}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('u,v\n"1,5",a\n"22,75",b\n', [1.5, 22.75]),
        ('u,v\n"1,500",a\n"22,750",b\n', [1500.0, 22750.0]),
        ("u;v\n1,500;a\n22,75;b\n", [1.5, 22.75]),
        ("u;v\n1.234,5;a\n22,75;b\n", [1234.5, 22.75]),
        ("u\tv\n-1e3\ta\n+2.5\tb\n", [-1000.0, 2.5]),
    ],
)
def test_decimal_commas_and_thousands(tmp_path, text, values):
    (tmp_path / "a.csv").write_text(text)
    assert contents(read_table(tmp_path / "a.csv"))["u"] == ("number", values)


def test_codes_among_words_lose_the_zeros_after_the_point(tmp_path):
    (tmp_path / "a.csv").write_text("u\n1.0\n2\nx\n007\n")
    assert contents(read_table(tmp_path / "a.csv"))["u"] == ("category", ["1", "2", "x", "007"])


def test_dates_with_one_meaning_only(tmp_path):
    (tmp_path / "a.csv").write_text("day,month,either\n31/01/2020,01/31/2020,01/02/2020\n")
    found = contents(read_table(tmp_path / "a.csv"))
    assert found["day"] == found["month"] == ("date", [18292.0])
    assert found["either"][0] == "category"


@pytest.mark.parametrize("codes", [["E11", "E78"], ["+E1", "e2"], ["E11", "1,5"], [",e1", "2,5"]])
def test_codes_that_end_like_an_exponent_are_text(tmp_path, codes):
    (tmp_path / "a.csv").write_text("icd;v\n" + "".join(f"{code};1\n" for code in codes))
    assert contents(read_table(tmp_path / "a.csv"))["icd"] == ("category", codes)


def test_blank_rows(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1,2\n,\n3,4\n\n,\n,\n")
    table = read_table(tmp_path / "a.csv")
    assert contents(table)["u"] == ("number", [1, None, 3])
    assert len(table.notes) == 2
    assert "2 blank rows at the end are left out" in table.notes[0]
    assert "row 2, counting from 1" in table.notes[1]
    (tmp_path / "b.csv").write_text("u\n1\n\n3\n")
    assert contents(read_table(tmp_path / "b.csv"))["u"] == ("number", [1, None, 3])


def test_what_comes_late_in_a_long_file_counts(tmp_path):
    """Files are read in blocks of a megabyte; the kind of a column is that of all blocks."""
    lines = ["1,2,3,4"] * 600_000
    lines[-5:] = ["1.5,x,?,2020-01-01"] * 5
    (tmp_path / "a.csv").write_text("\n".join(["u,v,w,z", *lines]))
    table = read_table(tmp_path / "a.csv")
    assert [column.kind for column in table.columns] == ["number", "category", "number", "category"]
    assert table["u"].values[-6:].tolist() == [1.0, *[1.5] * 5]
    assert int(table["w"].missing.sum()) == 5
    assert table["v"].levels == ("2", "x")


def test_a_separator_at_the_end_of_each_line_makes_no_column(tmp_path):
    (tmp_path / "a.csv").write_text("u;v;\n1;2;\n3;4;\n")
    assert read_table(tmp_path / "a.csv").names == ("u", "v")


def test_quoted_cells_with_separators_and_line_breaks(tmp_path):
    (tmp_path / "a.csv").write_text('u,note\n1,"a, b;\nc"\n2,"d ""e"""\n')
    assert contents(read_table(tmp_path / "a.csv"))["note"][1] == ["a, b;\nc", 'd "e"']


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "u,v\n", "is empty"),
        ("a.csv", "u,v\n,\n,\n", "has 2 rows without a value"),
        ("a.csv", "<!DOCTYPE html>\n<html>\n</html>\n", "is a web page"),
        ("a.csv", "u,v\n\x00\x01SECRET\x02,2\n", "is not a text file"),
        ("a.xlsx", "nonsense", "cannot be read as .xlsx"),
        ("a.csv", "u,v\n1,2\n3,4,SECRET\n", "same number of columns"),
        ("a.csv", "u,v\n1,2\n3\n", "cannot be read as .csv"),
        ("a.csv", "u,,v\n0,1,2\n", "a column without a name, number 2"),
        ("a.csv", "u,v,u\n1,2,3\n", "more than one column 'u'"),
        ("a.csv", "1 2\n3 4\n", "separated by spaces"),
        ("a.csv", "0,1\n1,2\n", "may count the columns or be a sample"),
        ("a.csv", "7,,3\n1,2,3\n", "has an empty cell and otherwise numbers"),
        (
            "a.csv",
            "u;v\n1,5;2.5\n2,5;3.5\n",
            "decimal commas in column 'u' and points in column 'v'",
        ),
        ("a.parquet", "nonsense", "cannot be read as .parquet"),
        ("a.csv.gz", "\x1f\x8bnonsense", "damaged gzip"),
        ("a.json", "{}", "formats that can be read are"),
        ("missing.csv", None, "There is no file at"),
        ("x" * 300 + ".csv", None, "There is no file at"),
    ],
)
def test_wrong_files_get_one_sentence(tmp_path, name, content, sentence):
    if content is not None:
        (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=sentence) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        pd.DataFrame([[1, 2]], columns=["u", "u"]),
        pd.DataFrame({"u": []}),
        pl.LazyFrame({"u": [1.0]}),
        pa.table([[1.0], [2.0]], names=["u", "u"]),
        np.ones((3, 2)),
        None,
    ],
)
def test_what_is_not_a_table_is_refused(source):
    with pytest.raises(InputError) as caught:
        read_table(source, "paris")
    assert "\n" not in str(caught.value)


def test_dropped_columns_must_exist_and_may_hold_anything(tmp_path):
    (tmp_path / "a.csv").write_text("id,u\nx,1\ny,2\n")
    assert read_table(tmp_path / "a.csv", drop="id").names == ("u",)
    frame = pd.DataFrame({"u": [1.0], "odd": [{1, 2}]})
    assert read_table(frame, drop=["odd"]).names == ("u",)
    assert read_table(frame)["odd"].kind == "unusable"
    for source in (tmp_path / "a.csv", frame):
        with pytest.raises(InputError, match=r"no column 'U' \(but 'u'\)"):
            read_table(source, drop="U")
        with pytest.raises(InputError, match="no column 'num'"):
            read_table(source, label="num")
    (tmp_path / "b.csv").write_text("1,2.5\n3,4\n")
    with pytest.raises(InputError, match="no named columns"):
        read_table(tmp_path / "b.csv", drop="f0")
    with pytest.raises(InputError, match=r"'2\.5' is in the first line"):
        read_table(tmp_path / "b.csv", label="2.5")


def test_a_stored_index_is_not_a_column(tmp_path):
    frame = pd.DataFrame({"u": [1.5, 2.5]}, index=pd.Index(["p", "q"], name="patient"))
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").names == ("u",)
    assert read_table(pa.Table.from_pandas(frame), label="patient").names == ("u", "patient")


def test_plain_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("u,flag,kind\n1.5,true,a\n-2,false,b\n")
    plain = plain_table(read_table(tmp_path / "a.csv"), "kind")
    np.testing.assert_array_equal(plain.points, [[1.5, 1.0], [-2.0, 0.0]])
    assert plain.labels.tolist() == ["a", "b"]
    assert plain.features == ("u", "flag")
    (tmp_path / "b.csv").write_text("1,2.5\n3,-4\n")
    bare = plain_table(read_table(tmp_path / "b.csv"))
    np.testing.assert_array_equal(bare.points, [[1.0, 2.5], [3.0, -4.0]])
    assert bare.features is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("u,v\n1,2\n3,\n4,5\n6,\n", r"Column 'v' of .* has 2 missing values \(rows 2, 4"),
        ("u,city\n1,Paris\n2,Oslo\n", "Column 'city' of .* holds string values;"),
        ("u,v\n1,2\n3,unknown\n4,5\n", "holds string values in row 2, counting from 1"),
        ("id,u,city\nA1,1,Paris\nA2,2,Oslo\n", "Columns 'id', 'city' of .* hold string values"),
        ("u,v\n1,2\n3,inf\n", r"has 1 infinite value \(row 2, counting from 1\)"),
        (",u\n0,1\n1,2\n", r"a column without a name, number 1; .*index=False"),
        ("1,2.5\n3,\n5,6\n", r"^Column 2 of .* has 1 missing value \(row 2"),
        ("1,2.5\n3,x\n5,6\n", r"^Column 2 of .* name the columns in a first line of words"),
    ],
)
def test_plain_numbers_are_refused_with_anything_else_among_them(tmp_path, content, sentence):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=sentence):
        plain_table(read_table(tmp_path / "a.csv"))


def test_text_files_need_no_pandas(tmp_path):
    """PyArrow imports it for some conversions: seconds of waiting."""
    path = tmp_path / "a.csv"
    rows = "1.5,true,a,2020-01-01\n?,false,?,2021-01-01\n"
    path.write_text("u,flag,kind,when\n" + 20 * rows)
    code = f"""
import sys
from fedwad.tables import agree, profile, read_table
table = read_table({str(path)!r})
schema = agree({{"a": profile(table)}})
print(schema.feature_names, schema.encode(table).sum(), "pandas" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == "False"


@pytest.mark.parametrize("missing", ["-", "unknown"])
def test_a_word_for_a_missing_value_is_no_decimal_comma(tmp_path, missing):
    path = tmp_path / "site.tsv"
    path.write_text(f"a\tb\n1.5\t0.5\n{missing}\t0.25\n2.5\tinf\n")
    table = read_table(path, missing="unknown")
    np.testing.assert_array_equal(table["a"].values, [1.5, np.nan, 2.5])
    path.write_text("a;b\n1.5;0,5\n-;0,25\n2.5;1,0\n")
    with pytest.raises(InputError, match="commas in column 'b' and points in column 'a'"):
        read_table(path)


def test_an_empty_line_is_a_missing_value_of_the_only_column(tmp_path):
    path = tmp_path / "site.csv"
    path.write_text('"weight, kg"\n1\n\n3\n')
    np.testing.assert_array_equal(read_table(path)["weight, kg"].values, [1.0, np.nan, 3.0])


def test_a_label_column_of_bytes_is_not_called_missing():
    table = read_table(pa.table({"x": [1.0, 2.0], "y": [b"a", b"b"]}))
    with pytest.raises(InputError, match="holds binary values, and it is the label"):
        plain_table(table, "y")


def test_dates_with_a_time_of_day_are_days():
    milliseconds = pa.array([1000, 86_400_000], pa.int64()).cast(pa.date64(), safe=False)
    assert read_table(pa.table({"seen": milliseconds}))["seen"].values.tolist() == [0.0, 1.0]
