"""What the README and the guides show works as shown."""

import re
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

import fedwad
from command_line import run
from fedwad.federation import DescribeRequest, open_client

ROOT = Path(__file__).parents[1]
FIRST = [ROOT / "README.md", ROOT / "docs" / "index.md"]  # the others run with the slow tests
PAGES = [*FIRST, *sorted(set((ROOT / "docs").rglob("*.md")) - set(FIRST))]


def blocks(language):
    for page in PAGES:
        for number, block in enumerate(
            re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)
        ):
            marks = () if page in FIRST else pytest.mark.slow
            yield pytest.param(block, id=f"{page.name}-{number}", marks=marks)


def skip_without_torch(block):
    if "fedwad.learning import train" in block or "fedwad train" in block:
        pytest.importorskip("torch", reason="the extra `learn` is not installed")


@pytest.mark.filterwarnings("ignore::fedwad.DataWarning")  # raw tables have conflicts
@pytest.mark.parametrize("block", list(blocks("python")))
def test_python_blocks_run(block, tmp_path):
    skip_without_torch(block)
    with chdir(tmp_path):
        exec(compile(block, "block", "exec"), {"__name__": "__main__"})  # noqa: S102 - ours


@pytest.mark.parametrize("block", list(blocks("sh")))
def test_fedwad_commands_run(block, tmp_path):
    skip_without_torch(block)
    rng = np.random.default_rng(0)
    (tmp_path / "sites").mkdir()
    for name in ("paris", "oslo", "sites/rome", "sites/bern", "sites/wien", "sites/turin"):
        table = np.column_stack([rng.standard_normal((60, 3)), rng.integers(0, 2, 60)])
        np.savetxt(
            tmp_path / f"{name}.csv",
            table,
            delimiter=",",
            header="age,dose,weight,diagnosis",
            comments="",
        )
    (tmp_path / "heart").mkdir()
    for name, path in fedwad.datasets.load("heart").items():
        (tmp_path / "heart" / f"{name}.csv").write_bytes(path.read_bytes())
    guide = (ROOT / "docs" / "guides" / "your-own-tables.md").read_text()
    (tmp_path / "draft.toml").write_text(re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)[0])
    policy = (ROOT / "docs" / "policies" / "summary.toml").read_text()
    (tmp_path / "paris.toml").write_text(policy)
    client = open_client(tmp_path / "paris.csv", tmp_path / "paris.toml")
    client.answer(DescribeRequest())
    commands = [line for line in block.splitlines() if line.startswith("fedwad ")]
    for command in commands:
        words = shlex.split(command, comments=True)[1:]
        done = run(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def numbers_apart(text):
    """The lines of a text with # for each number, and the numbers of each such line, in order."""
    lines = {}
    for line in text.splitlines():
        numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", line)]
        lines.setdefault(re.sub(r"\d+(?:\.\d+)?", "#", line), []).extend(numbers)
    return lines


@pytest.mark.slow
def test_the_demo_prints_what_the_first_page_shows(tmp_path):
    page = (ROOT / "docs" / "index.md").read_text()
    shown = re.search(r"## The demo(.*?)\n## ", page, re.DOTALL)[1]
    words = [sys.executable, "-m", "fedwad", "demo"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    blocks = re.findall(r"```\n(.*?)```", shown, re.DOTALL)
    assert blocks
    shown, printed = (numbers_apart(text) for text in ("\n".join(blocks), "\n".join(printed)))
    for words, numbers in shown.items():
        # Products of matrices round differently on different processors.
        np.testing.assert_allclose(numbers, printed[words], rtol=0.01, err_msg=words)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 800


def test_links_within_the_repository_lead_somewhere():
    for page in PAGES:
        text = page.read_text()
        targets = re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", text)
        targets += re.findall(r'<(?:img|source)[^>]* (?:src|srcset)="(?!https?:)([^"#]*)', text)
        for target in targets:
            assert not target or (page.parent / target).exists(), f"{page.name} links to {target}"
