"""A newcomer joins a matrix: it alone is asked, is placed, or is called a stranger."""

import json

import numpy as np
import pandas as pd
import pytest

import fedwad
from command_line import run
from failing import fails
from fedwad.compare.placement import add_replies, join_options
from fedwad.engines.job import Job
from fedwad.engines.job import run as run_job
from fedwad.errors import InputError
from fedwad.federation import (
    Client,
    Dataset,
    KeptFederation,
    Ledger,
    LocalFederation,
    open_client,
)
from fedwad.report import write_report
from fedwad.transport import Measure

KEEPING = fedwad.Policy(["columns", "summary"], keep=True)


def rows(shift, n=200, d=3, seed=0):
    return np.random.default_rng([seed, int(10 * shift)]).normal(shift, 1, (n, d))


def sites(policy=KEEPING):
    data = {f"site{k}": rows(k // 3, seed=k) for k in range(6)}
    clients = {k: Client(Dataset(Measure(x)), policy, Ledger()) for k, x in data.items()}
    return LocalFederation(clients)


def newcomer(points):
    client = Client(Dataset(Measure(points)), KEEPING, ledger := Ledger())
    return LocalFederation({"rome": client})["rome"], ledger


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    fed = sites()
    m = fedwad.matrix(fed)
    path = tmp_path_factory.mktemp("matrix") / "m.json"
    m.save(path)
    return m, fed, path


def test_only_the_newcomers_own_messages_are_sent(saved):
    m, fed, path = saved
    before = {name: len(ledger) for name, ledger in fed.ledgers.items()}
    site, ledger = newcomer(rows(1, seed=9))
    joined = fedwad.MatrixResult.load(path).add(site)
    assert {name: len(one) for name, one in fed.ledgers.items()} == before
    assert [(one.kind, one.outcome) for one in ledger.entries] == [
        ("schema", "answered"),  # the units of block means
        ("summary", "answered"),
    ]
    assert joined.traffic.messages == 1
    assert joined.traffic.up == sum(one.bytes for one in ledger.entries)
    assert joined.sites == (*m.sites, "rome")


def test_the_matrix_is_the_one_with_all_sites(saved):
    """Adding a site gives the bits that asking all of them gives."""
    m, _, path = saved
    site, _ = newcomer(rows(1, seed=9))
    joined = fedwad.MatrixResult.load(path).add(site)
    data = {f"site{k}": rows(k // 3, seed=k) for k in range(6)} | {"rome": rows(1, seed=9)}
    together = fedwad.matrix(data)
    assert np.array_equal(joined.value, together.value)
    # Units of block means are those of the first sites, so p-values are those of another seed.
    assert np.array_equal(joined.pvalue <= 0.05, together.pvalue <= 0.05)
    assert np.array_equal(joined.lower, together.lower)
    # Bounds of all pairs are computed at once, so another number of sites rounds otherwise.
    np.testing.assert_allclose(joined.lower[:6, :6], m.lower, rtol=1e-12)


def test_an_engine_asks_the_newcomer_and_the_rest_is_done_here(saved):
    _, _, path = saved
    known = fedwad.MatrixResult.load(path)
    site, ledger = newcomer(rows(1, seed=9))
    outcome = run_job(Job("join", ("rome",), join_options(known)), site.federation)
    joined = add_replies(known, "rome", json.loads(json.dumps(outcome))["replies"])
    assert [one.kind for one in ledger.entries if one.is_query] == ["summary"]
    again = known.add(newcomer(rows(1, seed=9))[0])
    assert joined.to_dict() == again.to_dict()
    assert joined.placement("rome").to_dict() == again.placement("rome").to_dict()


def test_on_an_engine_a_table_takes_the_schema_of_the_matrix(tmp_path):
    tables = {
        k: pd.DataFrame(rows(0, seed=n), columns=["u", "v", "w"]) for n, k in enumerate("abc")
    }
    known = fedwad.matrix(fedwad.local({k: tables[k] for k in "ab"}))
    tables["c"].to_csv(tmp_path / "c.csv", index=False)
    policy = tmp_path / "c.toml"
    policy.write_text('name = "c"\nallow = ["describe", "columns", "summary"]\nkeep = true\n')
    fed = LocalFederation({"c": open_client(tmp_path / "c.csv", policy)})
    outcome = run_job(Job("join", ("c",), join_options(known)), fed)
    joined = add_replies(known, "c", outcome["replies"])
    assert np.array_equal(joined.value, known.add(tables["c"], "c").value)


@pytest.mark.parametrize("request_", [{}, {"type": "Summary"}, {"type": "SummaryRequest", "x": 1}])
def test_an_engine_asks_nothing_but_what_a_matrix_asks(request_):
    site, ledger = newcomer(rows(1))
    with fails(InputError, "not-kept"):
        run_job(Job("join", ("rome",), {"requests": [request_], "schema": None}), site.federation)
    assert not ledger.entries


def test_a_newcomer_is_placed(saved):
    m, _, _ = saved
    site, _ = newcomer(rows(1, seed=9))
    found = m.add(site).placement("rome")
    assert set(found.cluster) == {"site3", "site4", "site5"}
    assert found.nearest[0].site in found.cluster
    distances = [one.value for one in found.nearest]
    assert distances == sorted(distances)  # of populations, as the order
    assert found.stranger is False
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["stranger"] is False
    assert "rome" in found._repr_html_()


def test_a_stranger_is_called_one_with_what_it_differs_by(saved):
    m, _, _ = saved
    far = rows(0, seed=9)
    far[:, 1] += 6
    found = m.add(far, "rome").placement("rome")
    assert found.stranger
    assert found.sentence.startswith("rome differs from")
    assert found.explanation.order[0] == 1
    assert found.explanation.causes[0] == "column 2"


def test_the_page_of_a_newcomer_leads_with_where_it_belongs(saved, tmp_path):
    m, _, _ = saved
    for shift, sentence in ((0, "There is no evidence that"), (6, "differs from")):
        far = rows(0, seed=9) + np.array([0, shift, 0])
        joined = m.add(far, "<rome>")
        write_report(joined, tmp_path / "page.html", newcomer="<rome>")
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        title, lead = text.index("Is &lt;rome&gt; like the others?"), text.index(sentence)
        assert title < lead < text.index("What was compared")


def test_without_block_means_no_site_is_placed():
    m = fedwad.matrix(sites(fedwad.Policy(["columns", "summary"], keep=True, splits="noise")))
    with fails(InputError, "not-known"):
        m.add(rows(1.0, seed=9), "rome").placement("rome")


def test_a_site_of_one_population_is_placed_among_the_others():
    rng = np.random.default_rng(0)
    m = fedwad.matrix({f"site{k}": rng.normal(0, 1, (200, 3)) for k in range(5)})
    placement = m.placement("site0")  # any site, not only the last one
    assert not placement.stranger
    assert {one.site for one in placement.nearest} == set(m.sites[1:])


def test_labels_choose_the_clusters(saved):
    m, _, _ = saved
    joined = m.add(rows(1, seed=9), "rome")
    nearest = joined.placement("rome").nearest[0].site
    labels = [int(name == nearest) for name in joined.sites if name != "rome"]
    assert joined.placement("rome", labels).cluster == (nearest,)
    with fails(InputError, "wrong-shape"):
        joined.placement("rome", [0, 1])
    with pytest.raises(InputError):
        joined.placement("oslo")


def test_sites_that_do_not_allow_it_are_not_kept(tmp_path):
    m = fedwad.matrix(sites(fedwad.Policy(["summary"])))
    assert m.kept == {}
    m.save(tmp_path / "m.json")
    for one in (m, fedwad.MatrixResult.load(tmp_path / "m.json")):
        with fails(InputError, "not-kept"):
            one.add(rows(1))


def test_names_must_differ_and_features_agree(saved):
    m, _, _ = saved
    with fails(InputError, "repeated-site"):
        m.add(rows(1), "site0")
    with fails(InputError, "no-reply"):
        m.add(rows(1, d=4), "rome")


def test_kept_sites_answer_nothing_else(saved):
    m, _, _ = saved
    fed = KeptFederation(m.kept)
    with fails(fedwad.PolicyError, "not-kept", "site0"):
        fedwad.distance(fed["site0"], fed["site1"], cells=3)
    assert fedwad.distance(fed["site0"], fed["site3"]).value > 0


def test_damage_to_kept_replies_is_named(saved, tmp_path):
    _, _, path = saved
    content = json.loads(path.read_text())
    content["kept"]["site0"][0]["reply"]["summary"]["count"] = -3
    (tmp_path / "m.json").write_text(json.dumps(content))
    with fails(InputError, "damaged-content"):
        fedwad.MatrixResult.load(tmp_path / "m.json")


def test_the_command_line_joins(tmp_path):
    (tmp_path / "sites").mkdir()
    for k in range(4):
        np.save(tmp_path / "sites" / f"site{k}.npy", rows(k // 2, seed=k))
    np.save(tmp_path / "rome.npy", rows(1, seed=9))
    np.save(tmp_path / "mars.npy", rows(7, seed=9))
    saving = ("matrix", tmp_path / "sites", "--save", tmp_path / "m.json")
    assert run(*saving).returncode == 3
    known = ("--matrix", tmp_path / "m.json")
    done = run("join", tmp_path / "rome.npy", *known, "--json")
    assert done.returncode == 0
    content = json.loads(done.stdout)
    assert content["cluster"] == ["site2", "site3"]
    assert content["traffic"]["messages"] == 1
    stranger = run("join", tmp_path / "mars.npy", *known)
    assert stranger.returncode == 3
    assert "differs from" in stranger.stdout


def test_one_row_is_too_few_to_be_placed(tmp_path):
    fedwad.matrix(sites()).save(tmp_path / "m.json")
    np.save(tmp_path / "rome.npy", rows(1, n=1))
    done = run("join", tmp_path / "rome.npy", "--matrix", tmp_path / "m.json")
    assert done.returncode == 4
    assert "rome has one row, which is too few" in done.stderr


def test_a_newcomer_like_one_site_is_no_stranger_to_a_cluster_without_it():
    rng = np.random.default_rng(138)
    centres = rng.normal(0, 2, (6, 2))
    sites = {f"s{k}": rng.normal(centres[k], 1, (300, 2)) for k in range(6)}
    same = int(rng.integers(6))
    grown = fedwad.matrix(sites, seed=38).add(rng.normal(centres[same], 1, (300, 2)), "rome")
    found = grown.placement("rome")
    assert found.nearest[0].site == f"s{same}"
    assert f"s{same}" in found.cluster
    assert found.stranger is False
