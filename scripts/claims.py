"""Write the table of judged claims into docs/paper.md, from the facts that `fedwad reproduce` left in docs/results.

python scripts/claims.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fedwad.experiments import NAMES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
BEGIN, END = "<!-- claims: written by scripts/claims.py -->", "<!-- end of claims -->"
VERDICTS = {True: "held", False: "**failed**", None: "not tested"}


def facts() -> list[dict[str, Any]]:
    """What is known of each experiment that was run in full."""
    found = [json.loads(path.read_text()) for path in (ROOT / "docs" / "results").glob("*/facts.json")]
    return sorted(found, key=lambda one: NAMES.index(one["experiment"]))


def cell(text: str) -> str:
    """Words as they are, in a cell of a table."""
    return re.sub(r"([|*_<])", r"\\\1", " ".join(text.split()))


def table() -> str:
    lines = ["| the paper's claim | verdict | what we found |", "|---|---|---|"]
    for one in facts():
        lines.append(f"| `{one['command']}` | | |")
        lines += [
            f"| {cell(claim['text'])} | {VERDICTS[claim['holds']]} | {cell(claim['found'])} |"
            for claim in one["claims"]
        ]
    verdicts = [claim["holds"] for one in facts() for claim in one["claims"]]
    held, failed, unknown = (verdicts.count(verdict) for verdict in VERDICTS)
    lines += ["", f"Of these {len(verdicts)} claims {held} held and {failed} failed; {unknown} could not be tested."]
    return "\n".join(lines)


def main() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}")


if __name__ == "__main__":
    main()
