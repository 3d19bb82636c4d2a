"""A node for the drill: a process that reads messages from its standard input and writes answers to
its standard output.

Four bytes before each message and each answer have its length. The first answer is "ready", or why
the node does not start.
"""

import struct
import sys
from pathlib import Path

from fedwad.errors import FedwadError
from fedwad.federation import Client, open_client


def write(answer: bytes) -> None:
    sys.stdout.buffer.write(struct.pack(">I", len(answer)) + answer)
    sys.stdout.buffer.flush()


def serve(client: Client) -> None:
    while head := sys.stdin.buffer.read(4):
        write(client.respond(sys.stdin.buffer.read(struct.unpack(">I", head)[0])))


def main(folder: Path) -> None:
    try:
        client = open_client(folder / "data.npy", folder / "policy.toml")
    except FedwadError as error:
        write(str(error).encode())
        return
    write(b"ready")
    serve(client)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
