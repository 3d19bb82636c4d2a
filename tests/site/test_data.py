"""Arrays, frames and files: read right, or refused in one sentence."""

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fedwad
from failing import fails
from fedwad.errors import InputError
from fedwad.federation import Columns, SummaryRequest, local, open_client, read

X = np.array([[1.0, 2.5], [3.0, -4.0], [5.0, 6.0]])
LABELS = ["a", "b", "a"]


def write(folder, name):
    """X (and labels where the format has room for them) in the format of `name`."""
    path = folder / name
    frame = pd.DataFrame(X, columns=["u", "v"])
    if name.endswith(".npy"):
        np.save(path, X.astype(np.float32))
    elif name.endswith(".npz"):
        np.savez(path, X=X, y=np.array(LABELS), other=np.zeros(9))
    elif name.endswith(".csv"):
        frame.assign(kind=LABELS).to_csv(path, index=False)
    else:
        frame.assign(kind=LABELS).to_parquet(path)
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.parquet", "A.CSV"])
def test_every_format(tmp_path, name):
    column = "kind" if name.lower().endswith((".csv", ".parquet")) else None
    data = read(
        write(tmp_path, name)
        if name != "A.CSV"
        else write(tmp_path, "x.csv").rename(tmp_path / name),
        columns=Columns(column),
    )
    np.testing.assert_array_equal(data.measure.points, X)
    if not name.endswith(".npy"):
        assert data.labels.tolist() == LABELS


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(frame):
    table = frame({"u": X[:, 0], "v": X[:, 1], "flag": [True, False, True], "kind": LABELS})
    data = read(table, columns=Columns("kind"))
    assert data.measure.points.shape == (3, 3)
    assert data.labels.tolist() == LABELS


def test_a_pair_is_data_and_labels():
    assert read((X, LABELS)).labels.tolist() == LABELS
    assert read((pd.DataFrame(X, columns=["u", "v"]), LABELS)).measure.points.shape == (3, 2)
    with fails(InputError, "wrong-shape"):
        read((X, [1, 2]))


def test_a_csv_of_bare_numbers_has_no_header(tmp_path):
    (tmp_path / "a.csv").write_text("1,2.5\n3,-4\n5,6\n")
    points = read(tmp_path / "a.csv", columns=Columns(header=False)).measure.points
    np.testing.assert_array_equal(points, X)


def test_weights_in_an_npz_drop_samples_of_weight_zero_with_their_labels(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=np.array(LABELS), weights=[1.0, 0.0, 3.0])
    data = read(tmp_path / "a.npz")
    assert data.measure.weights.tolist() == [0.25, 0.75]
    assert data.labels.tolist() == ["a", "a"]


def test_a_single_array_in_an_npz_needs_no_name(tmp_path):
    np.savez(tmp_path / "a.npz", whatever=X)
    np.testing.assert_array_equal(read(tmp_path / "a.npz").measure.points, X)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", "", ("empty-table",)),
        ("a.csv", "u,v\n", ("empty-table",)),
        ("a.csv", "u,v\n1,2\n3,\n4,5\n6,\n", ("missing-values", "v")),
        ("a.csv", "u,city\n1,Paris\n2,Oslo\n", ("not-a-number", "city")),
        (
            "a.csv",
            "u,v\n1,2\n3,varies\n4,5\n",
            ("not-a-number", "v"),
        ),
        (
            "a.csv",
            "id,u,city\nA1,1,Paris\nA2,2,Oslo\n",
            ("not-a-number", "id"),
        ),
        (
            "a.csv",
            "u,v\n1,2\n3,inf\n",
            ("infinite-values", "v"),
        ),
        ("a.csv", ",u\n0,1\n1,2\n", ("bad-name",)),
        ("a.csv", "u,v,u\n1,2,3\n", ("repeated-column", "u")),
        ("a.csv", "u,v\n1,2\n3\n", ("ragged-rows",)),
        ("a.npy", "nonsense", ("unreadable-file",)),
        ("a.npy", "", ("unreadable-file",)),
        ("a.npz", "nonsense", ("unreadable-file",)),
        ("a.parquet", "nonsense", ("unreadable-file",)),
        ("a.doc", "1 2", ("unknown-format",)),
        ("missing.csv", None, ("no-such-file", "There")),
    ],
)
def test_wrong_files_get_one_sentence(tmp_path, name, content, problem):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with fails(InputError, *problem) as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings_are_read(tmp_path, encoding):
    (tmp_path / "a.csv").write_text("âge,v\n1,2\n3,4\n", encoding=encoding)
    assert read(tmp_path / "a.csv").features == ("âge", "v")


def test_a_folder_without_tables_is_refused(tmp_path):
    with fails(InputError, "not-a-table"):
        read(tmp_path)


def test_tables_from_files_need_no_pandas(tmp_path):
    """PyArrow imports it for to_numpy: seconds, and Ctrl-C in the meantime left the process waiting
    for ever."""
    (tmp_path / "a.csv").write_text(
        "u,flag,whole,kind,code\n1.5,true,9007199254740993,a,1\n-2,false,4,b,2\n"
    )
    code = f"""
import sys
from fedwad.federation import Columns, SummaryRequest, local, open_client, read
data = read({str(tmp_path / "a.csv")!r}, columns=Columns("kind"))
print((data.measure.points.tolist(), data.labels.tolist()))
print("pandas" in sys.modules)
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert (
        printed[0] == "([[1.5, 1.0, 9007199254740992.0, 1.0], [-2.0, 0.0, 4.0, 2.0]], ['a', 'b'])"
    )
    assert printed[-1] == "False"


def test_object_arrays_are_not_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with fails(InputError, "unreadable-file"):
        read(tmp_path / "a.npy")


def test_npz_without_a_name_for_the_samples(tmp_path):
    np.savez(tmp_path / "a.npz", left=X, right=X)
    with fails(InputError, "wrong-format"):
        read(tmp_path / "a.npz")


def test_label_columns(tmp_path):
    with fails(InputError, "unknown-column", "sort"):
        read(write(tmp_path, "a.csv"), columns=Columns("sort"))
    with fails(InputError, "unknown-column", "Kind"):
        read(write(tmp_path, "a.csv"), columns=Columns("Kind"))
    (tmp_path / "b.csv").write_text("u,kinds\n1,2\n")
    with fails(InputError, "unknown-column", "kind"):
        read(tmp_path / "b.csv", columns=Columns("kind"))
    with fails(InputError, "no-columns"):
        read(write(tmp_path, "a.npy"), columns=Columns("kind"))
    with fails(InputError, "no-columns"):
        read(pd.DataFrame({"kind": LABELS}), columns=Columns("kind"))


NO_HEADER = Columns(header=False)


@pytest.mark.parametrize(
    "content",
    ["0,1\n1,2\n", "1,0\n1,2\n", "0\n6.5\n", "7,,3\n1,2,3\n", ",NA,3\n1,2,3\n", "x,3\ny,4\n"],
)
def test_a_first_line_with_numbers_is_refused_until_somebody_says_what_it_is(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    for columns in (Columns(), Columns(drop=("",)), Columns("f0")):
        with fails(InputError, "no-columns"):
            read(tmp_path / "a.csv", columns=columns)


@pytest.mark.parametrize("content", ["1\t2\n3\t4\n", "1;2\n3;4\n"])
def test_other_separators_are_read(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    points = read(tmp_path / "a.csv", columns=NO_HEADER).measure.points
    np.testing.assert_array_equal(points, [[1, 2], [3, 4]])


def test_no_sample_is_quoted_where_no_separator_is_found(tmp_path):
    (tmp_path / "a.csv").write_text("1 2\n3 4\n")
    with fails(InputError, "not-a-table") as caught:
        read(tmp_path / "a.csv")
    assert "1" not in str(caught.value).replace(str(tmp_path), "")


def test_a_first_line_with_a_missing_value_is_data(tmp_path):
    (tmp_path / "a.csv").write_text("NA,1.5\n2,3\n")
    with fails(InputError, "missing-values"):
        read(tmp_path / "a.csv", columns=NO_HEADER)


@pytest.mark.parametrize(
    "columns", [Columns("f0"), Columns(drop=("f1",)), Columns("kind", ("F0",))]
)
def test_bare_numbers_have_no_names_to_drop_or_label_by(tmp_path, columns):
    (tmp_path / "a.csv").write_text("1,2.5\n3,-4\n5,6\n")
    with fails(InputError, "no-columns") as caught:
        read(tmp_path / "a.csv", columns=replace(columns, header=False))
    assert [*columns.drop, columns.label][0] in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            "1,2.5\n3,\n5,6\n",
            "missing-values",
        ),
        ("1,2.5\n3,inf\n5,6\n", "infinite-values"),
        (
            "1,2.5\n3,x\n5,6\n",
            "not-a-number",
        ),
    ],
)
def test_columns_without_names_are_stated_by_their_place(tmp_path, content, problem):
    (tmp_path / "a.csv").write_text(content)
    with fails(InputError, problem) as caught:
        read(tmp_path / "a.csv", columns=NO_HEADER)
    assert "--drop" not in str(caught.value)


def test_bare_numbers_fit_any_names(tmp_path):
    (tmp_path / "a.csv").write_text("1,2.5\n3,-4\n5,6\n")
    frame = pd.DataFrame(X, columns=["u", "v"])
    fed = fedwad.local({"a": tmp_path / "a.csv", "b": frame}, header=False)
    assert fedwad.distance(fed["a"], fed["b"], method="summary").value == 0.0


def test_columns_with_numbers_for_names_are_named_too():
    here = pd.DataFrame(X)
    fed = fedwad.local({"a": here, "b": here[[1, 0]]})
    assert fedwad.distance(fed["a"], fed["b"], method="summary").value == 0.0
    with fails(InputError, "unknown-column", "1"):
        read(here, columns=Columns(1))


def test_a_saved_row_index_is_not_a_feature(tmp_path):
    pd.DataFrame(X, columns=["u", "v"]).to_csv(tmp_path / "a.csv")
    with fails(InputError, "bad-name"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize("names", [[0, 1], [2020, 2021], [-1, 7]])
def test_a_saved_row_index_before_names_that_are_numbers(tmp_path, names):
    """The first line is ',2020,2021': it must never count as a sample."""
    frame = pd.DataFrame(X, columns=names)
    frame.to_csv(tmp_path / "a.csv")
    with fails(InputError, "no-columns"):
        read(tmp_path / "a.csv")
    named = Columns(header=True)
    with fails(InputError, "bad-name"):
        read(tmp_path / "a.csv", columns=named)
    data = read(tmp_path / "a.csv", columns=replace(named, drop=("",)))
    np.testing.assert_array_equal(data.measure.points, X)
    assert data.features == tuple(map(str, names))
    labelled = read(tmp_path / "a.csv", columns=replace(named, label=str(names[1]), drop=("",)))
    assert labelled.labels.tolist() == X[:, 1].tolist()


def test_columns_are_matched_by_name():
    here = pd.DataFrame(X, columns=["u", "v"])
    fed = fedwad.local({"a": here, "b": here[["v", "u"]]}, schema=None)
    assert fedwad.distance(fed["a"], fed["b"], method="summary").value == 0.0
    with fails(InputError, "different-columns"):
        fedwad.local({"a": here, "b": here.rename(columns={"v": "w"})}, schema=None)


def test_messages_do_not_quote_the_data(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1,2\n3,4,SECRET\n")
    with fails(InputError, "ragged-rows") as caught:
        read(tmp_path / "a.csv")
    assert "SECRET" not in str(caught.value)


def test_integers_beyond_doubles_are_rounded(tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n9007199254740993,1\n3,4\n")
    assert read(tmp_path / "a.csv").measure.points[0, 0] == 9007199254740992.0


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame([[1, 2]], columns=["u", "u"]),
        pl.LazyFrame({"u": [1.0]}),
        pa.table([[1.0], [2.0]], names=["u", "u"]),
        ([[1, 2], [3]], [0, 1]),
        (X, [[1], [2, 3], [4]]),
    ],
)
def test_tables_that_make_no_sense(table):
    with pytest.raises(InputError):
        read(table)


@pytest.mark.parametrize("data", [[X, X], None, X])
def test_local_wants_names(data):
    with fails(InputError, "bad-option"):
        fedwad.local(data)


def test_local_wants_different_names():
    with fails(InputError, "repeated-site"):
        fedwad.local({1: X, "1": X})


@pytest.mark.parametrize("key", ["weights", "y"])
def test_an_npz_without_samples(tmp_path, key):
    np.savez(tmp_path / "a.npz", **{key: np.ones(3)})
    with fails(InputError, "wrong-format"):
        read(tmp_path / "a.npz")


def test_a_path_that_is_too_long():
    with fails(InputError, "no-such-file", "There"):
        read("x" * 300 + ".csv")


def test_another_column_is_named():
    here = pd.DataFrame(X, columns=["u", "v"])
    with fails(InputError, "different-columns"):
        fedwad.local({"a": here, "b": here.assign(id=[1, 2, 3])}, schema=None)


def test_tables_with_a_label_column_in_python():
    table = pd.DataFrame(X, columns=["u", "v"]).assign(kind=LABELS)
    fed = fedwad.local({"a": table, "b": table}, label_column="kind")
    assert fedwad.distance(fed["a"], fed["b"], method="summary").value == 0.0


@pytest.mark.parametrize(
    "options", [{"method": "summary"}, {"method": "fedwad", "support": 4, "rounds": 3}]
)
def test_the_order_of_rows_makes_no_difference(options):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((120, 3)), rng.standard_normal((90, 3)) + 1
    x[5] = 0.0
    shuffled = rng.permutation(np.where(x == 0, -0.0, x))
    one, other = fedwad.distance(x, y, **options), fedwad.distance(shuffled, y, **options)
    assert (one.value, one.lower, one.upper) == (other.value, other.lower, other.upper)
    assert fedwad.distance(x, shuffled, **options).value == 0.0


def test_labels_stay_with_their_samples():
    data = read((X[::-1], ["c", "b", "a"])).canonical()
    again = read((X, ["a", "b", "c"])).canonical()
    assert data.labels.tolist() == again.labels.tolist()
    np.testing.assert_array_equal(data.measure.points, again.measure.points)


def test_frames_and_paths_given_to_wasserstein():
    here = pd.DataFrame(X, columns=["u", "v"])
    assert fedwad.wasserstein(here, here) == 0.0
    with fails(InputError, "different-columns"):
        fedwad.wasserstein(here, here[["v", "u"]])
    with fails(InputError, "not-an-array"):
        fedwad.wasserstein("a.csv", here)


def test_rows_sort_as_numbers():
    points = np.array(
        [
            [1.0, 2.0],
            [-3.0, 1.0],
            [1e-300, 0.0],
            [-1e-300, 5.0],
            [1.0, -2.0],
            [0.0, 7.0],
            [-1e99, 0.0],
        ]
    )
    np.testing.assert_array_equal(
        read(points).canonical().measure.points, points[np.lexsort(points.T[::-1])]
    )


def test_a_site_needs_little_memory_beside_its_data():
    """Beside the data of its caller a site holds one sorted copy, and works in blocks."""
    points = np.random.default_rng(0).standard_normal((200_000, 20))
    request = {"a": SummaryRequest(10, "auto", 2.0, 0)}
    local({"a": points[:3000]}).ask(request)  # loads what is loaded at first use
    tracemalloc.start()
    try:
        local({"a": points}).ask(request)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * points.nbytes


def test_named_features_have_one_order_in_process_and_on_nodes(tmp_path):
    """The same tables give the same bits, whatever the order of columns, here and beside the
    data."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 40, 3))
    for order in (("b", "a", "c"), ("c", "b", "a")):
        places = ["abc".index(name) for name in order]
        head = ",".join(order)
        for name, points in (("paris", X), ("oslo", Y)):
            np.savetxt(
                tmp_path / f"{name}-{order[0]}.csv",
                points[:, places],
                delimiter=",",
                header=head,
                comments="",
                fmt="%.17g",
            )
    found, encoded = [], []
    for first, second in (("b", "b"), ("c", "b"), ("b", "c")):
        files = {"p": tmp_path / f"paris-{first}.csv", "o": tmp_path / f"oslo-{second}.csv"}
        agreed = local(files)
        encoded.append(fedwad.distance(agreed["p"], agreed["o"], method="summary").value)
        fed = local(files, schema=None)
        assert fed.features == ("a", "b", "c")
        found.append(fedwad.distance(fed["p"], fed["o"], method="summary").value)
    assert len(set(found)) == len(set(encoded)) == 1
    (tmp_path / "policy.toml").write_text('name = "p"\nallow = ["summary"]')
    node = open_client(tmp_path / "paris-c.csv", tmp_path / "policy.toml")
    request = SummaryRequest(5, "full", 2.0, 0)
    here = fed.ask({"p": request})["p"]
    np.testing.assert_array_equal(node.answer(request).summary.means, here.summary.means)


def test_an_npz_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1_000_000, 2)))
    monkeypatch.setattr("fedwad.tables.csv.largest_size", lambda: 1_000_000)
    with fails(InputError, "too-large"):
        read(tmp_path / "a.npz")


def test_a_path_at_which_nothing_is(tmp_path):
    for data in (tmp_path / "nope", {"a": tmp_path / "nope"}, [tmp_path / "nope"]):
        with fails(InputError, "no-such-file") as caught:
            fedwad.local(data)
        assert "There is no file at" in str(caught.value)
    (tmp_path / "empty").mkdir()
    with fails(InputError, "no-such-file") as caught:
        fedwad.local(tmp_path / "empty")
    assert str(tmp_path / "empty") in str(caught.value)
