"""A real PostgreSQL, started for tests and thrown away after them."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "tr0ub4dor-and-3"  # noqa: S105


def _run(*arguments, **keywords):
    """Run a program of PostgreSQL, which refuses to run as root."""
    user = {}
    if os.getuid() == 0:
        record = pwd.getpwnam("postgres")
        user = {"user": record.pw_uid, "group": record.pw_gid, "extra_groups": []}
    return subprocess.run(arguments, capture_output=True, cwd="/", **user, **keywords)


@contextmanager
def serve():
    """The address of a server with one user, who has a password; the test is skipped without it."""
    pytest.importorskip("adbc_driver_postgresql")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("PostgreSQL is not installed (no /usr/lib/postgresql/*/bin)")
    if os.getuid() == 0 and "postgres" not in {one.pw_name for one in pwd.getpwall()}:
        pytest.skip("There is no user postgres, and PostgreSQL refuses to run as root")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="fedwad-pg-", dir="/tmp"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    secret = folder / "secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    control, data = programs[-1] / "pg_ctl", folder / "data"
    try:
        first = [programs[-1] / "initdb", "-D", data, "-U", "anna", "-A", "scram-sha-256"]
        _run(*first, f"--pwfile={secret}", "-E", "UTF8", "--no-sync", check=True)
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        start = ["-o", options, "-l", folder / "log", "-w", "start"]
        _run(control, "-D", data, *start, check=True)
        yield f"postgresql://anna:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        _run(control, "-D", data, "-m", "immediate", "stop", check=False)
        shutil.rmtree(folder, ignore_errors=True)
