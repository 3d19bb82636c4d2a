"""Each reason why a connection to a SuperLink fails has its own sentence."""

import socket
import ssl
from contextlib import contextmanager, suppress
from threading import Thread

import pytest

from failing import fails
from fedwad.engines.flower._control import connection_problem, parse_address
from fedwad.errors import InputError

pytest.importorskip("cryptography")

from engines.flower_loopback import write_certificates


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("hub.example.org:8443", ("hub.example.org", 8443)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:443", ("::1", 443)),
    ],
)
def test_an_address_has_two_parts(address, parts):
    assert parse_address(address) == parts


@pytest.mark.parametrize(
    "address",
    ["", "hub", "hub:", ":8443", "hub:0", "hub:99999", "https://hub:8443", "::1", "a b:1"],
)
def test_an_address_without_both_is_refused_in_one_sentence(address):
    with fails(InputError, "bad-option", f"'{address}'"):
        parse_address(address)


@contextmanager
def listening(answer):
    """A port of this machine behind which `answer` gets the first connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def work():
            with server.accept()[0] as connection:
                answer(connection)

        thread = Thread(target=work, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(timeout=10)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    write_certificates(folder)
    return folder


@contextmanager
def secured(folder):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")

    def shake_hands(connection):
        with suppress(OSError):
            context.wrap_socket(connection, server_side=True).close()

    with listening(shake_hands) as port:
        yield port


def test_no_problem(hub):
    with secured(hub) as port:
        assert connection_problem(f"127.0.0.1:{port}", hub / "ca.crt") is None


def test_a_certificate_of_nobody_known(hub):
    with secured(hub) as port:
        assert "signed by an unknown authority" in connection_problem(f"127.0.0.1:{port}", None)


def test_a_certificate_of_another_hub(hub, tmp_path):
    write_certificates(tmp_path)
    (tmp_path / "ca.crt").rename(tmp_path / "other.crt")
    with secured(hub) as port:
        assert "was not signed by other.crt;" in connection_problem(
            f"127.0.0.1:{port}", tmp_path / "other.crt"
        )


def test_a_certificate_for_another_name(hub):
    with secured(hub) as port:
        assert "certificate is not valid for 'localhost'." in connection_problem(
            f"localhost:{port}", hub / "ca.crt"
        )


def test_plain_text(hub):
    with listening(
        lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    ) as port:
        assert "does not speak TLS" in connection_problem(f"127.0.0.1:{port}", hub / "ca.crt")


def test_nobody_listens(hub):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "nothing listens at this port" in connection_problem(f"127.0.0.1:{port}", hub / "ca.crt")


def test_a_name_of_no_machine(hub):
    assert (
        connection_problem("hub.invalid:443", hub / "ca.crt")
        == "there is no machine called hub.invalid; check the name."
    )


def test_a_file_that_holds_no_certificate(tmp_path):
    (tmp_path / "ca.crt").write_text("none")
    assert "holds no certificate" in connection_problem("127.0.0.1:1", tmp_path / "ca.crt")


def test_a_name_that_no_machine_can_have_is_no_crash():
    assert connection_problem("a..b:443", None) == (
        "there is no machine called a..b; check the name."
    )
