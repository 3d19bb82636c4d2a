"""The ClientApp that a node runs: it answers one message from the site's data, within its policy.

The operator of a site names the site's file (`fedwad.engines.site_file`) in the node's own
configuration, which no analyst can change. A stock SuperNode takes

    --node-config 'site="/etc/fedwad/paris.toml"'

It starts a new process for each message, and it runs any other app that an analyst submits. The
node in `fedwad.engines.flower.supernode` runs this app only.
"""

from __future__ import annotations

import sys

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedwad.engines._simulation import Simulation
from fedwad.engines.flower._messages import failure_reply, unwrap, wrap
from fedwad.engines.job import CANNOT_OPEN
from fedwad.engines.site_file import open_site_file
from fedwad.federation import Client, Failure

NOT_A_MESSAGE = Failure(
    "invalid_request", "the node received something that is not a fedwad message."
)
_INTERNAL = Failure(
    "internal", "the node could not answer; its operator finds the reason in its log."
)

app = ClientApp()


@app.query()
def handle(message: Message, context: Context) -> Message:
    """Open the client and answer one message."""
    try:
        simulation = Simulation.current()
        if simulation is None:
            client = open_site_file(str(context.node_config.get("site", "")))
        else:
            client = simulation.client(int(context.node_config["partition-id"]))
    except Exception as error:  # its text names paths and stays on this machine
        print(f"fedwad cannot open this site: {error}", file=sys.stderr, flush=True)
        return failure_reply(message, CANNOT_OPEN)
    return answer(client, message)


def answer(client: Client, message: Message) -> Message:
    """The reply to one message. It raises nothing, because Flower sends the text of exceptions."""
    try:
        payload = unwrap(message)
        if isinstance(payload, Failure):
            return failure_reply(message, NOT_A_MESSAGE)
        requester = f"Flower run {message.metadata.run_id}"
        return Message(wrap(client.respond(payload, requester)), reply_to=message)
    except Exception as error:
        print(
            f"fedwad could not answer: {type(error).__name__}: {error}", file=sys.stderr, flush=True
        )
        return failure_reply(message, _INTERNAL)
