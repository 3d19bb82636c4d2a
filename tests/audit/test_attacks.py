"""Each attack gets what its mathematics says, from a client that answers everything, and nothing it
was not given."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedwad.audit import ReconstructionScorer
from fedwad.audit.differencing import (
    Curve,
    difference_by_sizes,
    difference_by_weights,
    difference_slabs,
)
from fedwad.audit.exact import invert_two_rounds, invert_with_known_t, invert_with_secret_t
from fedwad.audit.private import (
    average_releases,
    draw_from_columns,
    subtract_known_records,
    subtract_known_rows,
)
from fedwad.audit.session import AttackSession
from fedwad.audit.summaries import (
    difference_cells,
    difference_summaries,
    draw_from_summary,
    find_rare_records,
)
from fedwad.audit.tomography import tomography
from fedwad.federation import KINDS, Client, ColumnsRequest, Dataset, Policy, TransportRequest
from fedwad.transport import Measure

EVERYTHING = frozenset(KINDS)


def attacked(attack, points, policy=None, seed=0):
    session = AttackSession(
        Dataset(Measure(points)), Policy.open() if policy is None else policy, EVERYTHING
    )
    return session, ReconstructionScorer(points).score(attack(session, np.random.default_rng(seed)))


def rare(base=0.0):
    """200 patients; three have a flag that nobody else has."""
    rng = np.random.default_rng(2)
    points = np.column_stack([rng.normal(50, 10, (200, 4)), np.full((200, 3), base)])
    points[[5, 60, 199], [4, 5, 6]] = base + 1.0
    return points


@pytest.mark.parametrize("base", [0.0, 7.0])
def test_a_feature_that_one_record_has_gives_it_away_with_the_covariance(base):
    _, score = attacked(find_rare_records, rare(base))
    assert score.exact == 3


def test_without_the_covariance_between_features_it_does_not():
    for covariance_type in ("diag", "spherical"):
        policy = Policy(allow=["summary"], covariance_type=covariance_type, min_cell_size=10)
        _, score = attacked(find_rare_records, rare(), policy)
        assert score.exact == 0


@pytest.mark.parametrize(
    "attack", [invert_with_known_t, invert_with_secret_t, invert_two_rounds, difference_by_weights]
)
@pytest.mark.parametrize("shape", [(40, 1), (40, 2), (45, 7), (35, 3), (56, 3)])
def test_the_published_protocol_gives_every_record_away(attack, shape):
    points = 3 + np.random.default_rng(1).standard_normal(shape)
    _, score = attacked(attack, points)
    assert score.exact == len(points)


@pytest.mark.parametrize("attack", [invert_with_secret_t, invert_two_rounds])
def test_the_secret_t_is_not_used(attack, monkeypatch):
    """The client draws t by itself, and no request has one."""
    asked, answer = [], Client.answer
    monkeypatch.setattr(
        Client, "answer", lambda client, one: asked.append(one) or answer(client, one)
    )
    for seed in range(10):
        points = np.random.default_rng(seed).standard_normal((40, 3))
        _, score = attacked(attack, points)
        assert score.exact == 40
    rounds = [one for one in asked if isinstance(one, TransportRequest)]
    assert len(rounds) >= 10
    assert all(one.t is None for one in rounds)


@pytest.mark.parametrize("shape", [(60, 2), (60, 20)])
def test_tomography_with_two_records_in_a_cell(shape):
    points = np.random.default_rng(2).standard_normal(shape)
    session, score = attacked(tomography, points, replace(Policy.open(), min_cell_size=2))
    assert score.exact == 60
    assert session.answered <= 121


def test_equal_weights_and_a_floor_do_not_stop_sizes():
    points = np.random.default_rng(3).standard_normal((200, 4))
    policy = Policy(["transport"], min_cell_size=10, rounding=0.0)
    _, score = attacked(difference_by_sizes, points, policy)
    assert score.exact >= 30
    assert (
        difference_by_weights(
            AttackSession(Dataset(Measure(points)), policy, EVERYTHING), np.random.default_rng(0)
        ).size
        == 0
    )


def test_a_floor_does_not_stop_chosen_weights():
    points = np.random.default_rng(4).standard_normal((200, 2))
    policy = Policy(["transport"], min_cell_size=20, supports="any", rounding=0.0)
    session, score = attacked(difference_by_weights, points, policy)
    assert (
        score.exact >= 160
    )  # all but the floor at both ends of one line, and the rest by other lines
    assert session.answered < 70


def test_slabs_of_a_coreset_give_records_away_above_any_floor():
    points = np.random.default_rng(5).standard_normal((200, 2))
    policy = Policy(["atoms", "columns"], min_cell_size=10, rounding=0.0)
    assert attacked(difference_slabs, points, policy)[1].exact >= 60
    assert attacked(difference_slabs, points, replace(policy, rounding=1.0))[1].exact == 0


@pytest.mark.parametrize("splits", ["none", "blocks"])
def test_labelled_records_are_drawn_class_by_class_from_one_message(splits):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 30)
    points = rng.normal(size=(60, 2)) + 50 * labels[:, None]
    policy = Policy(["summary"], classes=True, splits=splits)
    session = AttackSession(Dataset(Measure(points), labels), policy, EVERYTHING)
    guesses = draw_from_summary(session, rng)
    assert session.answered == 1
    assert np.bincount((guesses[:, 0] > 25).astype(int)).tolist() == [30, 30]


def test_labels_that_a_policy_withholds_are_not_needed():
    points = np.random.default_rng(0).normal(size=(60, 2))
    data = Dataset(Measure(points), np.repeat([0, 1], 30))
    session = AttackSession(data, Policy(["summary"]), EVERYTHING)
    assert draw_from_summary(session, np.random.default_rng(1)).shape == (60, 2)


def test_summaries_that_differ_by_a_record_tell_it():
    points = np.random.default_rng(6).standard_normal((200, 2))
    _, score = attacked(difference_summaries, points, Policy(["summary"], max_queries=20))
    assert score.exact >= 5


def test_the_difference_of_two_cells():
    points = np.random.default_rng(7).standard_normal((12, 3))
    means = np.stack([points[:11].mean(axis=0), points.mean(axis=0)])
    assert difference_cells(np.array([11, 12]), means, 1)[0] == pytest.approx(points[11])


def test_the_curve_knows_a_record_that_is_cut_twice():
    records = np.random.default_rng(8).standard_normal((10, 2))
    curve = Curve(10, 2)

    def upto(place):
        whole = int(place)
        rest = float(place - whole)
        return records[:whole].sum(axis=0) + (rest * records[whole] if rest else 0)

    for cuts in ([Fraction(10, 3), Fraction(20, 3), Fraction(10)], [Fraction(7, 2), Fraction(10)]):
        heights = np.array([upto(cut) for cut in cuts])
        curve.add(cuts, np.diff(heights, axis=0, prepend=np.zeros((1, 2))))
    (found,) = curve.records()
    assert found == pytest.approx(records[3])


def test_a_budget_stops_the_averaging_of_releases():
    points = np.random.default_rng(9).standard_normal((100, 2))
    session, score = attacked(average_releases, points, Policy(["private"], epsilon=1.0))
    assert session.answered == 1
    assert "budget" in session.refusals[-1]
    assert score.near == 0
    unlimited, _ = attacked(average_releases, points)
    assert unlimited.answered == 20


def test_without_noise_all_others_tell_the_last_record(monkeypatch):
    """The attack that a release must withstand is a real one: take the noise away and it gets
    everything."""
    from fedwad.privacy import _mechanism
    from fedwad.privacy import _release as module

    monkeypatch.setattr(module, "add_noise", lambda sums, *_: (sums * _mechanism.SUM_UNIT, 1e-9))
    points = np.random.default_rng(9).standard_normal((100, 2))
    _, score = attacked(subtract_known_records, points, Policy(["private"], epsilon=1.0))
    assert score.near == 100


def test_without_noise_all_others_tell_the_bins_of_the_last_record(monkeypatch):
    from fedwad.privacy import columns as module

    points = np.random.default_rng(9).standard_normal((100, 2))
    bin_width = 2 * 1.01 * np.sqrt((points**2).sum(axis=1)).max() / 16
    policy = Policy(["private"], epsilon=1.0)
    hidden = subtract_known_rows(AttackSession(Dataset(Measure(points)), policy, {"private"}), None)
    assert (np.abs(hidden - points) <= bin_width / 2 + 1e-9).all(axis=1).mean() < 0.2
    monkeypatch.setattr(module, "add_noise", lambda sums, *_: (sums / 2**32, 1e-9))
    session = AttackSession(Dataset(Measure(points)), policy, {"private"})
    found = subtract_known_rows(session, np.random.default_rng(0))
    assert (np.abs(found - points) <= bin_width / 2 + 1e-9).all()
    drawn = draw_from_columns(
        AttackSession(Dataset(Measure(points)), policy, {"private"}), np.random.default_rng(0)
    )
    assert np.allclose(drawn.mean(axis=0), points.mean(axis=0), atol=0.5)


def test_a_door_opens_only_to_its_method():
    session = AttackSession(Dataset(Measure(np.eye(3))), Policy.open(), frozenset({"summary"}))
    assert session.ask(ColumnsRequest()) is None
    assert session.answered == 0
