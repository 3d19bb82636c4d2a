"""A newcomer joins a matrix: it alone is asked, is placed, or is called a stranger."""

import json

import numpy as np
import pandas as pd
import pytest

import fedwad
from command_line import run
from fedwad._matrix.newcomers import add_replies, join_options
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
from fedwad.ot import Measure
from fedwad.report import write_report

KEEPING = fedwad.Policy(["summary", "blocks"], keep=True)


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
    m = fedwad.matrix(fed, test=True)
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
        ("summary", "answered"),
        ("blocks", "answered"),
    ]
    assert joined.traffic.messages == 2
    assert joined.traffic.up == sum(one.bytes for one in ledger.entries)
    assert joined.sites == (*m.sites, "rome")


def test_the_matrix_is_the_one_with_all_sites(saved):
    """Adding a site gives the bits that asking all of them gives."""
    m, _, path = saved
    site, _ = newcomer(rows(1, seed=9))
    joined = fedwad.MatrixResult.load(path).add(site)
    data = {f"site{k}": rows(k // 3, seed=k) for k in range(6)} | {"rome": rows(1, seed=9)}
    together = fedwad.matrix(data, test=True)
    assert np.array_equal(joined.value, together.value)
    assert np.array_equal(joined.pvalue, together.pvalue)
    assert np.array_equal(joined.lower[:6, :6], m.lower)


def test_an_engine_asks_the_newcomer_and_the_rest_is_done_here(saved):
    _, _, path = saved
    known = fedwad.MatrixResult.load(path)
    site, ledger = newcomer(rows(1, seed=9))
    outcome = run_job(Job("join", ("rome",), join_options(known)), site.federation)
    joined = add_replies(known, "rome", json.loads(json.dumps(outcome))["replies"])
    assert [one.kind for one in ledger.entries] == ["summary", "blocks"]
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
    policy.write_text(
        'name = "c"\nallow = ["describe", "schema", "encode", "summary"]\nkeep = true\n'
    )
    fed = LocalFederation({"c": open_client(tmp_path / "c.csv", policy)})
    outcome = run_job(Job("join", ("c",), join_options(known)), fed)
    joined = add_replies(known, "c", outcome["replies"])
    assert np.array_equal(joined.value, known.add(tables["c"], "c").value)


@pytest.mark.parametrize("request_", [{}, {"type": "Summary"}, {"type": "BlocksRequest", "x": 1}])
def test_an_engine_asks_nothing_but_what_a_matrix_asks(request_):
    site, ledger = newcomer(rows(1))
    with pytest.raises(InputError, match="saved matrix"):
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
    assert found.tested
    assert not found.stranger
    assert json.loads(json.dumps(found.to_dict()))["stranger"] is False


def test_a_stranger_is_called_one_with_what_it_differs_by(saved):
    m, _, _ = saved
    far = rows(0, seed=9)
    far[:, 1] += 6
    found = m.add(far, "rome").placement("rome")
    assert found.stranger
    assert "unlike all" in found.sentence
    assert found.explanation.order[0] == 1


def test_the_page_of_a_newcomer_leads_with_where_it_belongs(saved, tmp_path):
    m, _, _ = saved
    for shift, sentence in ((0, "belongs with"), (6, "unlike all of them")):
        far = rows(0, seed=9) + np.array([0, shift, 0])
        joined = m.add(far, "<rome>")
        write_report(joined, tmp_path / "page.html", newcomer="<rome>")
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        title, lead = text.index("Is &lt;rome&gt; like the others?"), text.index(sentence)
        assert title < lead < text.index("What was compared")


def test_without_block_means_errors_of_distances_decide():
    m = fedwad.matrix(sites())
    for shift, stranger in ((1.0, False), (5.0, True)):
        found = m.add(rows(shift, seed=9), "rome").placement("rome")
        assert not found.tested
        assert found.stranger is stranger


def test_a_site_of_one_population_is_placed_among_the_others():
    rng = np.random.default_rng(0)
    m = fedwad.matrix({f"site{k}": rng.normal(0, 1, (200, 3)) for k in range(5)})
    placement = m.placement("site0")  # any site, not only the last one
    assert not placement.stranger
    assert {one.site for one in placement.nearest} == set(m.sites[1:])


def test_labels_choose_the_clusters(saved):
    m, _, _ = saved
    joined = m.add(rows(1, seed=9), "rome")
    assert joined.placement("rome", [0, 0, 0, 0, 0, 1]).cluster == ("site5",)
    with pytest.raises(InputError, match="labels"):
        joined.placement("rome", [0, 1])
    with pytest.raises(InputError):
        joined.placement("oslo")


def test_sites_that_do_not_allow_it_are_not_kept(tmp_path):
    m = fedwad.matrix(sites(fedwad.Policy(["summary"])))
    assert m.kept == {}
    m.save(tmp_path / "m.json")
    for one in (m, fedwad.MatrixResult.load(tmp_path / "m.json")):
        with pytest.raises(InputError, match="keep = true"):
            one.add(rows(1))


def test_names_must_differ_and_features_agree(saved):
    m, _, _ = saved
    with pytest.raises(InputError, match="already"):
        m.add(rows(1), "site0")
    with pytest.raises(InputError, match="features"):
        m.add(rows(1, d=4), "rome")


def test_kept_sites_answer_nothing_else(saved):
    m, _, _ = saved
    fed = KeptFederation(m.kept)
    with pytest.raises(fedwad.PolicyError, match="another request"):
        fedwad.distance(fed["site0"], fed["site1"], cells=3)
    assert fedwad.distance(fed["site0"], fed["site3"]).value > 0


def test_damage_to_kept_replies_is_named(saved, tmp_path):
    _, _, path = saved
    content = json.loads(path.read_text())
    content["kept"]["site0"][0]["reply"]["summary"]["count"] = -3
    (tmp_path / "m.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="damaged"):
        fedwad.MatrixResult.load(tmp_path / "m.json")


def test_the_command_line_joins(tmp_path):
    (tmp_path / "sites").mkdir()
    for k in range(4):
        np.save(tmp_path / "sites" / f"site{k}.npy", rows(k // 2, seed=k))
    np.save(tmp_path / "rome.npy", rows(1, seed=9))
    np.save(tmp_path / "mars.npy", rows(7, seed=9))
    saving = ("matrix", tmp_path / "sites", "--test", "--save", tmp_path / "m.json")
    assert run(*saving).returncode == 0
    known = ("--matrix", tmp_path / "m.json")
    done = run("join", tmp_path / "rome.npy", *known, "--json")
    assert done.returncode == 0
    content = json.loads(done.stdout)
    assert content["cluster"] == ["site2", "site3"]
    assert content["traffic"]["messages"] == 2
    stranger = run("join", tmp_path / "mars.npy", *known)
    assert stranger.returncode == 3
    assert "unlike all of them" in stranger.stdout
