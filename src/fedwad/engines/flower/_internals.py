"""The only use of internals of Flower 1.41: a node's connection to a SuperLink, shorter waits."""

from __future__ import annotations

import logging
import ssl
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedwad.engines.flower._control import certificate_path, connection_problem
from fedwad.errors import InputError

SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between two tries
#: How a node fetches objects that Flower has announced: tried again soon, for ten minutes.
_TRIES: dict[str, Any] = {
    "max_time": 600.0,
    "max_tries_per_object": None,
    "initial_backoff": SHORTEST_PAUSE,
    "backoff_cap": LONGEST_PAUSE,
}


def shorten_pauses() -> None:
    """Let the Grid of this process fetch objects again after shorter pauses.

    Flower announces a message before it sends the objects of which the message consists. Whoever
    fetches them too early waits for one second, then two, then four. A node that is killed after it
    announced its reply never sends them, and Flower waits for them for three minutes, and delivers
    no other reply meanwhile. After a minute, in which a link of 10 Mbit/s carries 75 MB, the
    message is sent again.
    """
    http_grid: Any = import_module("flwr.superlink.grid.http_grid")
    if not isinstance(http_grid.pull_objects, partial):
        http_grid.pull_objects = partial(http_grid.pull_objects, **_TRIES | {"max_time": 60.0})


def search_only_addressed_nodes(grid: Any) -> None:
    """Let a simulation search messages only for nodes to which one was sent.

    Flower searches all messages for each node, again and again: 48 ms of processor time a message
    with 10,000 nodes. A node leaves the set of addressed nodes before its messages are searched,
    and returns if there was one. A message that is stored meanwhile returns it, too, so no message
    is lost.
    """
    store, search = grid.state.store_message_ins, grid.state.get_message_ins
    addressed: set[int] = set()

    def store_and_note(message: Any) -> Any:
        message_id = store(message)
        addressed.add(message.metadata.dst_node_id)
        return message_id

    def search_if_noted(node_id: int, *rest: Any, **options: Any) -> Any:
        if node_id not in addressed:
            return []
        addressed.discard(node_id)
        messages = search(node_id, *rest, **options)
        if messages:
            addressed.add(node_id)
        return messages

    grid.state.store_message_ins, grid.state.get_message_ins = store_and_note, search_if_noted


#: Seconds between two heartbeats that the node promises; Flower accepts no fewer than 10. The
#: SuperLink counts a node as offline after twice as many without one.
_HEARTBEAT_INTERVAL = 10.0


class RefusedError(Exception):
    """The SuperLink does not accept this node.

    Waiting may help, because the SuperLink blocks the key of a killed node for a while.
    """


class LostError(Exception):
    """The SuperLink stopped answering, or no longer knows this node."""


class SuperLinkClient:
    """One node's connection to a SuperLink during a `with` block."""

    def __init__(
        self, superlink: str, root_certificates: str | Path | None, key: str | Path
    ) -> None:
        # httpx would log one line each time that the node asks for messages, and fill the disk.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        private = _read_private_key(key)
        self._address, self._root = superlink, certificate_path(root_certificates)
        self._public_key = public_key_to_bytes(private.public_key())
        self._client = FleetHttpClient.from_server_address(
            superlink,
            insecure=False,
            root_certificates=None if self._root is None else self._root.read_bytes(),
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(private, private.public_key()),
            ],
        )
        self._node = Node()
        self._closing = Event()
        self._heartbeats = Thread(target=self._send_heartbeats, daemon=True)

    def __enter__(self) -> SuperLinkClient:
        try:
            request = ActivateNodeRequest(
                public_key=self._public_key, heartbeat_interval=_HEARTBEAT_INTERVAL
            )
            self._node = Node(node_id=self._client.ActivateNode(request).node_id)
        except httpx.HTTPStatusError:
            self._client.close()
            raise RefusedError(
                "its key is not registered, or still in use by an earlier node."
            ) from None
        except (httpx.TransportError, ssl.SSLError) as error:
            self._client.close()
            problem = connection_problem(self._address, self._root) or _reason(error)
            raise RefusedError(problem) from None
        self._heartbeats.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._heartbeats.join()
        with suppress(httpx.HTTPError):
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))
        self._client.close()

    def receive(self) -> tuple[Message, ObjectTree] | None:
        """The next message for this node, without its content, and the tree of its objects.

        None if no message waits.
        """
        try:
            response = self._client.PullMessages(PullMessagesRequest(node=self._node))
        except (httpx.HTTPError, ValueError) as error:
            raise LostError(_reason(error)) from None
        if not response.messages_list:
            return None
        return message_from_proto(response.messages_list[0]), response.message_object_trees[0]

    def fetch(self, message: Message, tree: ObjectTree) -> Message | None:
        """The complete message; None if fedwad did not send it, or if its run is over."""
        if sum(1 for _ in iterate_object_tree(tree)) > 8:  # those of fedwad have three
            return None
        run = message.metadata.run_id
        try:
            complete = pull_and_inflate_object_from_tree(
                tree,
                make_pull_object_fn_protobuf(self._client.PullObject, self._node, run),
                make_confirm_message_received_fn_protobuf(
                    self._client.ConfirmMessageReceived, self._node, run
                ),
                return_type=Message,
                **_TRIES,
            )
        except httpx.TransportError as error:
            raise LostError(_reason(error)) from None
        except Exception:  # Flower raises many kinds of error for malformed content
            return None
        complete.metadata.__dict__["_message_id"] = tree.object_id  # the reply refers to this id
        return complete

    def send(self, reply: Message, compute_seconds: float) -> bool:
        """Send a reply that the node computed in so many seconds.

        Returns False if the SuperLink no longer accepts it.
        """
        with no_object_id_recompute():  # else Flower serialises and hashes a reply a dozen times
            reply.metadata.__dict__["_message_id"] = reply.object_id
            try:
                response = self._client.PushMessages(
                    PushMessagesRequest(
                        node=self._node,
                        messages_list=[message_to_proto(remove_content_from_message(reply))],
                        message_object_trees=[get_object_tree(reply)],
                        clientapp_runtime_list=[compute_seconds],
                    )
                )
                push_objects(
                    get_all_nested_objects(reply),
                    make_push_object_fn_protobuf(
                        self._client.PushObject,
                        self._node,
                        reply.metadata.run_id,
                        response.session_id,
                    ),
                    object_ids_to_push=set(response.objects_to_push),
                )
            except httpx.TransportError as error:
                raise LostError(_reason(error)) from None
            except Exception:  # the run was stopped, or the message is too old
                return False
        return True

    def _send_heartbeats(self) -> None:
        """Send heartbeats until the connection closes.

        Failures are ignored here: if the SuperLink misses heartbeats, `receive` fails.
        """
        while not self._closing.wait(0.75 * _HEARTBEAT_INTERVAL):
            try:
                self._client.SendNodeHeartbeat(
                    SendNodeHeartbeatRequest(
                        node=self._node, heartbeat_interval=_HEARTBEAT_INTERVAL
                    )
                )
            except (httpx.HTTPError, RuntimeError, ValueError):
                continue


def _read_private_key(path: str | Path) -> EllipticCurvePrivateKey:
    """Read a node's private key; InputError says what is wrong with the file."""
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError:
        raise InputError(
            f"There is no readable key at {path}; check the path.", "no-such-file"
        ) from None
    try:
        key = load_ssh_private_key(content, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):  # the first for one with a passphrase
        key = None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise InputError(
            f"{path} is not a private key for a node, without a passphrase; make one"
            f" (ssh-keygen -t ecdsa -b 384 -N '' -f {path}).",
            "bad-config",
        )
    return key


def _reason(error: BaseException) -> str:
    """Why a connection failed, as the end of a sentence in which "it" is the SuperLink."""
    text = str(error).lower()
    if isinstance(error, httpx.HTTPStatusError):
        return "it no longer knows this node."
    if "certificate" in text or "ssl" in text:
        return "its certificate is not valid for its address, or it does not use TLS."
    return "it does not answer; check that it is running and can be reached."
