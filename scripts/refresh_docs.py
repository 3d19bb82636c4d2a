"""Put what commands print and measure into the pages: python scripts/refresh_docs.py [--tables].

Pages show a script with `--8<-- "examples/NAME.py"` and its output after "It prints". The blocks of
the first page are those of `fedwad demo`. Tables between `<!-- NAME -->` and `<!-- end of NAME -->`
come from `benchmarks/kept/NAME.json`, which `python -m benchmarks NAME --keep` writes; with
--tables these alone are written. `tests/test_docs.py` compares all of them with the pages.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "kept"
Row = dict[str, Any]
BLOCK = re.compile(r"\n```\n.*?```", re.DOTALL)


def output(*words: str) -> str:
    """What a command prints in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(  # noqa: S603
            [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False
        )
    if done.returncode not in (0, 3, 4):
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def refresh_guide(page: Path) -> None:
    """Replace the block after "It prints" by what the script of the page prints."""
    text = page.read_text(encoding="utf-8")
    script = re.search(r'--8<-- "(examples/\w+\.py)"', text)
    head, found, tail = text.partition("It prints\n\n```\n")
    if script is None or not found:
        return
    printed = output(str(ROOT / script[1]))
    page.write_text(head + found + printed + tail[tail.index("```") :], encoding="utf-8")


def refresh_first_page(page: Path) -> None:
    """Replace the blocks of the demo by its sections: the answer with distances, and what left."""
    parts = re.split(r"\n\n(?=\S)", output("-m", "fedwad", "demo").strip())
    titles = ("Do four hospitals", "What left")
    sections = iter(
        next(part for part in parts if part.startswith(title)).partition("\n")[2]
        for title in titles
    )
    text = page.read_text(encoding="utf-8")
    before, title, rest = text.partition("## The demo")
    demo, end, after = rest.partition("\n## ")
    fresh = BLOCK.sub(lambda _: f"\n```\n{_plain(next(sections))}```", demo)
    page.write_text(before + title + fresh + end + after, encoding="utf-8")


def accuracy(rows: list[Row]) -> str:
    """The table of the README."""
    shown = {
        "digits 0-4 against 5-9, d=64, n=900": "digits 0-4 against 5-9, d=64, n=900",
        "Gaussians, d=50, n=2000": "Gaussians, d=50, n=2000",
        "every other digit against the rest, d=64, n=898": "even against odd rows of digits, d=64",
        "half of the records shared, d=20, n=500": "half of the records shared, d=20, n=500",
    }
    columns = {
        "paper, S=10": "paper, S=10",
        "paper, S=100": "paper, S=100",
        "upper, S=100": "certified upper bound, S=100",
        "one message": "**one summary**",
        "one message, diagonal": "one summary, diagonal",
    }
    lines = []
    for row in rows:
        if row["problem"] in shown:
            found = [percent(row[name]) for name in columns]
            lines.append([shown[row["problem"]], f"{row['exact']:.4g}", *found])
    return table(["problem", "exact", *columns.values()], lines)


def private_rounds(rows: list[Row]) -> str:
    """A line for each problem, a column for each epsilon: our estimate, and the paper's."""
    names = list(dict.fromkeys((row["d"], row["n"]) for row in rows))
    epsilons = list(dict.fromkeys(row["epsilon"] for row in rows))
    lines = []
    for d, n in names:
        own = {row["epsilon"]: row for row in rows if (row["d"], row["n"]) == (d, n)}
        found = [f"{percent(own[e]['value'])} ({percent(own[e]['paper'])})" for e in epsilons]
        lines.append([str(d), str(n), *found])
    heads = [f"epsilon {float(e):g}" if e != "None" else "without privacy" for e in epsilons]
    return table(["d", "rows", *(f"{head} (the paper's)" for head in heads)], lines)


def rivals(rows: list[Row]) -> str:
    """Errors of distances without sharing rows, with the messages and kB of one site."""
    problems = {
        "digits 0-4 against 5-9, d=64, n=900": "digits 0-4 / 5-9",
        "Gaussians close, d=2, n=200": "Gaussians, d=2",
        "Gaussians, d=50, n=1000": "Gaussians, d=50",
        "every other digit against the rest, d=64, n=898": "halves of digits",
        "half of the records shared, d=20, n=500": "half of the records shared",
        "sparse binary, d=50, n=500": "sparse binary",
    }
    lines = [
        [
            row["method"],
            *(row[name] for name in problems),
            str(row["messages"]),
            f"{row['kB']:.0f}",
        ]
        for row in rows
    ]
    return table(["method", *problems.values(), "messages", "kB"], lines)


#: The tables of pages, by page and by the name of what measured them.
TABLES: dict[str, dict[str, Callable[[list[Row]], str]]] = {
    "README.md": {"accuracy": accuracy},
    "docs/comparison.md": {"rivals-distances-error": rivals},
    "docs/differential-privacy.md": {"private_rounds": private_rounds},
}


def percent(error: float) -> str:
    """A relative error with a sign; one decimal below 10%."""
    return f"{100 * error:+.{1 if abs(error) < 0.0995 else 0}f}%"


def table(head: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(one) + " |" for one in (head, ["---"] * len(head), *lines))


def with_tables(page: str) -> str:
    """The text of a page with its measured tables as they are kept."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, write in TABLES[page].items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        rows = json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        before, found, rest = text.partition(begin)
        if not found or end not in rest:
            raise SystemExit(f"{page} has no part between {begin} and {end}.")
        text = f"{before}{begin}\n\n{write(rows)}\n\n{end}{rest.partition(end)[2]}"
    return text


def _plain(section: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in section.splitlines())


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(with_tables(page), encoding="utf-8")
    if "--tables" not in sys.argv:
        refresh_first_page(ROOT / "docs" / "index.md")
        for guide in sorted((ROOT / "docs" / "guides").glob("*.md")):
            refresh_guide(guide)
