"""Each site a point: known distances, groups, neighbours, what leaves a site, and files."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import fedwad
from fedwad.compare.embedding import groups_in_words, pairwise_distances


def grouped_sites(groups=4, each=12, rows=60, seed=0):
    rng = np.random.default_rng(seed)
    centres = 2.5 * rng.standard_normal((groups, 4))
    truth = np.arange(groups * each) % groups
    data = {
        f"site{k}": centres[g] + 0.2 * rng.standard_normal(4) + rng.standard_normal((rows, 4))
        for k, g in enumerate(truth)
    }
    return data, truth


@pytest.fixture(scope="module")
def grouped():
    data, truth = grouped_sites()
    return data, truth, fedwad.embed(data)


class Remote:
    """The same sites, as an engine shows them."""

    def __init__(self, federation):
        self._federation = federation

    @property
    def names(self):
        return self._federation.names

    def ask(self, requests):
        return self._federation.ask(requests)


class TestKnownDistances:
    def test_translated_copies_are_as_far_apart_as_they_were_moved(self):
        rng = np.random.default_rng(1)
        rows = rng.standard_normal((50, 3))
        shifts = 3 * rng.standard_normal((7, 3))
        e = fedwad.embed({f"s{k}": rows + shift for k, shift in enumerate(shifts)})
        np.testing.assert_allclose(
            pairwise_distances(e.embedding), pairwise_distances(shifts), atol=1e-6
        )
        assert e.explained == pytest.approx(1.0)

    def test_the_same_data_have_the_same_point(self):
        rows = np.random.default_rng(2).standard_normal((40, 2))
        e = fedwad.embed({"a": rows, "b": rows[::-1], "c": rows + 1})
        assert e.embedded_distance("a", "b") == pytest.approx(0, abs=1e-6)
        assert e.distance("a", "b").value == 0
        assert [one.site for one in e.nearest("a", 2)] == ["b", "c"]

    def test_samples_of_one_population_are_near_each_other(self):
        rng = np.random.default_rng(3)
        data = {f"s{k}": rng.standard_normal((2000, 2)) for k in range(6)}
        e = fedwad.embed(data | {"far": rng.standard_normal((2000, 2)) + 1})
        same = pairwise_distances(e.embedding[:6])
        assert same.max() < 0.25
        assert min(e.embedded_distance("far", f"s{k}") for k in range(6)) > 0.9

    def test_a_change_of_scale_is_seen(self):
        rows = np.random.default_rng(4).standard_normal((1000, 2))
        e = fedwad.embed({"narrow": rows, "wide": 2 * rows})
        exact = fedwad.wasserstein(rows, 2 * rows)
        assert e.embedded_distance("narrow", "wide") == pytest.approx(exact, rel=0.05)

    def test_order_of_exact_distances(self, grouped):
        data, _, e = grouped
        some = list(data)[:24]
        pairs = [(a, b) for a in some for b in some if a < b]
        exact = [fedwad.wasserstein(data[a], data[b]) for a, b in pairs]
        embedded = [e.embedded_distance(a, b) for a, b in pairs]
        assert spearmanr(exact, embedded).statistic > 0.98

    def test_labels(self):
        rng = np.random.default_rng(5)
        X = rng.standard_normal((80, 2)) + np.repeat([[0, 0], [6, 0]], 40, axis=0)
        y = np.repeat([0, 1], 40)
        moved = X + np.where(y == 1, 1.0, 0.0)[:, None]
        sites = {"a": (X, y), "b": (X, y), "c": (X, y), "one": (moved, y)}
        e = fedwad.embed(sites, labels=True, support=4)
        exact = fedwad.transport.dataset_distance(X, y, moved, y)
        assert e.embedded_distance("a", "one") == pytest.approx(exact, rel=0.1)
        assert e.distance("a", "one").lower <= exact * (1 + 1e-9)


class TestGroups:
    def test_found(self, grouped):
        _, truth, e = grouped
        assert e.suggest().k == 4
        np.testing.assert_array_equal(e.cluster(4), fedwad.compare.clusters.in_order(truth))

    @pytest.mark.parametrize("seed", [1, 2])
    def test_groups_nearer_than_the_noise_of_all_axes_are_counted(self, seed):
        rng = np.random.default_rng(seed)
        centres = 0.5 * rng.standard_normal((5, 8))
        e = fedwad.embed(
            {f"s{k}": centres[k % 5] + rng.standard_normal((60, 8)) for k in range(60)}
        )
        assert e.suggest().k == 5

    def test_no_groups_in_one_population(self):
        rng = np.random.default_rng(6)
        e = fedwad.embed({f"s{k}": rng.standard_normal((50, 3)) for k in range(30)})
        assert e.suggest().k == 1

    @pytest.mark.parametrize(("rows", "features"), [(60, 8), (200, 3)])
    def test_noise_is_what_random_splits_show(self, rows, features):
        rng = np.random.default_rng(rows)
        sites = {f"s{k}": rng.standard_normal((rows, features)) for k in range(30)}
        e = fedwad.embed(sites)
        i, j = np.triu_indices(30, 1)
        squares = ((e.embedding[i] - e.embedding[j]) ** 2).sum(axis=1)
        assert 0.7 < squares.mean() / (e.noise[i] + e.noise[j]).mean() < 1.3
        assert e.suggest().k == 1

    def test_as_many_clusters_as_sites_and_one(self):
        rows = np.random.default_rng(7).standard_normal((30, 2))
        e = fedwad.embed({f"s{k}": rows + 5 * k for k in range(3)}, support=3)
        assert sorted(e.cluster(3).tolist()) == [0, 1, 2]
        assert e.cluster(1).tolist() == [0, 0, 0]
        with pytest.raises(fedwad.InputError):
            e.cluster(4)


class TestPairs:
    def test_nearest_are_of_the_same_group(self, grouped):
        _, truth, e = grouped
        found = e.nearest("site0", 5)
        assert all(truth[int(one.site[4:])] == truth[0] for one in found)
        values = [one.value for one in found]
        assert values == sorted(values)

    def test_interval_holds_the_exact_distance(self, grouped):
        data, _, e = grouped
        for a, b in (("site0", "site4"), ("site0", "site1")):
            r = e.distance(a, b)
            exact = fedwad.wasserstein(data[a], data[b])
            assert r.lower <= exact <= r.upper
            assert r.value == pytest.approx(exact, rel=0.15)

    def test_candidates_are_the_nearest_points(self, grouped):
        _, _, e = grouped
        near = pairwise_distances(e.embedding)[3].argsort()[1:6].tolist()
        assert e.candidates("site3", 5) == near

    def test_refusals(self, grouped):
        e = grouped[2]
        for wrong in (
            lambda: e.distance("site0", "site0"),
            lambda: e.distance("site0", "nobody"),
            lambda: e.nearest("site0", 0),
            lambda: e.plot(clusters=[1, 2]),
            lambda: e.plot(clusters="red"),
            lambda: fedwad.embed({"a": [[0.0]]}),
            lambda: fedwad.embed(grouped[0], support=0),
            lambda: fedwad.embed(grouped[0], dimension=0),
            lambda: fedwad.embed(grouped[0], covariance_type="none"),
        ):
            with pytest.raises(fedwad.InputError):
                wrong()


class TestWhatLeaves:
    def test_the_messages_are_those_of_a_hub(self):
        data, _ = grouped_sites(each=3)
        by_embedding, by_hub = fedwad.local(data), fedwad.local(data)
        fedwad.embed(by_embedding)
        fedwad.matrix(by_hub, method="hub", rounds=3)

        def kinds(fed):
            return [
                [entry.kind for entry in one.entries if entry.is_query]
                for one in fed.ledgers.values()
            ]

        assert kinds(by_embedding) == kinds(by_hub)

    def test_most_sites_send_one_message(self):
        data, _ = grouped_sites(each=5)
        fed = fedwad.local(data)
        e = fedwad.embed(fed, clients_per_round=6, rounds=2)
        counts = [len(one.entries) for one in fed.ledgers.values()]
        assert sorted(counts) == [1] * 14 + [4] * 6
        assert e.traffic.messages == sum(counts)
        assert len(e) == 20

    def test_a_policy_decides_on_small_cells_and_covariances(self):
        data, _ = grouped_sites(each=3)
        data["small"] = data["site0"][:15]
        kinds = ("describe", "columns", "cells")
        policy = fedwad.Policy(kinds, min_cell_size=5, covariance_type="diag", max_queries=10)
        fed = fedwad.local(data, policy=policy)
        e = fedwad.embed(fed, support=10, clients_per_round=100)
        assert list(e.failed) == ["small"]
        assert "small" not in e.sites
        assert e.covariance_types == ("diag",)
        outcomes = [entry.outcome for entry in fed.ledgers["small"].entries]
        assert "answered" not in outcomes[1:]

    def test_the_ready_policy_of_a_hub_serves(self):
        path = Path(__file__).parents[2] / "docs" / "policies" / "hub.toml"
        data, _ = grouped_sites(each=2, rows=240)
        e = fedwad.embed(fedwad.local(data, policy=fedwad.Policy.load(path)))
        assert e.sites == tuple(data)
        assert e.failed == {}

    def test_a_site_with_other_columns_is_left_out(self):
        data, _ = grouped_sites(each=3)
        sites = {"wrong": np.random.default_rng(0).standard_normal((60, 7))} | data
        names = [*data, "wrong"]  # last, so that it does not shape the support
        fed = fedwad.local(sites)
        found = fedwad.embed(Remote(fed), sites=names, clients_per_round=3, seed=1)
        assert list(found.failed) == ["wrong"]
        assert found.sites == tuple(data)
        with pytest.raises(fedwad.InputError):  # a mistake of the caller
            fedwad.embed(fed, sites=names, clients_per_round=3, seed=1)

    def test_if_nobody_answers(self):
        policy = fedwad.Policy(("summary",))
        with pytest.raises(fedwad.PolicyError):
            fedwad.embed(fedwad.local(grouped_sites(each=1)[0], policy=policy))


class TestResult:
    def test_the_same_seed_gives_the_same_bits(self):
        data, _ = grouped_sites(each=3)
        one, two = (fedwad.embed(data, seed=3) for _ in range(2))
        np.testing.assert_array_equal(one.embedding, two.embedding)
        np.testing.assert_array_equal(one.cluster(4), two.cluster(4))
        assert one.nearest("site0") == two.nearest("site0")

    def test_fewer_dimensions(self, grouped):
        data, truth, e = grouped
        few = fedwad.embed(data, dimension=3)
        assert few.embedding.shape == (48, 3)
        assert 0.5 < few.explained < 1
        np.testing.assert_allclose(few.embedding, e.embedding[:, :3])
        np.testing.assert_array_equal(few.cluster(4), fedwad.compare.clusters.in_order(truth))

    def test_save_and_load(self, grouped, tmp_path):
        e = grouped[2]
        path = tmp_path / "sites.json"
        e.save(path)
        again = fedwad.EmbeddingResult.load(path)
        assert again == e
        assert again.embedding.tobytes() == e.embedding.tobytes()
        assert [one.value for one in again.nearest("site0", 2)] == [None, None]
        np.testing.assert_array_equal(again.cluster(4), e.cluster(4))
        with pytest.raises(fedwad.InputError):
            again.distance("site0", "site1")

    def test_what_sites_sent_is_not_saved(self, grouped):
        e = grouped[2]
        content = json.dumps(e.to_dict())
        means = e.replies[0].summary.means
        assert not any(repr(float(number)) in content for number in means.flat)

    @pytest.mark.parametrize("part", ["sites", "embedding", "noise", "rows", "options", "history"])
    def test_damaged_files_are_refused(self, grouped, part):
        content = grouped[2].to_dict()
        for damaged in (
            {key: value for key, value in content.items() if key != part},
            content | {part: [1]},
        ):
            with pytest.raises(fedwad.InputError):
                fedwad.EmbeddingResult.from_dict(damaged)

    def test_progress(self):
        steps = []
        fedwad.embed(grouped_sites(each=1)[0], rounds=2, callback=steps.append)
        assert [(one.stage, one.done) for one in steps] == [
            ("shaping the support", 0),
            ("shaping the support", 1),
            ("asking sites", 0),
            ("asking sites", 4),
        ]

    def test_shown(self, grouped, tmp_path):
        pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
        _, truth, e = grouped
        assert repr(e) == "<embedding of 48 sites in 47 dimensions>"
        assert "clusters suggested" in e._repr_html_()
        e.plot(truth, tmp_path / "map.png")
        assert (tmp_path / "map.png").stat().st_size > 1000
        frame = e.to_frame()
        assert frame.shape == (48, 47)
        assert list(frame.index) == list(e.sites)


def test_sites_with_the_same_rows_are_one_cluster():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    e = fedwad.embed(dict.fromkeys("abc", rows), support=4)
    assert e.embedding.tolist() == [[0.0], [0.0], [0.0]]
    assert e.suggest().k == 1
    assert e.cluster(2).tolist() == [0, 0, 0]
    assert "embedding of 3 sites" in e._repr_html_()


def test_clusters_that_no_test_finds_are_called_so():
    rng = np.random.default_rng(0)
    e = fedwad.embed({str(k): rng.normal(9 * (k % 2), 1, (60, 2)) for k in range(4)}, support=4)
    assert e.suggest().k == 2
    assert "not tested" in e._repr_html_()
    assert "not tested" in groups_in_words(4, 2)
