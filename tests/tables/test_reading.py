"""Tables of every form: read the same, or refused in one sentence."""

import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from failing import fails
from fedwad.errors import InputError
from fedwad.tables import profile, read_table
from fedwad.tables.encode import label_values, plain_table
from fedwad.tables.select import set_kinds

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


def test_a_file_joined_from_two_encodings_has_each_word_once(tmp_path):
    lines = "Zürich,1\nKöln,2\n"
    content = b"city,u\n" + lines.encode("cp1252") + lines.encode()
    (tmp_path / "a.csv").write_bytes(content)
    assert read_table(tmp_path / "a.csv")["city"].levels == ("Köln", "Zürich")
    with fails(InputError, "wrong-encoding"):
        read_table(tmp_path / "a.csv", encoding="utf-8")


@pytest.mark.parametrize("word", ["unknown", "not recorded", "unbekannt"])
def test_words_for_a_missing_value_among_numbers(tmp_path, word):
    (tmp_path / "a.csv").write_text(f"dose,sex\n1.5,f\n{word},{word}\n2,m\n")
    found = contents(read_table(tmp_path / "a.csv"))
    assert found["dose"] == ("number", [1.5, None, 2.0])
    assert found["sex"] == ("category", ["f", word, "m"])


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
    with fails(InputError, "unknown-table"):
        read_table(tmp_path / "a.xlsx", sheet="b")


def test_excel_without_its_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with fails(InputError, "missing-package") as caught:
        read_table(tmp_path / "a.xlsx")
    assert "fedwad[excel]" in str(caught.value)


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
    assert contents(read_table(tmp_path / "a.csv"))["note"][1] == ["a, b; c", 'd "e"']


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.csv", "", "empty-table"),
        ("a.csv", "u,v\n", "empty-table"),
        ("a.csv", "u,v\n,\n,\n", "empty-table"),
        ("a.csv", "<!DOCTYPE html>\n<html>\n</html>\n", "not-a-table"),
        ("a.csv", "u,v\n\x00\x01SECRET\x02,2\n", "not-a-table"),
        ("a.xlsx", "nonsense", "unreadable-file"),
        ("a.csv", "u,v\n1,2\n3,4,SECRET\n", "ragged-rows"),
        ("a.csv", "u,v\n1,2\n3\n", "ragged-rows"),
        ("a.csv", "u,,v\n0,1,2\n", "bad-name"),
        ("a.csv", "u,v,u\n1,2,3\n", "repeated-column"),
        ("a.csv", "1 2\n3 4\n", "not-a-table"),
        ("a.csv", "0,1\n1,2\n", "no-columns"),
        ("a.csv", "7,,3\n1,2,3\n", "no-columns"),
        ("a.csv", "63,SECRET,233.5,hiv\n41,female,201,none\n", "no-columns"),
        ("a.csv", "SECRET;1984-08-17\nx;1990-01-01\n", "no-columns"),
        (
            "a.csv",
            "u;v\n1,5;2.5\n2,5;3.5\n",
            "mixed-decimals",
        ),
        ("a.parquet", "nonsense", "unreadable-file"),
        ("a.csv.gz", "\x1f\x8bnonsense", "unreadable-file"),
        ("a.json", "{}", "unknown-format"),
        ("missing.csv", None, "no-such-file"),
        ("x" * 300 + ".csv", None, "no-such-file"),
    ],
)
def test_wrong_files_get_one_sentence(tmp_path, name, content, code):
    if content is not None:
        (tmp_path / name).write_bytes(content.encode("latin-1"))
    with fails(InputError, code) as caught:
        read_table(tmp_path / name)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (pd.DataFrame([[1, 2]], columns=["u", "u"]), "repeated-column"),
        (pd.DataFrame({"u": []}), "empty-table"),
        (pl.LazyFrame({"u": [1.0]}), "not-a-table"),
        (pa.table([[1.0], [2.0]], names=["u", "u"]), "repeated-column"),
        (np.ones((3, 2)), "not-a-table"),
        (None, "not-a-table"),
    ],
)
def test_what_is_not_a_table_is_refused(source, code):
    with fails(InputError, code):
        read_table(source, "paris")


def test_dropped_columns_must_exist_and_may_hold_anything(tmp_path):
    (tmp_path / "a.csv").write_text("id,u\nx,1\ny,2\n")
    assert read_table(tmp_path / "a.csv", drop="id").names == ("u",)
    frame = pd.DataFrame({"u": [1.0], "odd": [{1, 2}]})
    assert read_table(frame, drop=["odd"]).names == ("u",)
    assert read_table(frame)["odd"].kind == "unusable"
    for source in (tmp_path / "a.csv", frame):
        with fails(InputError, "unknown-column") as caught:
            read_table(source, drop="U")
        assert "(but 'u')" in str(caught.value)
        with fails(InputError, "unknown-column"):
            read_table(source, label="num")
    (tmp_path / "b.csv").write_text("1,2.5\n3,4\n")
    with fails(InputError, "no-columns"):
        read_table(tmp_path / "b.csv", drop="f0", header=False)
    with fails(InputError, "no-columns"):
        read_table(tmp_path / "b.csv", label="2.5", header=False)


def test_a_stored_index_is_not_a_column(tmp_path):
    frame = pd.DataFrame({"u": [1.5, 2.5]}, index=pd.Index(["p", "q"], name="patient"))
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").names == ("u",)
    assert read_table(pa.Table.from_pandas(frame), label="patient").names == ("u", "patient")


def test_plain_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("u,flag,kind\n1.5,true,a\n-2,false,b\n")
    table = read_table(tmp_path / "a.csv")
    points, names = plain_table(table, "kind")
    np.testing.assert_array_equal(points, [[1.5, 1.0], [-2.0, 0.0]])
    assert label_values(table["kind"], "a").tolist() == ["a", "b"]
    assert names == ("u", "flag")
    (tmp_path / "b.csv").write_text("1,2.5\n3,-4\n")
    points, names = plain_table(read_table(tmp_path / "b.csv", header=False))
    np.testing.assert_array_equal(points, [[1.0, 2.5], [3.0, -4.0]])
    assert names is None


@pytest.mark.parametrize(
    ("content", "code", "named"),
    [
        ("u,v\n1,2\n3,\n4,5\n6,\n", "missing-values", ("'v'", "rows 2, 4")),
        ("u,city\n1,Paris\n2,Oslo\n", "not-a-number", ("'city'",)),
        ("u,v\n1,2\n3,varies\n4,5\n", "not-a-number", ("'v'", "row 2")),
        ("id,u,city\nA1,1,Paris\nA2,2,Oslo\n", "not-a-number", ("'id', 'city'",)),
        ("u,v\n1,2\n3,inf\n", "infinite-values", ("'v'", "row 2")),
        (",u\n0,1\n1,2\n", "bad-name", ("index=False",)),
        ("1,2.5\n3,\n5,6\n", "missing-values", ("Column 2", "row 2")),
        ("1,2.5\n3,x\n5,6\n", "not-a-number", ("Column 2",)),
    ],
)
def test_plain_numbers_are_refused_with_anything_else_among_them(tmp_path, content, code, named):
    (tmp_path / "a.csv").write_text(content)
    with fails(InputError, code) as caught:
        plain_table(read_table(tmp_path / "a.csv", header=not content[0].isdigit()))
    assert all(word in str(caught.value) for word in named)


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
    with fails(InputError, "mixed-decimals"):
        read_table(path)


def test_an_empty_line_is_a_missing_value_of_the_only_column(tmp_path):
    path = tmp_path / "site.csv"
    path.write_text('"weight, kg"\n1\n\n3\n')
    np.testing.assert_array_equal(read_table(path)["weight, kg"].values, [1.0, np.nan, 3.0])


def test_a_label_column_of_bytes_is_not_called_missing():
    table = read_table(pa.table({"x": [1.0, 2.0], "y": [b"a", b"b"]}))
    with fails(InputError, "wrong-kind"):
        label_values(table["y"], "a")


def test_dates_with_a_time_of_day_are_days():
    milliseconds = pa.array([1000, 86_400_000], pa.int64()).cast(pa.date64(), safe=False)
    assert read_table(pa.table({"seen": milliseconds}))["seen"].values.tolist() == [0.0, 1.0]


def test_a_first_line_of_numbers_names_columns_if_somebody_says_so(tmp_path):
    (tmp_path / "a.csv").write_text("country,2020,2021\nnorway,1.5,2\n")
    assert read_table(tmp_path / "a.csv", header=True).names == ("country", "2020", "2021")
    table = read_table(tmp_path / "a.csv", header=False)
    assert (table.rows, table.names, table.has_header) == (2, ("f0", "f1", "f2"), False)


def write_sheets(path, **sheets):
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(row)
    workbook.save(path)


ROWS = [["age", "sex"], [61, "f"], [45, "m"]]


def test_titles_above_an_excel_table_are_left_out(tmp_path):
    titles = [["Export of 2024-05-01"], [None, "ward 7"], []]
    write_sheets(tmp_path / "a.xlsx", one=[*titles, *ROWS])
    table = read_table(tmp_path / "a.xlsx")
    assert contents(table) == {"age": ("number", [61, 45]), "sex": ("category", ["f", "m"])}
    assert len(table.notes) == 1


def test_units_and_notes_of_an_excel_table_are_no_rows(tmp_path):
    around = [ROWS[0], ["[years]", None], *ROWS[1:], [50, None], [], ["Source: ward 7"]]
    write_sheets(tmp_path / "a.xlsx", one=around)
    table = read_table(tmp_path / "a.xlsx")
    assert contents(table)["age"] == ("number", [61, 45, 50])
    assert len(table.notes) == 2


@pytest.mark.parametrize(
    ("below", "note"),
    [
        ([["Source: ward 7"]], "1 line below the table is left out"),
        ([[], ["Source: ward 7"], ["* in years"]], "2 lines below the table are left out"),
        ([[], [], ["Source: ward 7"], [], ["* in years"]], "2 lines below the table are left out"),
        ([["f", None, None]], ""),  # a patient of whom little is known
        ([[None, None, "Anna Weber"]], ""),
    ],
)
def test_notes_below_an_excel_table_are_no_patients(tmp_path, below, note):
    patients = [["f", 61, "Eva Klein"], ["m", 45, "Jan Gross"], ["f", 50, "Ute Kurz"]]
    write_sheets(tmp_path / "a.xlsx", one=[["sex", "age", "name"], *patients, *below])
    table = read_table(tmp_path / "a.xlsx")
    assert table.rows == (3 if note else 4)
    assert note in "".join(table.notes)
    assert bool(table.notes) == bool(note)


def test_the_sheet_with_the_table_is_read(tmp_path):
    write_sheets(tmp_path / "a.xlsx", readme=[["About"], ["these data"]], visits=ROWS, old=ROWS[:2])
    table = read_table(tmp_path / "a.xlsx")
    assert table.rows == 2
    assert "'visits'" in table.notes[0]
    assert read_table(tmp_path / "a.xlsx", sheet="old").rows == 1


def test_an_excel_row_of_values_is_no_header(tmp_path):
    write_sheets(tmp_path / "a.xlsx", one=ROWS[1:])
    with fails(InputError, "no-columns"):
        read_table(tmp_path / "a.xlsx")
    assert read_table(tmp_path / "a.xlsx", header=False).rows == 2


@pytest.mark.parametrize(
    "first", ["Meier,<5,12.5mg,1980/02", "?,unknown,missing,x", "Meier,> 100,NULL,80 kg"]
)
def test_a_first_line_that_looks_like_values_is_no_header(tmp_path, first):
    (tmp_path / "a.csv").write_text(first + "\n" + "a,5,7mg,1990/01\nb,6,8mg,1991/02\n")
    with fails(InputError, "no-columns") as caught:
        read_table(tmp_path / "a.csv")
    assert "Meier" not in str(caught.value)
    assert read_table(tmp_path / "a.csv", header=True).rows == 2


@pytest.mark.parametrize("first", ["id,ward,<5,over 5", "patient,sodium,na,30min", "a,b,c,2020 Q1"])
def test_a_few_names_that_look_like_values_are_a_header(tmp_path, first):
    (tmp_path / "a.csv").write_text(first + "\nx,1,2,3\ny,4,5,6\n")
    assert read_table(tmp_path / "a.csv").names == tuple(first.split(","))


def test_texts_that_recur_below_them_are_no_header(tmp_path):
    rows = [("Smith", "male", "hiv"), ("Jones", "female", "flu")] * 5
    write_sheets(tmp_path / "a.xlsx", one=rows)
    (tmp_path / "a.csv").write_text("\n".join(map(",".join, rows)))
    for path in (tmp_path / "a.csv", tmp_path / "a.xlsx"):
        with fails(InputError, "no-columns"):
            read_table(path)
        assert read_table(path, header=False).rows == 10
        assert read_table(path, header=True).names == rows[0]
    names = ("name", "sex", "disease")  # a second file was appended with its header
    (tmp_path / "b.csv").write_text("\n".join(map(",".join, [names, *rows, names, *rows])))
    assert read_table(tmp_path / "b.csv").names == names


def test_one_byte_does_not_change_how_others_are_read_under_an_epsilon(tmp_path):
    lines = "city\n" + "Genève\n" * 3
    (tmp_path / "a.csv").write_bytes(lines.encode() + b"Z\xfcrich\n")
    table = read_table(tmp_path / "a.csv", elementwise=True)
    assert contents(table)["city"][1][:3] == ["Genève"] * 3
    quoted = 'u,v\n1,a\n2,"b\n'
    (tmp_path / "b.csv").write_text(quoted.replace('"', ""))
    assert read_table(tmp_path / "b.csv", elementwise=True).rows == 2


def test_an_empty_line_or_a_wide_row_changes_no_number_of_rows_under_an_epsilon(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1,a\n\n3,c\n")
    table = read_table(tmp_path / "a.csv", elementwise=True)
    assert contents(table)["u"] == ("category", ["1", None, "3"])
    write_sheets(tmp_path / "a.xlsx", one=[["age", "sex"], [61, "f", "more", "cells"], [45, "m"]])
    table = read_table(tmp_path / "a.xlsx", elementwise=True)
    assert (table.rows, table.names) == (2, ("age", "sex"))


# Folders, and files that are too large ----------------------------------------------------------


def test_the_files_of_a_folder_are_one_table(tmp_path):
    for name, rows in (("a.csv", "1,x\n2,y"), ("b.csv", "3.5,x\n"), ("c.csv.gz", "z,x\r\n")):
        data = ("u,v\n" + rows).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    table = read_table(tmp_path)
    assert contents(table)["u"] == ("category", ["1", "2", "3.5", "z"])
    (tmp_path / "d.csv").write_text("v,u\nx,1\n")
    with fails(InputError, "different-columns"):
        read_table(tmp_path)


def test_a_folder_of_partitioned_parquet(tmp_path):
    for centre in ("paris", "oslo"):
        folder = tmp_path / f"centre={centre}"
        folder.mkdir()
        FRAME.to_parquet(folder / "0.parquet")
    table = read_table(tmp_path)
    assert table.rows == 2 * len(FRAME)
    assert set(table["centre"].levels) == {"paris", "oslo"}
    (tmp_path / "more.csv").write_text("u\n1\n")
    with fails(InputError, "not-a-table"):
        read_table(tmp_path)
    (tmp_path / "none").mkdir()
    with fails(InputError, "not-a-table"):
        read_table(tmp_path / "none")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.xlsx", "a.parquet", "a.csv"])
def test_a_file_that_does_not_fit_into_memory(tmp_path, monkeypatch, name):
    frame = pd.DataFrame({"u": np.zeros(200_000)})
    path = tmp_path / name
    if name.endswith("xlsx"):
        write_sheets(path, one=[["u"], *[[0.0]] * 20_000])
    elif name.endswith("parquet"):
        frame.to_parquet(path, compression="zstd", use_dictionary=False)
    else:
        frame.to_csv(path, index=False)
    monkeypatch.setattr("fedwad.tables.csv.largest_size", lambda: 400_000)
    with fails(InputError, "too-large"):
        read_table(path)


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    import tracemalloc

    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"0\n" * 50_000_000))
    monkeypatch.setattr("fedwad.tables.csv.largest_size", lambda: 1_000_000)
    tracemalloc.start()
    with fails(InputError, "too-large"):
        read_table(tmp_path / "a.csv.gz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_an_excel_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    import tracemalloc
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"<row/>" * 10_000_000)
    assert (tmp_path / "a.xlsx").stat().st_size < 200_000
    monkeypatch.setattr("fedwad.tables.csv.largest_size", lambda: 1_000_000)
    tracemalloc.start()
    with fails(InputError, "too-large"):
        read_table(tmp_path / "a.xlsx")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_gzip_files_of_several_members_and_with_padding(tmp_path):
    parts = [gzip.compress(b"u,v\n1,2\n"), gzip.compress(b"3,4\n"), b"\0" * 10]
    (tmp_path / "a.csv.gz").write_bytes(b"".join(parts))
    assert contents(read_table(tmp_path / "a.csv.gz"))["u"] == ("number", [1, 3])
    (tmp_path / "a.csv.gz").write_bytes(parts[0][:-9])
    with fails(InputError, "unreadable-file"):
        read_table(tmp_path / "a.csv.gz")


# Exports as spreadsheets and databases write them -------------------------------------------------

CLINIC = "age;weight;seen\n" + "".join(f"{40 + k};{60 + k},5;0{k}-05-2020\n" for k in range(1, 9))
LAST = "48;68,5;28-05-2020\n"


@pytest.mark.parametrize(
    ("before", "after", "notes"),
    [
        ("Export of ward 7\nmade 2024-05-01\n\n", "", 1),
        ("Export of ward 7;;\n;;\n", "", 1),
        ("# made by a program, 2024\n# of ward 7\n", "", 1),
        ("sep=;\n", "", 0),
        ("Export; ward 7, 2024\n\n", "", 1),
        ("", "\nSource: the ward;;\n", 1),
        ("", "9 rows\n", 1),
        ('"Ward ""7"""\n', ";;\n;;\nSource;;\n", 2),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_titles_comments_and_notes_are_no_rows(tmp_path, before, after, notes, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes((before + CLINIC + LAST + after).encode(encoding))
    table = read_table(path)
    assert [(c.name, c.kind) for c in table.columns] == [
        ("age", "number"),
        ("weight", "number"),
        ("seen", "date"),
    ]
    assert table.rows == 9
    assert len(table.notes) == notes


def test_units_below_the_names_are_no_row(tmp_path):
    (tmp_path / "a.csv").write_text(CLINIC.replace("\n", "\n[years];(kg);\n", 1) + LAST)
    table = read_table(tmp_path / "a.csv")
    assert [column.kind for column in table.columns] == ["number", "number", "date"]
    assert "units" in table.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "note\nmild, no fever\nsevere\nmild, cough\nmild, tired\n",  # one column with commas
        '"age\n(years)",sex\n1,f\n2,m\n3,f\n',
        "#id,sex\n1,f\n2,m\n3,f\n",
    ],
)
def test_what_is_no_title_stays(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    if text.startswith("note"):
        with fails(InputError, "ragged-rows"):
            read_table(tmp_path / "a.csv")
    else:
        assert read_table(tmp_path / "a.csv").rows == 3


def test_a_last_row_with_one_value_stays(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1,2\n3,4\n5,6\n7,\n")
    assert contents(read_table(tmp_path / "a.csv"))["u"][1] == [1, 3, 5, 7]


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["31.01.2020 14:30", "01.02.2020 00:00"], [18292 + 14.5 / 24, 18293]),
        (["2020/01/31 06:00:00", "2020/02/01 00:00:00"], [18292.25, 18293]),
        (["01/31/2020 02:30 PM", "02/01/2020 12:00 AM"], [18292 + 14.5 / 24, 18293]),
        (["2020-01-31T12:00:00.0Z", "2020-02-01T02:00:00+02:00"], [18292.5, 18293]),
        (["31-01-2020 18:00", "01-02-2020 00:00:00"], [18292.75, 18293]),
        (["2020-01", "2020-02"], [18262, 18293]),
        (["Jan 2020", "Feb 2020"], [18262, 18293]),
        (["20200131", "20200201", "20200301"], [18292, 18293, 18322]),
        (["31JAN2020", "01FEB2020"], [18292, 18293]),
        (["Jan-31-2020", "Feb-1-2020"], [18292, 18293]),
        (["2020Q1", "2019Q4"], [18262, 18170]),
        (["Q1 2020", "Q42019"], [18262, 18170]),
    ],
)
def test_dates_with_times_and_without_days(tmp_path, texts, days):
    (tmp_path / "a.csv").write_text("seen\n" + "\n".join(texts) + "\n")
    column = read_table(tmp_path / "a.csv")["seen"]
    assert column.kind == "date"
    np.testing.assert_allclose(column.values, days, rtol=1e-12)


def test_times_of_day_are_hours(tmp_path):
    (tmp_path / "a.csv").write_text("seen\n6:30\n?\n18:45:36\n2:15 PM\n")
    column = read_table(tmp_path / "a.csv")["seen"]
    assert column.kind == "number"
    np.testing.assert_allclose(column.values, [6.5, np.nan, 18.76, 14.25])
    (tmp_path / "b.csv").write_text("titre,part\n1:20,4711Q2\n1:40,4711Q3\n1:20,4712Q1\n")
    found = contents(read_table(tmp_path / "b.csv"))
    assert found["titre"][0] == found["part"][0] == "category"


def test_large_numbers_are_no_dates():
    for values in ([20200131, 20201341, 20200201], [19_000_000, 20_000_000, 20_500_000]):
        assert read_table(pd.DataFrame({"sold": values}))["sold"].kind == "number"


@pytest.mark.parametrize(
    ("texts", "values", "said"),
    [
        (["12%", "7.5 %", "0%"], [12, 7.5, 0], "of %"),
        (['"$1,200"', "$15", "$0.50"], [1200, 15, 0.5], "of $"),
        (["70 kg", "65.5 kg", "81 kg"], [70, 65.5, 81], "of kg"),
        (["1 234", "12 345", "1"], [1234, 12345, 1], ""),
        (["1'234.5", "\u22122", "3"], [1234.5, -2, 3], ""),
        ([*map(str, range(20)), "<0.5"], [*range(20), 0.5], "limits"),
        (["1", "\\N", "(null)", "#DIV/0!", "2"], [1, np.nan, np.nan, np.nan, 2], ""),
        (["1", "k.A.", "n.d.", "2"], [1, np.nan, np.nan, 2], ""),
    ],
)
def test_numbers_as_programs_write_them(tmp_path, texts, values, said):
    (tmp_path / "a.csv").write_text("u,v\n" + "".join(f"{text},1\n" for text in texts))
    table = read_table(tmp_path / "a.csv")
    assert table["u"].kind == "number"
    np.testing.assert_array_equal(table["u"].values, values)
    assert len(table.notes) == bool(said)
    assert said in "".join(table.notes)


@pytest.mark.parametrize(
    "texts",
    [["70 kg", "154 lb"], ["<2", "2", ">2"], ["12A", "13B"], ["1st", "2nd"], ["E11", "I10"]],
)
def test_texts_that_only_look_like_numbers(tmp_path, texts):
    (tmp_path / "a.csv").write_text("u,v\n" + "".join(f"{text},1\n" for text in texts))
    assert read_table(tmp_path / "a.csv")["u"].kind == "category"


def test_codes_with_zeros_in_front_are_no_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("zip,month,dose\n01234,01,0010\n98765,12,25\n00501,07,3.5\n")
    found = contents(read_table(tmp_path / "a.csv"))
    assert found["zip"] == ("category", ["01234", "98765", "00501"])
    assert found["month"][0] == found["dose"][0] == "number"


def test_a_limit_is_a_number_where_a_user_says_that_the_column_holds_numbers():
    frame = pd.DataFrame({"crp": ["<0.5", "2", "3.5", "haemolysed", None, ">200"]})
    table = set_kinds(read_table(frame), (), ("crp",))
    np.testing.assert_array_equal(table["crp"].values, [0.5, 2, 3.5, np.nan, np.nan, 200])
    assert "1 values" in table.notes[0]


def test_points_in_money_beside_decimal_commas_separate_thousands(tmp_path):
    path = tmp_path / "rom.csv"
    path.write_text("bmi;cost\n20,5;1.073 \u20ac\n21,5;954 \u20ac\n22,5;12.345 \u20ac\n")
    table = read_table(path)
    np.testing.assert_array_equal(table["cost"].values, [1073, 954, 12345])
    path.write_text("bmi;cost\n20,5;1.07 \u20ac\n21,5;954 \u20ac\n")
    with fails(InputError, "mixed-decimals"):
        read_table(path)


@pytest.mark.parametrize(
    "text", ["type\xa0A", "\ufefftype A", "type\nA", "type \u200bA", "ty\xadpe A"]
)
def test_a_level_with_spaces_that_cannot_be_seen_is_a_level(text):
    column = read_table(pd.DataFrame({"kind": [text, "type A", "B"] * 12}))["kind"]
    assert column.levels == ("B", "type A")
    assert profile(pd.DataFrame({"kind": [text, "B"] * 12}))["kind"].levels == ("B", "type A")


def test_dates_may_be_chosen_as_a_category():
    frame = pd.DataFrame({"wave": pd.to_datetime(["2020-01-31", None, "2020-02-29"])})
    (column,) = set_kinds(read_table(frame), ("wave",), ()).columns
    assert (column.kind, column.levels) == ("category", ("2020-01-31", "2020-02-29"))
    assert column.values.tolist() == [0, -1, 1]
