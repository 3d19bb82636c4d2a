"""Columns that are dropped: as if the table had never had them, whatever they hold, here and on the
way to a server."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.federation import (
    AtomsRequest,
    CellsRequest,
    Client,
    Columns,
    ColumnsRequest,
    DescribeRequest,
    Envelope,
    Failure,
    LabelsRequest,
    Policy,
    PrivateRequest,
    PrototypesRequest,
    SummaryRequest,
    TransportRequest,
    open_client,
    pack,
    read,
    unpack,
)
from fedwad.transport import Measure

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"u": RNG.normal(size=40), "v": RNG.normal(size=40), "kind": ["a", "b"] * 20})
#: Text, numbers beside text, holes in both.
FULL = TABLE.assign(
    patient_id=[f"P{k}" for k in range(40)],
    account=[None if k % 7 == 0 else 9_876_543.0 + k for k in range(40)],
    visit=[None, "first"] * 20,
)[["patient_id", "u", "account", "v", "kind", "visit"]]
OTHERS = ("patient_id", "account", "visit")


def same(one, other):
    np.testing.assert_array_equal(one.measure.points, other.measure.points)
    assert one.features == other.features
    assert (one.labels is None) == (other.labels is None)
    assert one.labels is None or one.labels.tolist() == other.labels.tolist()


# --- what a user gives
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "drop", ["id", ["id"], ("id", "id"), {"id"}, iter(["id"]), np.array(["id"]), pd.Index(["id"])]
)
def test_one_name_or_several_and_twice_is_once(drop):
    assert Columns.of("kind", drop) == Columns("kind", ("id",))


def test_nothing_is_dropped_unless_named():
    assert Columns.of() == Columns.of(None, None) == Columns.of(drop=[]) == Columns()


@pytest.mark.parametrize(
    "columns", [Columns(), Columns("kind"), Columns(drop=("id", "x")), Columns("kind", ("id",))]
)
def test_words_say_all_of_it(columns):
    assert Columns.of(**columns.to_options()) == columns


@pytest.mark.parametrize(
    ("label", "drop", "problem"),
    [
        (None, 3, ("bad-option", "drop")),
        (None, ["id", 3], ("bad-option",)),
        (
            "kind",
            ["id", "kind"],
            ("conflicting-options",),
        ),
    ],
)
def test_what_makes_no_sense_is_refused(label, drop, problem):
    with fails(InputError, *problem):
        Columns.of(label, drop)


# --- tables
# ----------------------------------------------------------------------------------------------------------


def written(folder, name, table):
    table.to_csv(folder / name, index=False) if name.endswith(".csv") else table.to_parquet(
        folder / name
    )
    return folder / name


@pytest.mark.parametrize(
    "make", ["a.csv", "a.parquet", pd.DataFrame, pl.DataFrame, pa.Table.from_pandas]
)
def test_dropped_columns_may_hold_anything(tmp_path, make):
    source = written(tmp_path, make, FULL) if isinstance(make, str) else make(FULL)
    same(read(source, columns=Columns("kind", OTHERS)), read(TABLE, columns=Columns("kind")))


def test_dropping_is_not_by_place():
    """A pandas frame with text in its index, and columns in another order than they are named
    in."""
    table = FULL[list(FULL.columns[::-1])].set_index(np.array([f"row {k}" for k in range(40)]))
    same(
        read(table, columns=Columns("kind", OTHERS)),
        read(TABLE[["kind", "v", "u"]], columns=Columns("kind")),
    )


@settings(max_examples=60)
@given(st.data(), st.integers(1, 6), st.sampled_from([".csv", ".parquet"]))
def test_as_if_the_table_had_never_had_them(data, rows, ending):
    features = data.draw(st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=3, unique=True))
    dropped = data.draw(
        st.lists(st.sampled_from(["id", "last name", "Größe", "a,b", "-x", "it's"]), unique=True)
    )
    label = data.draw(st.sampled_from([None, "kind"]))
    numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
    content = {
        name: data.draw(st.lists(numbers, min_size=rows, max_size=rows)) for name in features
    }
    content |= (
        {}
        if label is None
        else {label: data.draw(st.lists(st.sampled_from("ab"), min_size=rows, max_size=rows))}
    )
    odd = st.one_of(
        st.lists(st.sampled_from(["x", None, "7"]), min_size=rows, max_size=rows),
        st.just([1] * rows),
    )
    content |= {name: data.draw(odd) for name in dropped}
    order = data.draw(st.permutations(list(content)))
    whole = pd.DataFrame(content)[order]
    with tempfile.TemporaryDirectory() as place:
        full = written(Path(place), "full" + ending, whole)
        less = written(Path(place), "less" + ending, whole.drop(columns=dropped))
        same(read(full, columns=Columns.of(label, dropped)), read(less, columns=Columns.of(label)))


def test_a_saved_row_index_can_be_dropped(tmp_path):
    TABLE.to_csv(tmp_path / "a.csv")
    with fails(InputError, "bad-name"):
        read(tmp_path / "a.csv", columns=Columns("kind"))
    same(
        read(tmp_path / "a.csv", columns=Columns.of("kind", "")),
        read(TABLE, columns=Columns("kind")),
    )


COUNTED = TABLE.set_index(pd.RangeIndex(5000, 5040))
INDEXED = {
    "counted": COUNTED,
    "filtered": COUNTED[COUNTED.u > 0],
    "shuffled": COUNTED.sample(frac=1.0, random_state=0),
    "named": TABLE.set_index(pd.Index([9000 + k * k for k in range(40)], name="patient")),
    "without a word": TABLE.set_index(pd.Index([9000 + k * k for k in range(40)], name="")),
    "text": TABLE.set_index(pd.Index([f"P{k}" for k in range(40)])),
    "days": TABLE.set_index(pd.date_range("2020-01-01", periods=40, name="day")),
    "several": TABLE.set_index([pd.Index(np.arange(40), name="patient"), pd.Index([7, 8] * 20)]),
}


@pytest.mark.parametrize("kind", INDEXED)
@pytest.mark.parametrize("stored", ["file", "arrow"])
def test_the_index_of_a_frame_is_no_feature_when_stored(tmp_path, kind, stored):
    frame = INDEXED[kind]
    source = (
        written(tmp_path, "a.parquet", frame) if stored == "file" else pa.Table.from_pandas(frame)
    )
    data = read(source, columns=Columns("kind"))
    assert data.features == ("u", "v")
    same(data, read(frame, columns=Columns("kind")))


def test_a_stored_index_can_be_the_label_or_dropped_by_name(tmp_path):
    frame = TABLE.drop(columns="v").set_index("kind")
    path = written(tmp_path, "a.parquet", frame)
    data = read(path, columns=Columns("kind"))
    assert data.features == ("u",)
    assert data.labels.tolist() == TABLE.kind.tolist()
    same(read(path, columns=Columns(drop=("kind",))), read(frame))
    filtered = written(tmp_path, "b.parquet", INDEXED["filtered"])
    same(
        read(filtered, columns=Columns("kind", ("__index_level_0__",))),
        read(INDEXED["filtered"], columns=Columns("kind")),
    )
    with fails(InputError, "unknown-column", "room"):
        read(filtered, columns=Columns("room"))


def test_a_table_of_nothing_but_an_index(tmp_path):
    path = written(tmp_path, "a.parquet", TABLE[["u"]].set_index("u"))
    with fails(InputError, "no-columns"):
        read(path)


@pytest.mark.parametrize(
    "words", [b"", b"{", b"[]", b"{}", b'{"index_columns": 3}', b'{"index_columns": [{}, 1, "w"]}']
)
def test_metadata_that_pandas_did_not_write(words):
    table = pa.table({"u": [1.0, 2.0], "v": [3.0, 4.0]}).replace_schema_metadata({b"pandas": words})
    assert read(table).features == ("u", "v")


def test_a_pair_of_a_table_and_labels():
    same(
        read((FULL.drop(columns="kind"), TABLE.kind), columns=Columns(drop=OTHERS)),
        read((TABLE[["u", "v"]], TABLE.kind)),
    )


@pytest.mark.parametrize(
    ("label", "drop", "problem"),
    [
        (
            "kind",
            "room",
            ("unknown-column", "room"),
        ),
        (
            "kind",
            "Patient_ID",
            ("unknown-column", "Patient_ID"),
        ),
        (
            None,
            list(FULL),
            ("no-columns", "patient_id"),
        ),
        ("kind", [*OTHERS, "u", "v"], ("no-columns",)),
        (
            "kind",
            [],
            ("not-a-number",),
        ),
        (
            "kind",
            ["patient_id", "visit"],
            ("missing-values", "account"),
        ),
        (
            None,
            OTHERS,
            ("not-a-number", "kind"),
        ),
    ],
)
def test_wrong_drops_get_one_sentence(tmp_path, label, drop, problem):
    with fails(InputError, *problem) as caught:
        read(written(tmp_path, "a.csv", FULL), columns=Columns.of(label, drop))
    assert "\n" not in str(caught.value)


def test_the_option_is_named_as_a_shell_takes_it():
    with fails(InputError, "not-a-number"):
        read(TABLE.rename(columns={"kind": "last name"}))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "array", "measure", "dataset", "pair"])
def test_what_has_no_named_columns_cannot_drop_any(tmp_path, name):
    points = TABLE[["u", "v"]].to_numpy()
    np.save(tmp_path / "a.npy", points)
    np.savez(tmp_path / "a.npz", u=points)
    others = {
        "array": points,
        "measure": Measure(points),
        "dataset": read(points),
        "pair": (points, TABLE.kind),
    }
    with fails(InputError, "no-columns"):
        read(others.get(name, tmp_path / name), columns=Columns(drop=("u",)))


# --- doors
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Column .u. makes")  # it was moved, and is one of two
def test_a_federation_here(tmp_path):
    files = {
        name: written(tmp_path, f"{name}.csv", FULL.assign(u=FULL.u + k))
        for k, name in enumerate(("a", "b"))
    }
    fed = fedwad.local(files, label_column="kind", drop=OTHERS)
    less = fedwad.local({"a": TABLE, "b": TABLE.assign(u=TABLE.u + 1)}, label_column="kind")
    assert fed.features == less.features == ("u", "v")
    for labels in (False, True):
        one, other = (
            fedwad.distance(both["a"], both["b"], method="summary", labels=labels)
            for both in (fed, less)
        )
        assert (one.value, one.lower, one.upper) == (other.value, other.lower, other.upper)


def test_the_file_that_lacks_a_column_is_named(tmp_path):
    files = {
        "a": written(tmp_path, "a.csv", FULL),
        "b": written(tmp_path, "b.csv", FULL.drop(columns="visit")),
    }
    with fails(InputError, "unknown-column", "visit"):
        fedwad.local(files, label_column="kind", drop=OTHERS)
    with fails(InputError, "unknown-column", "visit"):
        fedwad.local({"a": FULL, "b": FULL.drop(columns="visit")}, label_column="kind", drop=OTHERS)


def test_an_audit(tmp_path):
    full = fedwad.audit(
        written(tmp_path, "a.csv", FULL), method="summary", label_column="kind", drop=OTHERS
    )
    assert full.n_features == 2
    assert full.to_dict() == fedwad.audit(TABLE, method="summary", label_column="kind").to_dict()


def _questions():
    support = Measure(np.random.default_rng(1).standard_normal((4, 2)))
    return [
        DescribeRequest(),
        ColumnsRequest(),
        SummaryRequest(3, "full", 2.0, 0),
        SummaryRequest(1, "auto", 2.0, 0, "diag"),
        TransportRequest("run", support, 2.0, 0.5, "barycentric", True),
        CellsRequest("run", support, 2.0, "auto"),
        AtomsRequest(support.points, np.zeros(4), 0.0),
        LabelsRequest(),
        PrototypesRequest(2, "class", "equal", 0),
        PrivateRequest.of(fedwad.DP(1.0, clip_norm=1.0)),
    ]


def test_nothing_of_dropped_columns_travels(tmp_path):
    """Each message that a client writes is, bit for bit, that of a client whose file never had
    them."""
    data, policy = written(tmp_path, "paris.csv", FULL), tmp_path / "paris.toml"
    policy.write_text('name = "paris"\nallow = []\n')
    assert open_client(data, policy, label_column="kind", drop=OTHERS).respond(
        pack(Envelope(ColumnsRequest()))
    )
    rules = Policy.open()
    full = Client(read(data, columns=Columns("kind", OTHERS)).sort_features(), rules)
    less = Client(read(TABLE, columns=Columns("kind")).sort_features(), rules)
    for question in _questions():
        message = pack(Envelope(question, "request_id"))
        reply = full.respond(message)
        assert not isinstance(unpack(reply).content, Failure), question
        if not isinstance(question, PrivateRequest):  # whose noise nobody can repeat
            assert reply == less.respond(message), question
        for name in OTHERS:
            assert name.encode() not in reply
        assert b"P1" not in reply
        assert np.float64(9_876_544.0).tobytes() not in reply
    assert full.respond(pack(Envelope(DescribeRequest()))) != Client(
        read(FULL.drop(columns=["patient_id", "visit", "kind"]).fillna(0.0)).sort_features(), rules
    ).respond(pack(Envelope(DescribeRequest())))


def test_files_of_the_same_name_are_different_sites(tmp_path):
    """Once failed. Of two files with one name, a schema was about the last alone."""
    (tmp_path / "paris.csv").write_text("age\n1.5\n2.5\n3.5\n")
    (tmp_path / "paris.tsv").write_text("age\n7.5\n8.5\n9.5\n")
    assert fedwad.schema(tmp_path)["age"].centre == pytest.approx(5.5)


def test_auto_and_none_may_come_as_paths():
    assert Columns.of(schema=Path("auto")).schema == "auto"
    assert Columns.of(schema=Path("none")).schema is None


def test_labels_beside_a_table_and_a_label_column_in_it():
    with fails(InputError, "conflicting-options", "kind"):
        fedwad.local({"paris": (TABLE, np.arange(40) % 2)}, label_column="kind")


@pytest.mark.parametrize("policy", [Policy.open(), Policy(("private",), epsilon=1.0)])
def test_a_table_without_any_value_is_encoded(policy):
    levels = pa.table({"level": ["a", "b", None, "b"] * 10})
    empty = pa.table({"level": pa.array([None] * 40, pa.string())})
    schema = fedwad.schema({"paris": levels})
    assert len(fedwad.local({"oslo": empty}, policy, schema=schema)) == 1
