"""The file as written: complete, self-contained, harmless."""

import base64
import hashlib
import json
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hostile import HOSTILE, NASTY

import fedwad
import fedwad.privacy
from failing import fails
from fedwad.compare import percent
from fedwad.compare.shown import ShownMatrix
from fedwad.federation import Traffic
from fedwad.report import write_report
from fedwad.report.page._matrix_view import MatrixView
from fedwad.statistics.testing import PermutationTest
from oracles import options_of

VOID = {"meta", "link", "input"}
WEB = re.compile(r"https?:|//\w+\.|@import|url\(", re.IGNORECASE)
TOUCHY = re.compile(
    r"localStorage|sessionStorage|indexedDB|cookie|fetch\(|XMLHttpRequest|innerHTML|eval\(|WebSocket"
)


class Page(HTMLParser):
    """What a browser would make of the file: tags, attributes, text by tag; unbalanced tags are an
    error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.open, self.texts, self.sites = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        self.sites += [value for key, value in attrs if key == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    @property
    def text(self):
        shown = "".join(text for tag, text in self.texts if tag not in ("script", "style", "title"))
        return " ".join(shown.split())


def read(path):
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def check(path, largest):
    """What holds for every page."""
    text, page = read(path)
    assert len(text) < largest
    assert not WEB.search(re.sub(r"data:text/csv[^\"]*", "", text))
    assert not TOUCHY.search(text)
    assert "NaN" not in text
    assert "nan" not in re.findall(
        r"[a-z]+", " ".join(value or "" for _, key, value in page.attributes if key == "d")
    )
    assert len(page.sites) == len(set(page.sites))
    assert page.tags.count("script") == 2
    for tag, key, value in page.attributes:
        assert not key.startswith("on"), (tag, key, value)
        if key in ("href", "src"):
            assert value == "#half" or value.startswith("data:"), (tag, value)
    policy = next(
        value for _, key, value in page.attributes if key == "content" and "default-src" in value
    )
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy
    return text, page


@pytest.mark.parametrize(
    ("size", "largest"),
    [(1, 60_000), (2, 75_000), (3, 75_000), (12, 120_000), (100, 800_000), (200, 2_500_000)],
)
@pytest.mark.parametrize("clustered", [False, True])
def test_matrix_pages_of_every_size(make_matrix, tmp_path, size, largest, clustered):
    matrix, clusters = make_matrix(size)
    write_report(matrix, tmp_path / "report.html", clusters=clusters if clustered else None)
    _, page = check(tmp_path / "report.html", largest)
    assert f"{size} site" in page.text
    assert ("The clusters" in page.text) == (clustered and size > 1)
    assert "1.2 MB" in page.text


def test_every_pair_is_in_the_data_and_the_table(make_matrix, tmp_path):
    matrix, clusters = make_matrix(9)
    write_report(matrix, tmp_path / "report.html", clusters=clusters)
    text, _ = check(tmp_path / "report.html", 120_000)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    k = 0
    for i in range(9):
        for j in range(i + 1, 9):
            value, low, high = matrix.value[i, j], matrix.lower[i, j], matrix.upper[i, j]
            assert data["value"][k] == round(100 * value)
            assert data["lower"][k] == round(100 * low)
            assert data["upper"][k] == round(100 * high)
            assert f"site{i:03d}site{j:03d}{value:.2f}{low:.2f} to {high:.2f}" in re.sub(
                r"<[^>]+>", "", text
            )
            k += 1
    assert k == 36
    assert data["order"] != sorted(data["order"])
    assert sorted(data["order"]) == list(range(9))


def test_names_are_harmless_everywhere(make_matrix, tmp_path):
    matrix, clusters = make_matrix(
        len(NASTY), names=NASTY, failed={HOSTILE: f"said {HOSTILE}"}, covariance_types=(HOSTILE,)
    )
    write_report(
        matrix,
        tmp_path / "report.html",
        clusters=clusters,
        command=f"fedwad {HOSTILE}",
        title=HOSTILE,
    )
    text, page = check(tmp_path / "report.html", 150_000)
    assert HOSTILE in page.text  # as words
    assert "<script>window" not in text
    assert "\u202e" not in text  # nothing turns the direction of what follows
    assert "img" not in page.tags
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert data["names"][0] == HOSTILE
    assert "\x00" not in text


def test_names_are_harmless_on_a_distance(tmp_path):
    rng = np.random.default_rng(0)
    fed = fedwad.local({HOSTILE: rng.normal(size=(40, 2)), "b & c": rng.normal(size=(40, 2))})
    result = fedwad.distance(fed[HOSTILE], fed["b & c"], method="summary")
    write_report(result, tmp_path / "report.html")
    _, page = check(tmp_path / "report.html", 60_000)
    assert f"How far apart are {HOSTILE} and b & c?" in page.text


@pytest.mark.parametrize("reveal", ["every", "last"])
@pytest.mark.parametrize(("t", "estimates"), [(0.5, 3), ("own", 2)])
def test_a_distance_with_rounds(tmp_path, when, reveal, t, estimates):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.normal(1, 1, (50, 3))
    result = fedwad.distance(X, Y, method="fedwad", support=5, rounds=4, reveal=reveal, t=t)
    write_report(result, tmp_path / "report.html", command="fedwad distance a b", when=when)
    _, page = check(tmp_path / "report.html", 60_000)
    assert f"{result.value:.3f}" in page.text
    assert "Show 4 rounds" in page.text
    assert "The command: fedwad distance a b" in page.text
    assert (
        f"Made on 2024-02-29 23:59 UTC by fedwad {fedwad.__version__}, numpy {np.__version__}, Python"
        in page.text
    )
    curves = [
        value
        for tag, key, value in page.attributes
        if (tag, key) == ("path", "class") and "curve " in value
    ]
    # The paper's and ours, in two widths, and the running estimate if the server knows t.
    assert len(curves) == 2 * estimates
    assert ("running estimate" in page.text) == (estimates == 3)


def test_a_distance_without_rounds_and_from_itself(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3))
    for result in (
        fedwad.distance(X, X + 1, method="summary"),
        fedwad.distance(X, X, method="fedwad"),
    ):
        write_report(result, tmp_path / "report.html")
        _, page = check(tmp_path / "report.html", 60_000)
        assert "The rounds" not in page.text


def test_a_real_matrix(tmp_path):
    rng = np.random.default_rng(0)
    data = {
        name: (rng.normal(k // 2, 1, (80, 3)), rng.integers(0, 2, 80))
        for k, name in enumerate("abcd")
    }
    for method in ("summary", "hub", "pairs"):
        matrix = fedwad.matrix(data, labels=True, **options_of(method, 4, rounds=2))
        write_report(matrix, tmp_path / "report.html", clusters=matrix.cluster(2))
        _, page = check(tmp_path / "report.html", 90_000)
        assert ("the paper's estimate" in page.text) == (method == "pairs")
        assert "dataset distance" in page.text


def test_few_samples_and_missing_clients_are_pointed_out(make_matrix, tmp_path):
    def text(**changes):
        write_report(make_matrix(4, **changes)[0], tmp_path / "report.html")
        return read(tmp_path / "report.html")[1].text

    assert "are about only 3 samples" in text(min_cell_size=3)
    assert "is about one sample" in text(min_cell_size=1)
    for enough in (10, None):
        assert "real sites" not in text(min_cell_size=enough)
    assert "1 site did not answer or was left out, and is missing" in text(
        failed={"bergen": "took too long"}
    )
    assert "bergen: took too long" in text(failed={"bergen": "took too long"})
    assert "did not answer" not in text()


def test_what_is_not_known_is_said(make_matrix, tmp_path):
    matrix, clusters = make_matrix(5)
    value, upper = matrix.value.copy(), matrix.upper.copy()
    value[1, 2] = value[2, 1] = np.nan
    upper[0, 3] = upper[3, 0] = np.inf
    write_report(
        replace(matrix, value=value, upper=upper), tmp_path / "report.html", clusters=clusters
    )
    text, page = check(tmp_path / "report.html", 80_000)
    assert "unknown" in page.text
    assert f"at least {matrix.lower[0, 3]:.2f}" in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert data["value"].count(None) == 1
    assert data["upper"].count(None) == 1


@pytest.mark.parametrize("scale", [0.0, 1e-250, 1e-7, 1e9, 1e250])
def test_any_scale(make_matrix, tmp_path, scale):
    matrix, clusters = make_matrix(5)
    scaled = {name: scale * getattr(matrix, name) for name in ("value", "lower", "upper")}
    write_report(replace(matrix, **scaled), tmp_path / "report.html", clusters=clusters)
    check(tmp_path / "report.html", 80_000)


def test_the_same_input_gives_the_same_bytes(make_matrix, tmp_path, when):
    for name in ("a.html", "b.html"):
        matrix, clusters = make_matrix(20)
        write_report(matrix, tmp_path / name, clusters=clusters, when=when)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_mistakes_are_one_sentence_and_leave_the_old_file(make_matrix, tmp_path):
    matrix, _ = make_matrix(4)
    path = tmp_path / "report.html"
    path.write_text("old")
    with fails(fedwad.InputError, "wrong-shape"):
        write_report(matrix, path, clusters=[0, 1, 2])
    with fails(fedwad.InputError, "wrong-shape"):
        write_report(matrix, path, clusters=[0.5, 1, 2, 3])
    with fails(fedwad.InputError, "conflicting-options"):
        write_report(matrix, path, shape=(2, 2))
    result = fedwad.distance([[0.0], [1.0]], [[2.0], [3.0]], method="fedwad", support=2)
    with fails(fedwad.InputError, "conflicting-options"):
        write_report(result, path, clusters=[0, 1])
    with fails(fedwad.InputError, "no-such-file"):
        write_report(matrix, tmp_path / "nowhere" / "report.html")
    with fails(fedwad.InputError, "bad-option"):
        write_report("matrix", path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_traffic_is_stated_in_words(make_matrix, tmp_path):
    matrix, _ = make_matrix(3, traffic=Traffic(999, 1_000, 1))
    write_report(matrix, tmp_path / "report.html")
    text = read(tmp_path / "report.html")[1].text
    assert "999 B in 1 message, 333 B each on average" in text
    assert "1.0 kB" in text


def with_tests(matrix, pvalue, smallest=0.001):
    """The matrix after tests; populations are as far apart as samples where they differ."""
    size = len(matrix)
    off = 1 - np.eye(size)
    pvalue = np.where(np.eye(size) > 0, 1.0, pvalue)
    smallest = np.where(np.eye(size) > 0, 0.0, smallest)
    known = np.where((pvalue <= 0.05) & (smallest <= 0.05), matrix.value, np.nan)
    np.fill_diagonal(known, 0.0)
    ends = np.maximum(matrix.value - 0.2, 0) * off, (matrix.value + 0.2) * off
    least = float(np.nanmin(pvalue + np.eye(size)))
    return replace(
        matrix,
        class_covariance=None,
        noise=2.0 * off,
        pvalue=pvalue,
        smallest=smallest,
        population=known,
        population_interval=ends,
        square=matrix.value**2,
        variance=(1.0,) * size,
        test=PermutationTest(least, 1.0, 0.001, np.ones(3), 10, (8,) * size),
    )


def shades(text):
    """The number of cells of each shade above the diagonal."""
    half = re.search(r'<g id="half".*?</g>', text).group(0)
    paths = re.findall(r'<path d="([^"]*)" class="(\w+)">', half)
    return {name: path.count("M") for path, name in paths}


def test_pairs_without_evidence_have_one_shade_and_no_distance(make_matrix, tmp_path):
    matrix, _ = make_matrix(6)
    same = with_tests(matrix, np.full((6, 6), 0.4))
    write_report(same, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert page.text.startswith(f"How similar are 6 sites? {same.sentence}")
    assert shades(text) == {"l0": 15}
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert set(data["value"]) == {None}
    assert set(data["verdict"]) == {0}
    assert f"\N{LESS-THAN OR EQUAL TO} {same.population_interval[1][0, 1]:.2f}" in page.text
    apart = with_tests(matrix, np.full((6, 6), 0.01))
    write_report(apart, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert apart.sentence in page.text
    assert len(shades(text)) > 4
    assert "chance alone 2.00" in page.text


def test_pairs_with_too_few_rows_are_grey(make_matrix, tmp_path):
    matrix, _ = make_matrix(5)
    smallest = np.full((5, 5), 0.001)
    smallest[4, :] = smallest[:, 4] = 0.2
    pvalue = np.full((5, 5), 0.4)
    pvalue[0, 1] = pvalue[1, 0] = 0.01
    result = with_tests(matrix, pvalue, smallest)
    write_report(result, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    found = shades(text)
    assert (found["unknown"], found["l0"], sum(found.values())) == (4, 5, 10)
    assert text.count('class="few-rows"') == 8  # both halves
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert data["words"][2] == "too few rows"
    assert data["verdict"] == [1, 0, 0, 2, 0, 0, 2, 0, 2, 2]
    assert data["pvalue"][:2] == ["0.01", "0.4"]
    assert "4 pairs have too few rows to tell" in page.text


def test_the_verdict_is_worded_once(make_matrix, tmp_path):
    result = with_tests(make_matrix(4)[0], np.full((4, 4), 0.01))
    write_report(result, tmp_path / "report.html")
    _, page = check(tmp_path / "report.html", 90_000)
    assert page.text.count("The 4 sites differ") == page.text.count("All 6 pairs differ") == 1
    rng = np.random.default_rng(0)
    one = fedwad.distance(rng.normal(size=(200, 2)), rng.normal((0, 3), 1, (200, 2)))
    write_report(one, tmp_path / "report.html")
    _, page = check(tmp_path / "report.html", 90_000)
    assert page.text.count("They differ in") == page.text.count("and b differ") == 1


def test_the_page_starts_with_what_was_compared_and_what_to_do(make_matrix, tmp_path):
    matrix, _ = make_matrix(3, names=["oslo", "paris", "rome"], rows=(1500, 30, 40))
    warnings = ["All 40 values of column 'dose' at rome are 0.", "<b>no markup</b>"]
    matrix = with_tests(matrix, np.full((3, 3), 0.01))
    write_report(matrix, tmp_path / "report.html", warnings=warnings)
    _, page = check(tmp_path / "report.html", 80_000)
    assert "3 sites with 1,570 rows: oslo 1,500, paris 30 and rome 40" in page.text
    for sentence in warnings:
        assert sentence in page.text
    assert page.text.index("What to do next") < page.text.index("Every pair")
    assert page.text.index(warnings[0]) < page.text.index("Every pair")


def test_clusters_are_numbered_from_one_and_a_single_site_is_called_that(make_matrix, tmp_path):
    matrix, _ = make_matrix(5, names="abcde")
    write_report(matrix, tmp_path / "report.html", clusters=[7, 0, 7, 3, 3])
    text = read(tmp_path / "report.html")[1].text
    assert "Cluster 1" in text
    assert "Cluster 2" in text
    assert "Cluster 3" not in text
    assert text.count("A single site") == 1


def test_pages_lead_with_the_sentence_of_the_result(tmp_path):
    rng = np.random.default_rng(0)
    same = fedwad.distance(rng.normal(size=(300, 2)), rng.normal(size=(300, 2)))
    apart = fedwad.distance(rng.normal(size=(300, 2)), rng.normal(3, 1, (300, 2)))
    few = fedwad.distance(rng.normal(size=(6, 2)), rng.normal(size=(6, 2)))
    assert (same.differs, apart.differs, few.differs) == (False, True, None)
    for result in (same, apart, few):
        write_report(result, tmp_path / "report.html", warnings=["Look at column 'age'."])
        _, page = check(tmp_path / "report.html", 60_000)
        assert page.text.index(result.sentence) < page.text.index("What was compared")
        assert f"n = {result.rows[0]}" in page.text
        assert "Look at column 'age'." in page.text


def test_the_page_calls_no_pair_or_site_nearest_or_farthest(tmp_path):
    """Only the sentence of the result does, where intervals do not overlap."""
    rng = np.random.default_rng(0)
    for shifts in ((0, 0, 0), (0, 0.6, 0.9), (0, 0.6)):
        sites = {f"s{k}": rng.normal(shift, 1, (90, 2)) for k, shift in enumerate(shifts)}
        matrix = fedwad.matrix(sites)
        write_report(matrix, tmp_path / "report.html")
        text = read(tmp_path / "report.html")[1].text.replace(matrix.sentence, "")
        assert not re.search("nearest|farthest", text.replace("its nearest", ""), re.IGNORECASE)
        # without evidence there is no mean squared distance of a site either
        assert ("Site by site" in text) == (len(sites) > 2 and matrix.test.pvalue <= 0.05)
        assert ("Largest estimate" in text) == (shifts == (0, 0.6, 0.9))


def test_the_page_says_in_which_unit_and_what_its_interval_covers(clinics, tmp_path):
    rng = np.random.default_rng(0)
    write_report(clinics, tmp_path / "tables.html")
    tables = read(tmp_path / "tables.html")[1].text
    assert "unit is that of the data" not in tables
    assert "changes with who is asked" in tables
    write_report(
        fedwad.matrix({k: rng.normal(size=(90, 2)) for k in "ab"}), tmp_path / "arrays.html"
    )
    arrays = read(tmp_path / "arrays.html")[1].text
    assert "unit is that of the data" in arrays
    for text in (tables, arrays):
        assert "holds for every pair" not in text
        assert "another p-value" in text


def test_clusters_of_one_site_each_are_no_reason_to_pool(clinics, tmp_path):
    for clusters, pools in (([0, 0, 1, 0], True), ([0, 1, 2, 3], False)):
        write_report(clinics, tmp_path / "report.html", clusters=clusters)
        text = read(tmp_path / "report.html")[1].text
        assert ("pool within clusters" in text) == pools


@pytest.mark.filterwarnings("ignore::fedwad.DataWarning")  # city makes nearly all of it
def test_a_share_is_rounded_once(tmp_path):
    """14.51% was rounded to 14.5% for the script and then to 14%."""
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"city": np.repeat(["yes", "no"], k), "x": rng.normal(size=200)})
        for k in ([75, 125], [199, 1])
    ]
    tables = dict(zip("ab", frames, strict=True))
    write_report(fedwad.matrix(tables), tmp_path / "r.html", columns=fedwad.columns(tables))
    text = read(tmp_path / "r.html")[1].text
    assert "yes 38%" in text
    assert "no <1%" in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', read(tmp_path / "r.html")[0])[1])
    assert all(row[2].endswith("%") for row in data["why"]["pairs"][0])


@pytest.mark.filterwarnings("ignore::fedwad.DataWarning")
def test_a_site_without_values_withholds_none(tmp_path):
    rng = np.random.default_rng(0)
    a, b = (pd.DataFrame({"x": rng.normal(size=200), "q": rng.normal(size=200)}) for _ in "ab")
    tables = {"a": a, "b": b.assign(q=np.nan), "c": b.drop(columns="q")}
    write_report(fedwad.columns(tables), tmp_path / "r.html")
    text = read(tmp_path / "r.html")[1].text
    assert "no such column" in text
    assert "withheld" not in text


def test_the_odd_one_out_is_named_only_by_the_test(tmp_path):
    rng = np.random.default_rng(0)
    sites = {f"site{k}": rng.normal(size=(80, 2)) for k in range(4)}
    write_report(fedwad.matrix(sites), tmp_path / "report.html")
    assert "odd one outnone" in check(tmp_path / "report.html", 90_000)[1].text
    odd = fedwad.matrix(sites | {"far <away>": rng.normal(4, 1, (80, 2))})
    write_report(odd, tmp_path / "report.html")
    page = check(tmp_path / "report.html", 90_000)[1]
    assert "far <away> is the odd one out" in page.text
    assert "odd one outfar <away>" in page.text


@pytest.fixture(scope="module")
def clinics():
    """Four sites; at one the dose is always 0. Column names are hostile."""
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame(
            {
                "<b>age</b>": rng.normal(50, 10, 150),
                "dose": rng.normal(100, 20, 150) * (name != "rome"),
                "sex": rng.choice(["f", "m"], 150),
            }
        )
        for name in ("oslo", "paris", "rome", "bern")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedwad.errors.DataWarning)
        return fedwad.matrix(fedwad.local(tables))


def test_the_page_has_the_columns_of_each_pair(clinics, tmp_path):
    write_report(clinics, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert clinics.sentence in page.text
    assert "3 of 3 columns compared" in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))["why"]
    pairs = list(zip(*np.triu_indices(4, 1), strict=True))
    for (i, j), rows, said in zip(pairs, data["pairs"], data["said"], strict=True):
        explanation = clinics.explain(clinics.sites[i], clinics.sites[j])
        assert said == explanation.text
        for position, contribution, share, pvalue, smd, cause in rows:
            k = explanation.names.index(data["columns"][position])
            assert cause == (explanation.names[k] in explanation.causes)
            assert share == percent(explanation.share[k])  # as on the terminal
            for shown, number in (
                (contribution, explanation.contribution[k]),
                (pvalue, explanation.pvalue[k]),
                (smd, explanation.smd[k]),
            ):
                if shown:
                    np.testing.assert_allclose(float(shown), number, 0.05, 0.005)
                else:
                    assert np.isnan(number)
        assert any(row[5] for row in rows) == ("rome" in (clinics.sites[i], clinics.sites[j]))
    dose = data["sites"][2][data["columns"].index("dose")]
    assert dose.startswith("0 ")
    for title in ("contribution", "share", "p-value", "SMD", "n = 150", dose):
        assert title in page.text
    causes = {cause for one in clinics.explain().values() for cause in one.causes}
    assert {data["columns"][k] for k in data["standing"]} == causes
    assert data["columns"][data["standing"][0]] == "dose"


def test_no_column_is_a_cause_where_nothing_differs(tmp_path):
    rng = np.random.default_rng(2)
    same = fedwad.matrix({name: rng.normal(size=(200, 3)) for name in "abc"})
    write_report(same, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert "set each site apart" not in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))["why"]
    assert not any(row[5] for rows in data["pairs"] for row in rows)
    assert set(re.findall(r"<tr class=\"(\w+)\">", text)) == {"within"}


def test_columns_that_are_not_compared_are_only_text(tmp_path):
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame({"age": rng.normal(size=60), HOSTILE: rng.integers(0, 2, 60)})
        for name in "ab"
    }
    fed = fedwad.local(tables, label_column=HOSTILE)
    result = fedwad.distance(fed["a"], fed["b"])
    write_report(result, tmp_path / "report.html", schema=fed.schema)
    _, page = check(tmp_path / "report.html", 60_000)
    assert HOSTILE in page.text
    matrix = fedwad.matrix(fed)
    write_report(matrix, tmp_path / "report.html", schema=fed.schema)
    _, page = check(tmp_path / "report.html", 70_000)
    assert HOSTILE in page.text


def test_a_site_with_few_rows_does_not_spoil_the_others(tmp_path):
    rng = np.random.default_rng(0)
    sites = {name: rng.normal(3 * k, 1, (100, 2)) for k, name in enumerate("abc")}
    matrix = fedwad.matrix(sites | {"tiny": rng.normal(size=(12, 2))})
    write_report(matrix, tmp_path / "report.html", clusters=[0, 1, 2, 0])
    text, page = check(tmp_path / "report.html", 90_000)
    assert matrix.sentence in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert data["value"].count(None) == 3
    assert data["verdict"] == [1, 1, 2, 1, 2, 2]
    assert [" ".join(text.split()) for text in data["rows"]] == ["n = 100"] * 3 + ["n = 12"]
    assert MatrixView.of(matrix).nearest.tolist() == [3, 3, 1, 0]  # by estimates


def test_pairs_that_were_not_tested_are_not_called_equal(make_matrix, tmp_path):
    pvalue = np.full((4, 4), 0.01)
    pvalue[3, :3] = pvalue[:3, 3] = np.nan
    result = with_tests(make_matrix(4)[0], pvalue, np.where(np.isnan(pvalue), np.nan, 0.001))
    write_report(result, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert "site003 was not tested" in page.text
    assert "too few rows" not in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert data["verdict"] == [1, 1, 3, 1, 3, 3]
    assert "l0" not in shades(text)  # the shade of pairs without evidence
    assert shades(text)["unknown"] == 3


def test_without_a_test_the_page_shows_samples(make_matrix, tmp_path):
    matrix, _ = make_matrix(4)
    write_report(matrix, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert "It was not tested whether the 4 sites differ: method hub has no test." in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert data["verdict"] == []
    assert None not in data["value"]


def test_the_map_states_its_error_in_words(make_matrix, tmp_path):
    write_report(make_matrix(5)[0], tmp_path / "report.html")
    assert "half of them are drawn within" in read(tmp_path / "report.html")[1].text


def test_a_picture_has_no_date(tmp_path):
    coreset = fedwad.coreset(np.random.default_rng(0).normal(size=(60, 3)), 3)
    coreset.plot(tmp_path / "coreset.pdf")
    assert b"CreationDate" not in (tmp_path / "coreset.pdf").read_bytes()


def test_every_page_has_table_one_with_n_and_pictures(tmp_path):
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame(
            {"age": rng.normal(50 + 9 * k, 10, 150), HOSTILE: rng.choice(["<i>f</i>", "m"], 150)}
        )
        for k, name in enumerate(("oslo", "paris"))
    }
    fed = fedwad.local(tables)
    first, second = fed["oslo"], fed["paris"]
    t = fedwad.columns(fed)
    results = [fedwad.distance(first, second), fedwad.permutation_test(first, second)]
    for result in (fedwad.matrix(fed), *results):
        ledgers = {name: ledger.entries for name, ledger in fed.ledgers.items()}
        write_report(result, tmp_path / "report.html", columns=t, ledgers=ledgers)
        text, page = check(tmp_path / "report.html", 90_000)
        assert page.text.index(result.sentence) < page.text.index("Columns at each site")
        assert text.count('class="hist"') == 2
        assert HOSTILE in page.text
        assert "<i>f</i>" in page.text
        assert "<i>f</i>" not in text
        assert page.text.count("n = 150") >= 6
        entries = [entry for one in ledgers.values() for entry in one]
        left = [f"{one.values:,}" for one in entries if one.is_query and one.outcome == "answered"]
        assert len(left) == 4
        assert all(number in page.text.partition("own ledger")[2] for number in left)
    write_report(t, tmp_path / "report.html")
    _, page = check(tmp_path / "report.html", 90_000)
    assert t.sentence in page.text


def test_many_columns_are_folded_and_can_be_found(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"gene{k}" for k in range(60)]
    tables = {n: pd.DataFrame(rng.normal(size=(80, 60)), columns=names) for n in "ab"}
    write_report(fedwad.columns(fedwad.local(tables)), tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 250_000)
    assert text.count('class="more within"') == 40
    assert "Show 40 more columns" in page.text
    assert ("input", "id", "find") in page.attributes


def test_a_plan_has_a_page(tmp_path):
    reports = [fedwad.privacy.plan(200, 3, epsilon) for epsilon in (0.5, 5.0)]
    write_report(reports, tmp_path / "report.html", sentence="Simulated <here>.")
    _, page = check(tmp_path / "report.html", 60_000)
    assert "Simulated <here>." in page.text
    for report in reports:
        assert report.verdict in page.text


def test_a_page_keeps_the_first_columns_of_a_table_that_is_too_large(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"gene{k}" for k in range(60)]
    sites = {f"site{k}": rng.normal(size=(20, 60)) for k in range(40)}
    fed = fedwad.local({n: pd.DataFrame(rows, columns=names) for n, rows in sites.items()})
    t = fedwad.columns(fed, test=False)
    write_report(fedwad.matrix(fed), tmp_path / "report.html", columns=t)
    _, page = check(tmp_path / "report.html", 3_000_000)
    assert "10 more columns" in page.text
    shown = page.text.partition("Every pair")[0]
    assert [t.names[k] in shown for k in t.order] == 50 * [True] + 10 * [False]


def test_every_page_of_sites_says_what_each_sent(tmp_path):
    rng = np.random.default_rng(0)
    fed = fedwad.local({name: rng.normal(size=(60, 3)) for name in ("oslo", "paris")})
    for result in (fedwad.coreset(fed, size=3, rounds=2), fedwad.embed(fed, support=2)):
        ledgers = {name: ledger.entries for name, ledger in fed.ledgers.items()}
        policies = dict.fromkeys(ledgers, "summary.toml")
        write_report(result, tmp_path / "report.html", ledgers=ledgers, policies=policies)
        _, page = check(tmp_path / "report.html", 90_000)
        sent = page.text.partition("own ledger")[2]
        for name, entries in ledgers.items():
            for kind in {one.kind for one in entries if one.is_query}:
                values = sum(one.values for one in entries if one.kind == kind)
                assert f"{name}{kind}summary.toml" in sent.replace("\n", "")
                assert f"{values:,}" in sent
    drift = fedwad.Reference.from_data(rng.normal(size=(60, 3))).compare(rng.normal(size=(60, 3)))
    write_report(drift, tmp_path / "report.html")
    assert "What was sent" in check(tmp_path / "report.html", 90_000)[1].text


def test_sites_of_one_size_and_clusters_of_equals_are_said_plainly(tmp_path):
    rng = np.random.default_rng(0)
    sites = {f"site{k}": rng.normal(3 * (k // 5), 1, (80, 3)) for k in range(10)}
    matrix = fedwad.matrix(sites)
    write_report(matrix, tmp_path / "report.html", clusters=[k // 5 for k in range(10)])
    _, page = read(tmp_path / "report.html")
    assert "10 sites with 800 rows, 80 at each site." in page.text
    assert "Cluster 1 · 5 sites, no difference found inside, " in page.text


def test_clusters_and_the_table_have_one_number_for_a_pair():
    rng = np.random.default_rng(2)
    shifts = {"a": [1, 0, 0, 0, 0, 0], "b": 0}
    matrix = fedwad.matrix({k: rng.normal(0, 1, (150, 6)) + v for k, v in shifts.items()})
    assert matrix.differs[0, 1]
    # Columns that do not differ add noise, here below zero.
    assert matrix.square[0, 1] < matrix.population[0, 1] ** 2 - 0.01
    shown = ShownMatrix(matrix, np.array([0, 1]))
    assert shown.distances[0, 1] == matrix.population[0, 1]
    assert {f"{shown.texts[0][1]} to the nearest outside"} == {one.extent for one in shown.groups}
