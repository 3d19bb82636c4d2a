"""Why this machine cannot connect to a SuperLink.

Flower reports every problem as "unavailable". This module finds the reason.
"""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path

from fedwad.errors import InputError

__all__ = ["connection_problem", "parse_address"]

_TIMEOUT = 5.0  # seconds
# OpenSSL's codes of failed verifications.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_HOST = (62, 64)  # the certificate is for another host name, or another IP address
_CHECK_PORT = "check that this is the port of a SuperLink that has a certificate."


def parse_address(address: str) -> tuple[str, int]:
    """Split an address into host and port; raises InputError unless it has both."""
    parts = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(\d{1,5})", address)
    if parts is None or not 0 < int(parts[2]) < 65536:
        raise InputError(
            f"The SuperLink's address is '{address}'; give host:port, such as"
            " superlink.example.org:8443."
        )
    return parts[1].strip("[]"), int(parts[2])


def connection_problem(address: str, root_certificates: str | Path | None) -> str | None:
    """The reason why a TLS connection to a SuperLink fails; None if it does not fail.

    The reason is the end of a sentence in which "it" is the SuperLink.
    """
    host, port = parse_address(address)
    cafile = None if root_certificates is None else str(root_certificates)
    try:
        context = ssl.create_default_context(cafile=cafile)
    except (OSError, ssl.SSLError):
        return f"{root_certificates} holds no certificate; use the SuperLink's ca.crt."
    try:
        with socket.create_connection((host, port), _TIMEOUT) as connection:
            return _handshake_problem(connection, context, host, root_certificates)
    except (socket.gaierror, UnicodeError):  # the latter for names such as "a..b"
        return f"there is no machine called {host}; check the name."
    except ConnectionRefusedError:
        return "nothing listens at this port; check that it is running, and check host:port."
    except OSError:
        return "it does not answer; check that it is running and can be reached from here."


def _handshake_problem(
    connection: socket.socket,
    context: ssl.SSLContext,
    host: str,
    root_certificates: str | Path | None,
) -> str | None:
    try:
        with context.wrap_socket(connection, server_hostname=host):
            return None
    except ssl.SSLCertVerificationError as error:
        return _certificate_problem(error.verify_code, host, root_certificates)
    except ssl.SSLError:
        return f"it does not speak TLS; {_CHECK_PORT}"
    except OSError:
        return f"it closes the connection at once; {_CHECK_PORT}"


def _certificate_problem(code: int, host: str, root_certificates: str | Path | None) -> str:
    if code == _EXPIRED:
        return "its certificate has expired; make a new one at the SuperLink."
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet; check both clocks."
    if code in _WRONG_HOST:
        return (
            f"its certificate is for names other than {host};"
            " connect by one of those names, or add this one at the SuperLink."
        )
    if root_certificates is None:
        return (
            "its certificate is signed by an unknown authority; give the SuperLink's ca.crt"
            " (root_certificates, --ca)."
        )
    name = Path(root_certificates).name
    return f"its certificate was not signed by {name}; use the ca.crt of this SuperLink."
