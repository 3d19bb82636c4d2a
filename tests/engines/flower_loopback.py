"""A Flower deployment on this machine, for tests and benchmarks: certificates, keys, a SuperLink
and nodes.

`scripts/flower-loopback.sh` does the same with the commands of the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any

from fedwad._files import to_toml
from fedwad.engines._processes import Process, free_port, wait_until_listening
from fedwad.engines.flower._control import Control, environment
from fedwad.engines.flower.submit import submit
from fedwad.engines.job import Job, need_engine
from fedwad.errors import FederationError

__all__ = ["Loopback", "write_certificates", "write_key"]


class Loopback:
    """A SuperLink with TLS and node authentication on a free port, during a `with` block.

    Parameters
    ----------
    folder : an empty folder for keys, certificates and logs
    variables : further environment variables for the processes
    database : whether the SuperLink keeps its state on disk, so that it can be restarted
    """

    def __init__(
        self, folder: Path, variables: Mapping[str, str] | None = None, database: bool = False
    ) -> None:
        need_engine("flower")
        self.folder = folder
        self.authority = folder / "ca.crt"
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._database = ["--database", "superlink.db"] if database else []
        self._variables = environment(folder / "flwr", **(variables or {}))
        self._processes: list[Process] = []

    def __enter__(self) -> Loopback:
        write_certificates(self.folder)
        self.control = Control(self.folder, self.address, self.authority)
        self.start_superlink()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start_superlink(self) -> None:
        """Start or restart the SuperLink."""
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem"]
        command += ["--ssl-keyfile", "server.key", "--enable-supernode-auth"]
        command += ["--disable-runtime-dependency-installation", *self._database]
        self.superlink = self._start("superlink", *command)
        if not wait_until_listening(self.superlink, self.port):
            self.close()
            raise FederationError(
                f"The SuperLink did not start; see {self.folder / 'superlink.log'}."
            )

    def close(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            process.end()

    def key(self, name: str, register: bool = True) -> Path:
        """Make a node's key and register its public key."""
        path = self.folder / name
        write_key(path)
        if register:
            public = str(path.with_suffix(".pub"))
            self.control.command("supernode", "register", public, "fedwad", "--name", name)
        return path

    def site(
        self,
        name: str,
        data: Path,
        policy: Path,
        key: Path | None = None,
        log: str = "",
        more: Sequence[str] = (),
        program: Sequence[str] = ("-m", "fedwad"),
    ) -> Process:
        """Start a node that runs fedwad and nothing else, with `more` options."""
        key = self.key(name) if key is None else key
        options = ["--superlink", self.address, "--ca", str(self.authority)]
        options += ["--key", str(key)]
        options += ["--data", str(data), "--policy", str(policy), *more]
        return self._start(log or name, sys.executable, *program, "node", "flower", *options)

    def stock_site(
        self, name: str, data: Path, policy: Path, key: Path | None = None, log: str = ""
    ) -> Process:
        """Start one of Flower's own SuperNodes."""
        key = self.key(name) if key is None else key
        command = ["flower-supernode", "--superlink", self.address]
        command += ["--root-certificates", str(self.authority)]
        command += ["--auth-supernode-private-key", str(key)]
        command += ["--host", "127.0.0.1", "--port", str(free_port())]
        site = self.folder / f"{name}.site.toml"
        site.write_text(to_toml({"data": str(data), "policy": str(policy)}))
        command += ["--node-config", f'site="{site}"']
        return self._start(log or name, *command)

    def submit(self, job: Job, **options: Any) -> dict[str, Any]:
        """Run a job here."""
        return submit(job, connect=self.address, root_certificates=self.authority, **options)

    def log(self, name: str) -> str:
        """The output of a process so far."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _start(self, name: str, *command: str) -> Process:
        process = Process(command, self._variables, self.folder / f"{name}.log")
        self._processes.append(process)
        return process


def write_certificates(folder: Path) -> None:
    """Write a certificate authority for one day and a certificate for 127.0.0.1 that it signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    authority_key, server_key = (
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP384R1()),
    )
    now = datetime.now(UTC)

    def builder(subject: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        start, end = now - timedelta(minutes=5), now + timedelta(days=1)
        fresh = x509.CertificateBuilder(
            named("fedwad loopback"), named(subject), key, x509.random_serial_number()
        )
        return fresh.not_valid_before(start).not_valid_after(end)

    root = builder("fedwad loopback", authority_key.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    leaf = builder("127.0.0.1", server_key.public_key())
    leaf = leaf.add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
    )
    _write_pem(folder / "ca.crt", root.sign(authority_key, hashes.SHA256()))
    _write_pem(folder / "server.pem", leaf.sign(authority_key, hashes.SHA256()))
    _write_private(folder / "server.key", server_key, "TraditionalOpenSSL")


def _write_pem(path: Path, certificate: Any) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    path.write_bytes(certificate.public_bytes(Encoding.PEM))


def _write_private(path: Path, key: Any, private_format: str) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(Encoding.PEM, getattr(PrivateFormat, private_format), NoEncryption())
    )


def write_key(path: Path) -> None:
    """Write the files that `ssh-keygen -t ecdsa -b 384 -N ""` would write."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = ec.generate_private_key(ec.SECP384R1())
    _write_private(path, key, "OpenSSH")
    path.with_suffix(".pub").write_bytes(
        key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    )
