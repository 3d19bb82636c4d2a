"""The image of a node: pinned, without root, compiled, closed; built where a daemon is."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docker" / "Dockerfile"


def instructions():
    """Pairs of an instruction and its words, with continued lines joined and comments left out."""
    lines = [line for line in FILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def words(name):
    return [rest for instruction, rest in instructions() if instruction == name]


def test_only_known_instructions():
    known = {"FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
    known |= {"HEALTHCHECK", "STOPSIGNAL"}
    assert {name for name, _ in instructions()} <= known
    assert instructions()[0][0] == "FROM"


def test_the_base_image_is_pinned():
    (base,) = words("FROM")
    _, _, version = base.partition(":")
    assert version.split("-")[0].count(".") == 2
    minor = int(version.split(".")[1])
    assert minor >= 11  # as pyproject.toml says


def test_the_node_is_not_root_and_opens_no_port():
    (user,) = words("USER")
    assert user.split(":")[0].isdecimal()
    assert int(user.split(":")[0]) > 0
    order = [name for name, _ in instructions()]
    assert order.index("USER") < len(order) - 1 - order[::-1].index("RUN")
    assert words("EXPOSE") == []


def test_it_is_compiled_when_it_is_built():
    assert words("RUN")[-1] == "fedwad warm-up"
    environment = " ".join(words("ENV"))
    assert "NUMBA_CACHE_DIR=/var/cache/fedwad" in environment
    assert "chown node:node /site /ledger /var/cache/fedwad" in " ".join(words("RUN"))


def test_it_copies_what_exists_and_the_context_has_nothing_else():
    copied = [path for rest in words("COPY") for path in rest.split()[:-1]]
    assert all((ROOT / path).exists() for path in copied)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied)


def test_the_command_is_fedwad():
    (entry,), (command,) = words("ENTRYPOINT"), words("CMD")
    assert json.loads(entry) == ["fedwad"]
    assert json.loads(command)[0] == "node"


def _daemon():
    """Whether images can be built here: a daemon that has, or gets, the base image."""
    if shutil.which("docker") is None:
        return False
    base = words("FROM")[0]
    for command in (["docker", "info"], ["docker", "pull", "-q", base]):
        try:
            subprocess.run(command, capture_output=True, check=True, timeout=60)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError):
            return False
    return True


@pytest.mark.slow
def test_it_builds():
    if not _daemon():
        pytest.skip("there is no docker daemon with the base image")
    name = "fedwad-node-test"
    build = ["docker", "build", "-q", "-f", str(FILE), "-t", name, str(ROOT)]
    subprocess.run(build, check=True, timeout=1800)
    start = ["docker", "run", "--rm", name, "--version"]
    shown = subprocess.run(start, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("fedwad ")
