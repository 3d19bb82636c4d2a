"""What stands between this machine and a SuperLink, in words; Flower says of every trouble that it
is unavailable."""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path

from fedwad.errors import InputError

__all__ = ["host_and_port", "obstacle"]

_SECONDS = 5.0
_EXPIRED, _NOT_YET = 10, 9  # OpenSSL's numbers of what is wrong with a certificate
_OTHER_NAMES = (62, 64)


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address; InputError unless it has both."""
    parts = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(\d{1,5})", address)
    if parts is None or not 0 < int(parts[2]) < 65536:
        raise InputError(
            f"The SuperLink's address is '{address}'; give host:port, such as hub.example.org:8443."
        )
    return parts[1].strip("[]"), int(parts[2])


def obstacle(address: str, root_certificates: str | Path | None) -> str | None:
    """What keeps this machine from a SuperLink, as the end of a sentence; None if it can be reached
    and is known."""
    host, port = host_and_port(address)
    try:
        context = ssl.create_default_context(
            cafile=None if root_certificates is None else str(root_certificates)
        )
    except (OSError, ssl.SSLError):
        return f"{root_certificates} holds no certificate; take the ca.crt of its hub."
    try:
        with socket.create_connection((host, port), _SECONDS) as plain:
            try:
                with context.wrap_socket(plain, server_hostname=host):
                    return None
            except ssl.SSLCertVerificationError as error:
                return _of_certificate(error.verify_code, host, root_certificates)
            except ssl.SSLError:
                return "it does not speak TLS; see whether this is the port of a SuperLink that has a certificate."
            except OSError:
                return "it hangs up at once; see whether this is the port of a SuperLink that has a certificate."
    except socket.gaierror:
        return f"there is no machine called {host}; check the name."
    except ConnectionRefusedError:
        return "nothing listens at this port; see whether it is up, and check host:port."
    except OSError:
        return "it does not answer; see whether it is up and can be reached from here."


def _of_certificate(code: int, host: str, root_certificates: str | Path | None) -> str:
    if code == _EXPIRED:
        return "its certificate has run out; make a new one at the hub."
    if code == _NOT_YET:
        return "its certificate is not valid yet; see whether the clocks agree."
    if code in _OTHER_NAMES:
        return f"its certificate is for other names than {host}; connect by one of those, or add this one at the hub."
    if root_certificates is None:
        return "its certificate was signed by nobody whom this machine knows; give the hub's ca.crt with --ca."
    return f"its certificate was not signed by {Path(root_certificates).name}; take the ca.crt of this hub."
