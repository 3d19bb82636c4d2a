"""Row 16: when the link is lost, the error says so and names no client."""

import pytest

import fedwad
from fedwad.errors import FederationError

pytest.importorskip("flwr")


@pytest.fixture(autouse=True)
def _inside_a_run(monkeypatch):
    """Flower's messages can be made only inside a run."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


WAYS = ["push", "pull", "forgotten at once", "forgotten"]


class Killed:
    """Flower's Grid after its SuperLink was killed and started anew: messages are unknown to it."""

    def __init__(self, how):
        self.how, self.sent = how, {}

    def get_nodes(self):
        return []

    def push_messages(self, messages):
        if self.how == "push":
            raise ConnectionError("UNAVAILABLE")
        if self.how == "forgotten at once":
            return []
        for number, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = str(number)
            self.sent[str(number)] = message
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, ids):
        from flwr.app import Error, Message

        if self.how != "forgotten":
            raise ConnectionError("UNAVAILABLE")
        return [Message(Error(3, "unknown"), reply_to=self.sent[one]) for one in ids]


@pytest.mark.parametrize("how", WAYS)
def test_a_lost_link_blames_no_client(how):
    from fedwad.engines.flower.grid import GridFederation

    fed = GridFederation(Killed(how), {"paris": 1, "oslo": 2}, timeout=3.0)
    with pytest.raises(FederationError) as caught:
        fedwad.distance(fed["paris"], fed["oslo"], method="summary")
    assert "paris" not in str(caught.value), str(caught.value)
    assert "oslo" not in str(caught.value), str(caught.value)
    assert "link" in str(caught.value)


@pytest.mark.parametrize("how", WAYS)
def test_a_lost_link_ends_a_matrix_without_a_list_of_lost_clients(how):
    from fedwad.engines.flower.grid import GridFederation

    fed = GridFederation(Killed(how), {"paris": 1, "oslo": 2, "rome": 3}, timeout=3.0)
    with pytest.raises(FederationError) as caught:
        fedwad.matrix(fed, method="summary")
    assert not any(name in str(caught.value) for name in ("paris", "oslo", "rome")), str(
        caught.value
    )
