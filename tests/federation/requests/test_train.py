"""Training and testing as a client answers for them."""

from dataclasses import replace

import numpy as np
import pytest

from failing import fails

pytest.importorskip("torch")

from fedwad.errors import FederationError, InputError, PolicyError
from fedwad.federation import (
    Client,
    Dataset,
    Envelope,
    EvaluateRequest,
    Evaluation,
    FileLedger,
    Policy,
    TrainReply,
    TrainRequest,
    local,
    pack,
    unpack,
)
from fedwad.learning.local import build
from fedwad.messages.codec import check_reply
from fedwad.transport import Measure

PERSONAL = ("head.weight", "head.bias")


def data(seed=0, count=60, classes=("cat", "dog")):
    rng = np.random.default_rng(seed)
    y = np.arange(count) % len(classes)
    return rng.standard_normal((count, 4)) + 3 * y[:, None], np.array(classes)[y]


def client(policy=None, **options):
    X, y = data(**options)
    return Client(Dataset(Measure(X), y), Policy.open() if policy is None else policy)


def request(kind=TrainRequest, personal=PERSONAL, **changes):
    network = build("mlp", 4, 2, 7, personal)
    common = {
        "run": "r",
        "times_trained": 0,
        "model": "mlp",
        "personal_layers": personal,
        "weights": network.initial_weights()[~network.personal_mask],
        "classes": ("cat", "dog"),
        "init_seed": 7,
        "test_size": 0.2,
        "split_seed": 3,
    }
    if kind is TrainRequest:
        common |= {
            "epochs": (1, 1),
            "layers": ("personal", "shared"),
            "batch_size": 10,
            "learning_rate": 0.1,
            "momentum": 0.5,
            "seed": 5,
            "return_weights": True,
        }
    return kind(**(common | changes))


def test_shared_layers_travel_and_own_layers_stay():
    one = client()
    asked = request()
    reply = one.answer(asked)
    assert reply.weights.shape == asked.weights.shape
    assert reply.weights.dtype == np.float32
    assert reply.count == 48
    assert not np.array_equal(reply.weights, asked.weights)
    size = build("mlp", 4, 2, 7).size
    assert len(reply.weights) == size - 64 * 2 - 2  # no number of the head is among them


def test_own_layers_are_remembered_from_turn_to_turn():
    one, other = client(), client()
    first = one.answer(request())
    second = one.answer(request(times_trained=1, weights=first.weights))
    with fails(FederationError, "other-run"):
        other.answer(request(times_trained=1, weights=first.weights))  # it has not trained yet
    with fails(FederationError, "other-run"):
        one.answer(
            request(times_trained=1, weights=first.weights)
        )  # a repeated message would train twice
    fresh = client()
    fresh.answer(request())
    np.testing.assert_array_equal(
        fresh.answer(request(times_trained=1, weights=first.weights)).weights, second.weights
    )
    assert one.answer(request(EvaluateRequest, times_trained=2, weights=second.weights)).count == 12
    with fails(FederationError, "other-run"):
        one.answer(request(EvaluateRequest, times_trained=1, weights=second.weights, run="another"))


def test_training_helps_on_samples_that_were_put_aside():
    one = client()
    before = one.answer(request(EvaluateRequest, personal=()))
    trained = one.answer(request(personal=(), epochs=(30,), layers=("all",), learning_rate=0.05))
    after = one.answer(request(EvaluateRequest, personal=(), weights=trained.weights))
    assert before.count == after.count == 12
    assert before.correct < after.correct
    assert after.correct >= 11
    assert trained.loss < 0.1


def test_the_division_is_by_class_and_the_order_of_rows_changes_nothing():
    X, y = data(count=61)
    order = np.random.default_rng(1).permutation(61)
    replies = [
        Client(Dataset(Measure(points), labels), Policy.open()).answer(request())
        for points, labels in ((X, y), (X[order], y[order]))
    ]
    np.testing.assert_array_equal(replies[0].weights, replies[1].weights)
    assert replies[0].count == 61 - 6 - 6
    rare = np.array(["dog"] + ["cat"] * 40)
    few = Client(
        Dataset(Measure(np.random.default_rng(0).standard_normal((41, 4))), rare), Policy.open()
    )
    assert few.answer(request()).count == 33  # the only dog is trained on
    assert few.answer(request(EvaluateRequest, test_size=0.0)).count == 41


def test_nothing_but_numbers_comes_back_when_weights_are_not_asked_for():
    reply = client().answer(request(return_weights=False))
    assert len(reply.weights) == 0


def test_messages_carry_both():
    for message in (
        request(),
        request(EvaluateRequest),
        client().answer(request()),
        Evaluation(3, 4, 2),
    ):
        back = unpack(pack(Envelope(message))).content
        assert type(back) is type(message)
        for name in message.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(back, name), getattr(message, name))
    assert unpack(pack(Envelope(request()))).content.weights.dtype == np.float32


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": (0, 0)},
        {"epochs": (2000, 1)},
        {"epochs": (1,)},
        {"epochs": "11"},
        {"epochs": (1.0, 1)},
        {"layers": ("head", "shared")},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"learning_rate": "1"},
        {"learning_rate": float("nan")},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"seed": -1},
        {"return_weights": 1},
        {"times_trained": -1},
        {"model": ""},
        {"model": 3},
        {"personal_layers": "head"},
        {"personal_layers": ("neck",)},
        {"weights": np.zeros(3, dtype=np.float32)},
        {"weights": np.zeros(3)},
        {"weights": np.full(3, np.nan, dtype=np.float32)},
        {"weights": None},
        {"classes": ("cat",)},
        {"classes": ("cat", "cow")},
        {"classes": (1, "dog")},
        {"test_size": 0.95},
        {"test_size": 1},
        {"split_seed": None},
        {"run": "r" * 65},
        {"model": "rnn"},
    ],
)
def test_wrong_requests_are_stated_in_a_sentence_and_recorded(changes):
    one = client()
    with pytest.raises(InputError):
        one.answer(replace(request(), **changes))
    assert len(one.ledger.entries) == 1
    assert one.ledger.entries[0].outcome in ("refused", "withheld")


def test_data_without_labels_or_too_few():
    bare = Client(Dataset(Measure(np.zeros((5, 4)))), Policy.open())
    with fails(InputError, "missing-labels"):
        bare.answer(request())
    with fails(InputError, "too-few-samples"):
        client(count=4).answer(request(test_size=0.1))


def test_a_rate_that_is_too_large_is_stated():
    with fails(InputError, "diverged"):
        client().answer(
            request(personal=(), epochs=(20,), layers=("all",), learning_rate=100.0, momentum=0.9)
        )


def test_the_policy_decides():
    closed = Policy(allow=["describe"])
    with fails(PolicyError, "kind-refused", "train"):
        client(closed).answer(request())
    some = Policy(allow=["train"])
    assert client(some).answer(request()).count == 48
    with fails(PolicyError, "kind-refused", "evaluate"):
        client(some).answer(request(EvaluateRequest))
    with fails(PolicyError, "model-refused"):
        client(some).answer(replace(request(), model="test_descent:two_layers"))
    with fails(PolicyError, "small-cells"):
        client(Policy(allow=["train"], min_cell_size=50)).answer(request())
    with fails(InputError, "bad-policy"):
        Policy(models="mlp")


def test_a_reply_of_another_size_is_no_answer():
    asked = request()
    good = client().answer(asked)
    asked.check(good)
    for wrong in (
        replace(good, weights=good.weights[1:]),
        replace(good, weights=np.zeros(0, dtype=np.float32)),
    ):
        with pytest.raises(InputError):
            asked.check(wrong)
    for broken in (
        TrainReply(np.full(3, np.inf, dtype=np.float32), 3, 0.1),
        TrainReply(np.zeros(3), 3, 0.1),
        TrainReply(np.zeros(3, dtype=np.float32), 0, 0.1),
        TrainReply(np.zeros(3, dtype=np.float32), 3, float("nan")),
        Evaluation(5, 4, 2),
        Evaluation(-1, 4, 2),
        Evaluation(0, 0, 0),
        Evaluation(1.0, 4, 2),
        Evaluation(3, 4, 5),
        Evaluation(3, 4, -1),
        Evaluation(3, 4, 2.0),
    ):
        assert check_reply(asked, broken) is not None


def test_clients_train_together_as_alone_and_each_records_its_own():
    sites = {f"site{k}": data(seed=k, count=40 + 7 * k) for k in range(4)}
    fed = local(sites)
    requests = {name: request(seed=k) for k, name in enumerate(sites)}
    requests["site3"] = request(learning_rate=0.2)
    together = fed.ask(requests)
    for name, asked in requests.items():
        X, y = sites[name]
        alone = Client(Dataset(Measure(X), y), Policy.open()).answer(asked)
        np.testing.assert_array_equal(together[name].weights, alone.weights)
        assert together[name].count == alone.count
        assert [entry.outcome for entry in fed.ledgers[name].entries] == ["answered"]


def test_one_that_refuses_does_not_keep_the_others():
    sites = {f"site{k}": data(seed=k) for k in range(3)}
    fed = local(sites)
    answers = fed.ask({"site0": request(), "site1": request(times_trained=4), "site2": request()})
    assert [type(answer).__name__ for answer in answers.values()] == [
        "TrainReply",
        "Failure",
        "TrainReply",
    ]
    assert answers["site1"].code == "federation"
    assert [fed.ledgers[name].entries[-1].outcome for name in sites] == [
        "answered",
        "withheld",
        "answered",
    ]


def test_own_layers_outlive_a_process_where_there_is_a_ledger_file(tmp_path):
    X, y = data()

    def opened(name="ledger.sqlite"):
        return Client(Dataset(Measure(X), y), Policy.open(), FileLedger(tmp_path / name))

    first = opened().answer(request())
    second = opened().answer(request(times_trained=1, weights=first.weights))
    lasting = client()
    lasting.answer(request())
    np.testing.assert_array_equal(
        second.weights, lasting.answer(request(times_trained=1, weights=first.weights)).weights
    )
    assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir()} == {0}
    with fails(FederationError, "other-run"):
        opened().answer(request(times_trained=3, weights=first.weights))


def test_one_that_diverges_costs_the_others_no_layers():
    X, y = data(seed=1)
    fed = local({"one": data(seed=0), "two": (X, y), "wild": (1e30 * X, y)})
    first = fed.ask({"one": request(), "two": request()})
    again = {name: request(times_trained=1, weights=first[name].weights) for name in first}
    answers = fed.ask(again | {"wild": request()})
    assert [type(answer).__name__ for answer in answers.values()] == [
        "TrainReply",
        "TrainReply",
        "Failure",
    ]
    assert "diverged" in answers["wild"].sentence


def test_personal_layers_start_from_the_seed_of_each_request():
    fed = local({"one": data(seed=0), "two": data(seed=1)})
    answers = fed.ask({"one": request(), "two": request(init_seed=8)})
    alone = client(seed=1).answer(request(init_seed=8))
    np.testing.assert_allclose(answers["two"].weights, alone.weights, rtol=1e-4, atol=1e-6)
