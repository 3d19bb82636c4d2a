"""`python -m paper.report`: the technical report as report.pdf, with its figures.

Numbers are those that are kept; --fresh measures them again (about two minutes of one core).
Chromium prints the page.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from paper.page import position_summary, read_rows
from paper.report.figures import draw
from paper.report.measure import PARTS, ROOT, numbers
from paper.t import medians

HERE = Path(__file__).parent


def facts() -> dict[str, Any]:
    """What the text says in numbers."""
    found: dict[str, Any] = {}
    stuck = [row for row in numbers("counterexample") if not isinstance(row["t"], str)]
    places = [row["t"] for row in stuck if row["error"] > 1e-3]
    found |= {"stuck_low": min(places), "stuck_high": max(places)}
    for drawn in ("random", "own"):
        for rounds in (5, 20):
            rows = [one for one in numbers("counterexample") if one["t"] == drawn]
            error = max(100 * one["error"] for one in rows if one["rounds"] == rounds)
            found[f"{drawn}_{rounds}"] = f"{error:.2g}%" if error > 1e-6 else "below 10⁻⁶%"
    rows = read_rows("t")
    for size, name in ((10, "10"), (max(row["S"] for row in rows), "n")):
        for word, errors in (
            ("own", medians(rows, size, "own")),
            ("half", medians(rows, size, 0.5)),
        ):
            mean = np.mean([one for one, _ in errors.values()])
            found[f"t_{word}_{name}"] = f"{100 * mean:.2g}"
    kept = _kept("accuracy")
    sizes = sorted((abs(100 * row["one message"]) for row in kept), reverse=True)
    usual = [row for row in kept if abs(100 * row["one message"]) <= sizes[2]]
    found["worst_usual"] = sizes[2]
    found["rounds_high"] = 100 * max(row["paper, S=10"] for row in usual)
    shared = next(row for row in kept if row["problem"].startswith("half of the records"))
    found["shared"] = 100 * shared["one message"]
    halves = next(row for row in kept if row["problem"].startswith("every other digit"))
    found["halves"] = 100 * halves["one message"]
    wide = next(row for row in kept if row["problem"] == "Gaussians, d=50, n=2000")
    low, high = (float(end) / wide["exact"] - 1 for end in wide["its interval"].split(" to "))
    found |= {"low50": -100 * low, "high50": 100 * high}
    found |= _tables() | _triangles()
    null = [row for row in numbers("populations") if row["shift"] == 0]
    for n in (100, 2000):
        found[f"noise_{n}"] = np.median([row["exact"] for row in null if row["n"] == n])
    found["families"] = [
        _family(name) for name in dict.fromkeys(r["family"] for r in numbers("families"))
    ]
    circle = found["families"][-1]
    found["circle"] = f"{circle['covered']} of {circle['runs']}"
    without = [row["blocks"] for row in numbers("power") if row["kind"] == "none"]
    found["null_runs"] = len(without)
    found["level"] = f"{100 * np.mean(np.array(without) <= 0.05):.1f}"
    return found


def _kept(name: str) -> list[dict[str, Any]]:
    text = (ROOT / f"benchmarks/kept/{name}.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["rows"]
    return rows


def _tables() -> dict[str, Any]:
    """The tables of positions and of private rounds."""
    lines = [line.strip("| ").split(" | ") for line in position_summary().splitlines()]
    rows = _kept("private_rounds")
    own: dict[str, list[str]] = {}
    for row in rows:
        classes = str(row["d"]).endswith("labels")
        name = f"{'three classes' if classes else 'd = ' + str(row['d'])}, n = {row['n']:,}"
        own.setdefault(name, [name]).append(f"{100 * row['value']:+.1f}%")
    heads = [row["epsilon"] for row in rows[: len(own[next(iter(own))]) - 1]]
    names = ["no privacy" if one == "None" else f"epsilon {float(one):g}" for one in heads]
    return {
        "positions": {"head": lines[0][1:], "lines": lines[2:]},
        "private": {"head": names, "lines": list(own.values())},
    }


def _triangles() -> dict[str, Any]:
    """What the text says of TriangleWad."""
    rows = {row["method"]: row for row in _kept("rivals-distances-error")}
    found: dict[str, Any] = {}
    for name, words in (("triangle", "as wide as the data"), ("narrow", "a tenth as wide")):
        row = rows[f"TriangleWad, gamma {words}"]
        errors = sorted((float(v[:-1]), v) for v in row.values() if str(v).endswith("%"))
        found |= {f"{name}_low": errors[0][1], f"{name}_high": errors[-1][1]}
    shared = "half of the records shared, d=20, n=500"
    found["narrow_shared"] = rows["TriangleWad, gamma a tenth as wide"][shared]
    found["summary_shared"] = rows["fedwad, one summary"][shared]
    attacked = _kept("rivals-distances-records-of-200-reconstructed-exactly")
    triangles = [
        row["digits, d=64"] for row in attacked if row["messages of"].startswith("TriangleWad")
    ]
    return found | {"triangle_records": min(triangles)}


def _family(name: str) -> dict[str, Any]:
    rows = [row for row in numbers("families") if row["family"] == name]
    return {
        "name": name,
        "runs": len(rows),
        "truth": rows[0]["truth"],
        "population": float(np.nanmean([row["population"] for row in rows])),
        "exact": float(np.mean([row["exact"] for row in rows])),
        "covered": sum(row["low"] <= row["truth"] <= row["high"] for row in rows),
        "found": sum(bool(row["differs"]) for row in rows),
    }


def page() -> str:
    """The report as HTML."""
    source = (HERE / "report.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(source).render(facts())


def main() -> int:
    """Measure what is missing, draw, and print."""
    parser = argparse.ArgumentParser("python -m paper.report", description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    if parser.parse_args().fresh:
        for name in PARTS:
            numbers(name, fresh=True)
    chromium = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if chromium is None:
        print("Chromium, which prints the report, was not found; install it.", file=sys.stderr)
        return 2
    draw(HERE / "figures")
    made = HERE / "printed.html"
    made.write_text(page(), encoding="utf-8")
    words = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    words += [f"--print-to-pdf={HERE / 'report.pdf'}", made.as_uri()]
    subprocess.run(words, check=True, capture_output=True)  # noqa: S603
    made.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
