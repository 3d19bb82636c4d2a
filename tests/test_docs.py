"""What the README and the guides show works as shown."""

import dataclasses
import re
import shlex
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

import fedwad
import reference
import refresh_docs
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
        assert done.returncode in (0, 3, 4), done.stderr  # 3: a difference, 4: too few rows to tell


def numbers_apart(text):
    """The lines of a text with # for each number, and the numbers of each such line, in order."""
    lines = {}
    for line in text.splitlines():
        numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", line)]
        lines.setdefault(re.sub(r"\d+(?:\.\d+)?", "#", line), []).extend(numbers)
    return lines


def same_numbers(shown, printed):
    """The same words, and numbers to 1%: products of matrices round differently on processors."""
    shown, printed = numbers_apart(shown), numbers_apart(printed)
    for words, numbers in shown.items():
        np.testing.assert_allclose(numbers, printed[words], rtol=0.01, atol=0.002, err_msg=words)


@pytest.mark.slow
def test_the_demo_prints_what_the_first_page_shows():
    page = (ROOT / "docs" / "index.md").read_text()
    shown = re.search(r"## The demo(.*?)\n## ", page, re.DOTALL)[1]
    blocks = re.findall(r"```\n(.*?)```", shown, re.DOTALL)
    assert blocks
    printed = refresh_docs.output("-m", "fedwad", "demo")
    same_numbers("\n".join(blocks), "\n".join(line.rstrip() for line in printed.splitlines()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in (ROOT / "docs" / "guides").glob("*.md") if "It prints" in page.read_text()],
    ids=lambda page: page.stem,
)
def test_examples_print_what_their_pages_show(page):
    text = page.read_text()
    script = re.search(r'--8<-- "(examples/\w+\.py)"', text)[1]
    shown = text.partition("It prints\n\n```\n")[2].partition("```")[0]
    assert shown
    same_numbers(shown, refresh_docs.output(str(ROOT / script)))


@pytest.mark.parametrize("page", refresh_docs.TABLES)
def test_measured_tables_are_those_that_are_kept(page):
    assert (ROOT / page).read_text() == refresh_docs.with_tables(page)


def test_the_pages_are_short_together():
    words = sum(len(page.read_text().split()) for page in (ROOT / "docs").rglob("*.md"))
    assert words <= 30_000


def test_each_page_begins_with_what_it_answers():
    for page in (ROOT / "docs").rglob("*.md"):
        start = "".join(page.read_text().splitlines(keepends=True)[:4])
        assert start.startswith("# "), page
        assert "?" in start or "*" in start, page


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 800


def test_links_within_the_repository_lead_somewhere():
    for page in PAGES:
        text = page.read_text()
        targets = re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", text)
        targets += re.findall(r'<(?:img|source)[^>]* (?:src|srcset)="(?!https?:)([^"#]*)', text)
        for target in targets:
            made = {(ROOT / "docs" / name).resolve() for name in reference.PAGES}
            place = (page.parent / target).resolve()
            assert not target or place in made or place.exists(), f"{page.name}: {target}"


def test_the_reference_has_every_command_key_and_kind():
    commands, policy, messages = reference.commands(), reference.policy(), reference.messages()
    for words in ("fedwad matrix", "fedwad node check", "`--report`"):
        assert words in commands
    for field in dataclasses.fields(fedwad.Policy):
        if not field.name.startswith("_"):
            assert re.search(rf"\| `[^`]*\b{field.name}\b", policy), field.name
    for kind in ("describe", "columns", "summary", "transport", "cells", "private", "train"):
        assert f"## {kind}: " in messages
