"""The file as written: complete, self-contained, harmless."""

import base64
import csv
import hashlib
import io
import json
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from hostile import HOSTILE, NASTY

import fedwad
from fedwad.federation import Traffic
from fedwad.report import drift_history
from fedwad.report.page import Section, write_page, write_report
from fedwad.report.page._matrix_view import MatrixView
from fedwad.report.why import format_number
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
    [(1, 60_000), (2, 70_000), (3, 70_000), (12, 120_000), (100, 800_000), (200, 2_500_000)],
)
@pytest.mark.parametrize("clustered", [False, True])
def test_matrix_pages_of_every_size(make_matrix, tmp_path, size, largest, clustered):
    matrix, clusters = make_matrix(size)
    write_report(matrix, tmp_path / "report.html", clusters=clusters if clustered else None)
    _, page = check(tmp_path / "report.html", largest)
    assert f"{size} site" in page.text
    assert ("The clusters" in page.text) == (clustered and size > 1)
    assert "1.2 MB" in page.text


def test_every_pair_is_in_the_data_the_table_and_the_csv(make_matrix, tmp_path):
    matrix, clusters = make_matrix(9)
    write_report(matrix, tmp_path / "report.html", clusters=clusters, exact=matrix.value + 0.1)
    text, page = check(tmp_path / "report.html", 120_000)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    link = next(value for tag, key, value in page.attributes if tag == "a" and key == "href")
    rows = list(csv.DictReader(io.StringIO(unquote(link.partition(",")[2]))))
    k = 0
    for i in range(9):
        for j in range(i + 1, 9):
            value, low, high = matrix.value[i, j], matrix.lower[i, j], matrix.upper[i, j]
            assert data["value"][k] == round(100 * value)
            assert data["lower"][k] == round(100 * low)
            assert data["upper"][k] == round(100 * high)
            row = rows[k]
            assert (row["a"], row["b"]) == (f"site{i:03d}", f"site{j:03d}")
            numbers = [float(row[key]) for key in ("value", "lower", "upper", "exact")]
            np.testing.assert_allclose(numbers, [value, low, high, value + 0.1], rtol=1e-7)
            assert f"site{i:03d}site{j:03d}{value:.2f}{low:.2f} to {high:.2f}" in re.sub(
                r"<[^>]+>", "", text
            )
            k += 1
    assert len(rows) == k == 36
    assert data["order"] != sorted(data["order"])
    assert sorted(data["order"]) == list(range(9))


def test_bounds_stay_bounds_in_the_csv(make_matrix, tmp_path):
    matrix, _ = make_matrix(6)
    rng = np.random.default_rng(0)
    noise = np.triu(rng.uniform(0, 1, (6, 6)), 1)
    noise = (noise + noise.T) / 3
    matrix = replace(matrix, lower=matrix.lower - noise, upper=matrix.upper + noise)
    write_report(matrix, tmp_path / "report.html")
    _, page = read(tmp_path / "report.html")
    link = next(value for tag, key, value in page.attributes if tag == "a" and key == "href")
    for row in csv.DictReader(io.StringIO(unquote(link.partition(",")[2]))):
        i, j = int(row["a"][4:]), int(row["b"][4:])
        assert float(row["lower"]) <= matrix.lower[i, j] * (1 + 1e-9)
        assert float(row["upper"]) >= matrix.upper[i, j] * (1 - 1e-9)


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
    link = next(value for tag, key, value in page.attributes if tag == "a" and key == "href")
    names = {row["a"] for row in csv.DictReader(io.StringIO(unquote(link.partition(",")[2])))}
    assert '\'=HYPERLINK("x")' in names
    assert HOSTILE in names


def test_names_are_harmless_on_a_distance(tmp_path):
    rng = np.random.default_rng(0)
    fed = fedwad.local({HOSTILE: rng.normal(size=(40, 2)), "b & c": rng.normal(size=(40, 2))})
    result = fedwad.distance(fed[HOSTILE], fed["b & c"], method="summary")
    write_report(result, tmp_path / "report.html")
    _, page = check(tmp_path / "report.html", 60_000)
    assert f"How far apart are {HOSTILE} and b & c?" in page.text


@pytest.mark.parametrize("reveal", ["every", "last"])
def test_a_distance_with_rounds(tmp_path, when, reveal):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.normal(1, 1, (50, 3))
    result = fedwad.distance(X, Y, method="fedwad", support=5, rounds=4, reveal=reveal)
    exact = fedwad.wasserstein(X, Y)
    write_report(
        result, tmp_path / "report.html", exact=exact, command="fedwad distance a b", when=when
    )
    _, page = check(tmp_path / "report.html", 60_000)
    assert f"{result.value:.3f}" in page.text
    assert f"exact, data pooled · {exact:.3f}" in page.text
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
    assert len(curves) == 2 * 3  # the paper's, ours and the running estimate, in two widths


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
        assert ("Show the rounds" in page.text) == (method != "summary")
        assert ("the paper's estimate" in page.text) == (method == "pairs")
        assert "dataset distance" in page.text


def test_few_samples_and_missing_clients_are_pointed_out(make_matrix, tmp_path):
    def text(**changes):
        write_report(make_matrix(4, **changes)[0], tmp_path / "report.html")
        return read(tmp_path / "report.html")[1].text

    assert "are means of only 3 samples" in text(min_cell_size=3)
    assert "is a single sample" in text(min_cell_size=1)
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
    with pytest.raises(
        fedwad.InputError, match=r"clusters has shape \(3,\); give one integer for each site"
    ):
        write_report(matrix, path, clusters=[0, 1, 2])
    with pytest.raises(fedwad.InputError, match="integer for each site"):
        write_report(matrix, path, clusters=[0.5, 1, 2, 3])
    with pytest.raises(fedwad.InputError, match="give one distance per pair"):
        write_report(matrix, path, exact=3.0)
    result = fedwad.distance([[0.0], [1.0]], [[2.0], [3.0]], method="fedwad", support=2)
    with pytest.raises(fedwad.InputError, match="belong to a matrix"):
        write_report(result, path, clusters=[0, 1])
    with pytest.raises(fedwad.InputError, match="give one number"):
        write_report(result, path, exact=np.eye(2))
    with pytest.raises(fedwad.InputError, match="no folder"):
        write_report(matrix, tmp_path / "nowhere" / "report.html")
    with pytest.raises(fedwad.InputError, match=r"str; give the result of"):
        write_report("matrix", path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_others_can_make_pages_of_their_own_sections(tmp_path, when):
    sections = [
        Section("First", "<p>one</p>"),
        Section("Left", "<p>two</p>", "left"),
        Section("Right", "<p>three</p>", "right"),
        Section("A < B", "<p>four</p>"),
    ]
    write_page(tmp_path / "page.html", "Title & all", sections, lead="<p>lead</p>", when=when)
    _, page = check(tmp_path / "page.html", 40_000)
    assert page.text.startswith("Title & all")
    for word in ("one", "two", "three", "four", "lead", "A < B"):
        assert word in page.text
    assert page.tags.count("section") == 4


def test_traffic_is_stated_in_words(make_matrix, tmp_path):
    matrix, _ = make_matrix(3, traffic=Traffic(999, 1_000, 1))
    write_report(matrix, tmp_path / "report.html")
    text = read(tmp_path / "report.html")[1].text
    assert "999 B in 1 message, 333 B each on average" in text
    assert "1.0 kB" in text


def shows_populations(matrix, population, half=0.2, **changes):
    """The matrix with distances between populations, intervals of that half width, and noise 2."""
    off = 1 - np.eye(len(matrix))
    ends = np.maximum(population - half, 0) * off, (population + half) * off
    known = {"population": population * off, "population_interval": ends, "noise": 2.0 * off}
    return replace(matrix, class_covariance=None, **known, **changes)


def levels(text):
    """The shades in use."""
    return {int(found) for found in re.findall(r'<path d="[^"]*" class="l(\d+)">', text)}


def test_noise_does_not_fill_the_colours(make_matrix, tmp_path):
    matrix, _ = make_matrix(6)
    rng = np.random.default_rng(0)
    population = np.abs(rng.normal(0, 0.1, (6, 6)))
    population = (population + population.T) / 2
    write_report(shows_populations(matrix, population), tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert "no evidence of a difference between the 6 sites" in page.text
    assert levels(text) == {0}
    assert "chance alone 2.0" in page.text
    apart = shows_populations(matrix, matrix.value, pvalue=np.where(np.eye(6) > 0, 1.0, 0.01))
    write_report(apart, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert "All 6 sites differ" in page.text
    assert len(levels(text)) > 4


def test_pairs_without_evidence_share_one_shade(make_matrix, tmp_path):
    matrix, _ = make_matrix(5)
    pvalue = np.ones((5, 5))
    pvalue[0, 1:] = pvalue[1:, 0] = 0.02
    found = shows_populations(matrix, matrix.value, pvalue=pvalue)
    write_report(found, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert "4 of 10 pairs of sites differ" in page.text
    shades = re.findall(r'<path d="([^"]*)" class="l0">', text)
    assert sum(path.count("M") for path in shades) == 6


def test_the_page_starts_with_what_was_compared_and_what_to_do(make_matrix, tmp_path):
    matrix, _ = make_matrix(3, names=["oslo", "paris", "rome"], rows=(1500, 30, 40))
    warnings = ["All 40 values of column 'dose' at rome are 0.", "<b>no markup</b>"]
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


def test_a_distance_leads_with_the_verdict(tmp_path):
    rng = np.random.default_rng(0)
    same = fedwad.distance(rng.normal(size=(300, 2)), rng.normal(size=(300, 2)))
    apart = fedwad.distance(rng.normal(size=(300, 2)), rng.normal(3, 1, (300, 2)))
    for result, verdict in ((same, "no evidence of a difference"), (apart, "more than chance")):
        write_report(result, tmp_path / "report.html", warnings=["Look at column 'age'."])
        _, page = check(tmp_path / "report.html", 60_000)
        assert page.text.index(verdict) < page.text.index("What was compared")
        assert "300" in page.text
        assert "Look at column 'age'." in page.text


def test_the_odd_one_out_is_named_only_beyond_chance(tmp_path):
    rng = np.random.default_rng(0)
    sites = {f"site{k}": rng.normal(size=(80, 2)) for k in range(6)}
    same = fedwad.matrix(sites)
    write_report(same, tmp_path / "report.html")
    assert "No site is the odd one out" in check(tmp_path / "report.html", 90_000)[1].text
    odd = fedwad.matrix(sites | {"far <away>": rng.normal(4, 1, (80, 2))})
    write_report(odd, tmp_path / "report.html")
    page = check(tmp_path / "report.html", 90_000)[1]
    assert re.search(r"far <away> \(p = [^)]*\) is the odd one out", page.text)


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


def test_the_page_says_why(clinics, tmp_path):
    write_report(clinics, tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert "rome stands out most by dose (mean 0, " in page.text
    assert page.text.index("stands out most by dose") < page.text.index("What was compared")
    assert "3 of 3 columns compared" in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))["why"]
    pairs = list(zip(*np.triu_indices(4, 1), strict=True))
    for (i, j), bars in zip(pairs, data["pairs"], strict=True):
        if "rome" in (clinics.sites[i], clinics.sites[j]):
            column, thousandths, significant = bars[0]
            assert (data["columns"][column], significant) == ("dose", 1)
            assert thousandths > 900
    assert data["sites"][2][data["columns"].index("dose")].startswith("0")


def test_nothing_is_explained_where_nothing_differs(tmp_path):
    rng = np.random.default_rng(1)
    same = fedwad.matrix({name: rng.normal(size=(200, 3)) for name in "abc"})
    write_report(same, tmp_path / "report.html")
    page = check(tmp_path / "report.html", 90_000)[1]
    assert "stands out most" not in page.text
    assert "No column differs by more than chance explains" in page.text


def test_a_distance_says_why(tmp_path):
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(200, 3)), rng.normal((0, 2, 0), 1, (200, 3))
    write_report(fedwad.distance(first, second), tmp_path / "report.html")
    page = check(tmp_path / "report.html", 90_000)[1]
    assert "Why they differ" in page.text
    assert "They differ most in" in page.text


def test_a_site_too_small_to_judge_does_not_spoil_the_others(tmp_path):
    rng = np.random.default_rng(0)
    sites = {name: rng.normal(3 * k, 1, (100, 2)) for k, name in enumerate("abc")}
    matrix = fedwad.matrix(sites | {"tiny": rng.normal(size=(12, 2))})
    assert np.isnan(matrix.population[3, :3]).all()
    write_report(matrix, tmp_path / "report.html", clusters=[0, 1, 2, 0])
    text, page = check(tmp_path / "report.html", 90_000)
    assert "All 3 sites that can be judged differ from each other" in page.text
    assert "tiny cannot be judged" in page.text
    assert "The least similar are a and c" in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert data["value"].count(None) == 3
    assert data["verdict"] == [1, 1, 2, 1, 2, 2]
    assert "at least unknown" not in page.text
    assert MatrixView.of(matrix).nearest.tolist() == [1, 0, 1, 0]
    tiny_first = fedwad.matrix({"tiny": rng.normal(size=(12, 2))} | sites)
    assert MatrixView.of(tiny_first).nearest[0] == 1  # not itself


def test_pairs_that_were_not_tested_are_not_called_equal(make_matrix, tmp_path):
    matrix, _ = make_matrix(4)
    pvalue = np.where(np.eye(4) > 0, 1.0, 0.01)
    pvalue[3, :3] = pvalue[:3, 3] = np.nan
    write_report(shows_populations(matrix, matrix.value, pvalue=pvalue), tmp_path / "report.html")
    text, page = check(tmp_path / "report.html", 90_000)
    assert "site003 cannot be judged" in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    assert data["verdict"] == [1, 1, 2, 1, 2, 2]
    assert 0 not in levels(text)  # the shade of pairs without evidence


def test_the_map_states_its_error_in_words(make_matrix, tmp_path):
    write_report(make_matrix(5)[0], tmp_path / "report.html")
    assert "half of them are drawn within" in read(tmp_path / "report.html")[1].text


def test_numbers_before_a_thousand_are_not_powers_of_ten():
    assert format_number(999.7) == "1,000"
    assert format_number(-999.4) == "-999"


def test_a_picture_has_no_date(tmp_path):
    entries = [{"test": 1, "value": 2.0, "noise": None, "drift": True}]
    drift_history(entries, tmp_path / "drift.pdf")
    assert b"CreationDate" not in (tmp_path / "drift.pdf").read_bytes()
