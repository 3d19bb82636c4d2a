"""`fedwad plan`, `fedwad budget show`, and --epsilon."""

import json
import logging

import numpy as np
import pytest

from command_line import run
from fedwad.federation import ColumnsRequest, PrivateRequest, SummaryRequest, open_client
from fedwad.privacy import DP, epsilon_of, mu_of, plan


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(3):
        np.save(tmp_path / f"site{k}.npy", rng.standard_normal((300, 2)) + k)
    return tmp_path


def test_a_distance_under_privacy(files):
    guarantee = ("--epsilon", 5, "--clip-norm", 8)
    page = files / "page.html"
    done = run(
        "distance", files / "site0.npy", files / "site2.npy", *guarantee, "--report", page
    )  # the one method that gives a guarantee
    assert done.returncode == 0, done.stderr  # nothing is tested, whatever the number of rows
    assert "epsilon 5" in done.stdout
    for text in (done.stdout, page.read_text()):
        assert "likely range" in text
        assert "95%" not in text
    assert "certified" not in done.stdout
    done = run("matrix", files, *guarantee, "--k", "auto", "--report", page)
    for text in (done.stdout, page.read_text()):
        assert "95%" not in text
        assert "no difference was found" not in text
        assert "correlations, with" not in text
    assert "Suggested number: 1, since nothing was tested" in done.stdout
    assert "Too few rows" not in done.stdout
    assert "p-value is of the column" not in page.read_text()
    done = run("matrix", files, *guarantee, "--json")
    assert json.loads(done.stdout)["privacy"]["epsilon"] == 5


def test_a_guarantee_without_a_radius_is_refused(files):
    done = run("matrix", files, "--epsilon", 1)
    assert done.returncode == 2
    assert run("matrix", files, "--clip-norm", 1).returncode == 2
    lone = run("matrix", files, "--delta", 1e-6)
    assert lone.returncode == 2
    assert "--delta belongs to differential privacy" in lone.stderr


def test_the_budget_is_shown(files):
    (files / "paris.toml").write_text(
        'name = "paris"\nallow = ["describe", "private"]\nepsilon = 2.0\n'
    )
    client = open_client(files / "site0.npy", files / "paris.toml")
    for clip_norm in (5.0, 5.0, 6.0):
        client.answer(PrivateRequest.of(DP(1, clip_norm=clip_norm)))
    found = json.loads(run("budget", "show", files / "paris.ledger.sqlite", "--json").stdout)
    mu = mu_of(1, 1e-5)
    assert found["mu"] == pytest.approx(mu * 2**0.5)
    assert found["epsilon"] == pytest.approx(epsilon_of(mu * 2**0.5, 1e-5))
    assert found["granted"] == 2
    assert found["left"] == pytest.approx(
        epsilon_of((mu_of(2, 1e-5) ** 2 - 2 * mu**2) ** 0.5, 1e-5)
    )
    assert found["releases"] == 2  # the second was sent again, which costs nothing
    done = run("budget", "show", files / "paris.ledger.sqlite")
    assert "of 2" in done.stdout
    assert run("budget", "show", files / "nowhere.jsonl").returncode == 2


def test_an_empty_ledger_has_no_epsilon_to_show(files):
    (files / "new.ledger.sqlite").touch()
    printed = run("budget", "show", files / "new.ledger.sqlite").stdout
    assert (
        printed == "No private release was made yet: nothing is spent. 0 requests were refused.\n"
    )
    (files / "new.toml").write_text(
        'name = "paris"\nallow = ["describe", "private"]\nepsilon = 2.0\n'
    )
    assert (
        "a further release can have epsilon up to 2."
        in run("budget", "show", files / "new.ledger.sqlite").stdout
    )


def test_other_answers_after_private_ones_are_warned_of(files, caplog):
    """They end the guarantee; whoever changes the policy should know before it happens."""
    policy, data = files / "paris.toml", files / "site0.npy"
    policy.write_text('name = "paris"\nallow = ["describe", "private"]\nepsilon = 2.0\n')
    open_client(data, policy).answer(PrivateRequest.of(DP(1, clip_norm=5.0)))
    open_client(data, policy)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    policy.write_text('name = "paris"\nallow = ["describe", "summary"]\n')
    client = open_client(data, policy)
    sentence = (
        "The ledger holds 1 private release, and this policy allows replies without noise:"
        " the guarantee of differential privacy "
    )
    assert caplog.messages == [sentence + "ends with the first of those."]
    assert caplog.messages[0] in run("node", "check", data, policy).stdout.replace("\n", " ")
    client.answer(SummaryRequest(5, "diag", 2.0, 0))
    caplog.clear()
    open_client(data, policy)
    assert caplog.messages == [sentence + "has ended, because replies without noise were sent too."]


def test_a_plan_says_what_is_not_feasible():
    done = run("plan", "--n", 300, "--d", 2, "--epsilon", 0.3, "--epsilon", 50, "--json")
    plans = json.loads(done.stdout)["plans"]
    assert [one["verdict"] for one in plans] == ["not feasible", "feasible"]
    assert plans[0]["enough"] > 300 == plans[1]["enough"]
    assert plans[0]["order"] < 0.95 <= plans[1]["order"]
    assert "not feasible" in " ".join(
        run("plan", "--n", 300, "--d", 2, "--epsilon", 0.3).stdout.split()
    )
    assert run("plan", "--n", 300, "--d", 2, "--epsilon", -1).returncode == 2


def test_a_plan_is_about_the_columns_of_a_schema(files):
    (files / "s.toml").write_text(
        'version = 1\n[columns.age]\nkind = "number"\nrange = [0, 100]\n[columns.sex]\n'
        'kind = "category"\nlevels = ["f", "m"]\n[columns.ill]\nkind = "boolean"\ncentre = 0.5\n'
        "scale = 0.5\n"
    )
    base = ("plan", "--n", 5000, "--epsilon", 3, "--schema", files / "s.toml")
    (found,) = json.loads(run(*base, "--json").stdout)["plans"]
    assert (found["columns"], found["d"]) == (3, 4)
    assert found["nearest"] == pytest.approx(0.5, rel=0.1)
    far = ("--nearest", 0.9, "--farthest", 1)
    (close,) = json.loads(run(*base, *far, "--json").stdout)["plans"]
    assert close["order"] <= found["order"]
    assert run(*base, "--clip-norm", 3).returncode == 2
    assert run(*base, "--nearest", 2, "--farthest", 1).returncode == 2
    assert run(*base, "--nearest", 50, "--farthest", 60).returncode == 2


def test_a_plan_is_the_same_twice_and_better_with_more_rows():
    few, many = plan(1000, 3, 1.0), plan(20_000, 3, 1.0)
    assert few == plan(1000, 3, 1.0)
    assert many.error < few.error / 3
    assert many.order >= few.order


def test_a_plan_predicts_the_error_of_releases():
    """Of the data that it simulates: normal columns, shifted alike."""
    import fedwad

    said = plan(2000, 3, 1.0, clip_norm=2.0)
    rng, errors = np.random.default_rng(0), []
    for _ in range(90):
        x, y = rng.normal(0, 1, (2, 2000, 3))
        guarantee = DP(1.0, clip_norm=2.0 * 3**0.5)
        found = fedwad.distance(x, y + 0.5 / 3**0.5, privacy=guarantee)
        errors.append(found.value / 0.5 - 1)
    came = np.sqrt(np.mean(np.square(errors)))
    assert said.error / 1.5 < came < said.error * 1.5


def test_nothing_is_left_after_a_reply_without_noise(files):
    ledger = files / "mixed.ledger.sqlite"
    policy = 'name = "mixed"\nallow = ["describe", "private"]\nepsilon = 2.0\n'
    (files / "mixed.toml").write_text('name = "mixed"\nallow = ["columns"]\n')
    open_client(files / "site0.npy", files / "mixed.toml").answer(ColumnsRequest())
    (files / "mixed.toml").write_text(policy)
    found = json.loads(run("budget", "show", ledger, "--json").stdout)
    assert (found["without_privacy"], found["left"]) == (1, 0)
    printed = run("budget", "show", ledger).stdout
    assert "a further release can have epsilon up to 0." in printed
    assert "no further private release is made" in printed


def test_the_payment_of_a_release_is_no_request(files):
    (files / "lima.toml").write_text('name = "lima"\nallow = ["private"]\nepsilon = 2.0\n')
    client = open_client(files / "site0.npy", files / "lima.toml")
    client.answer(PrivateRequest.of(DP(1, clip_norm=5.0)))
    printed = run("ledger", "show", files / "lima.ledger.sqlite").stdout
    assert "1 requests in 2 entries (2 shown): 1 answered" in printed
