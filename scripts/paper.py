"""Write into docs/paper.md what it takes from docs/results: the judged claims and the tables of
boosting.

python scripts/paper.py
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedwad.experiments import NAMES
from fedwad.experiments._boosting_claims import ALGORITHMS, DATA
from fedwad.experiments._boosting_paper import PAPERS
from fedwad.experiments._experiment import pick
from paper_words import RULES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
RESULTS = ROOT / "docs" / "results"
VERDICTS = {True: "held", False: "**failed**", None: "not tested"}

STRUCTURES = {"groups": "five groups of clients", "none": "random pairs of classes"}
PAPERS_WAYS = ("affinity", "sparse 3", "sparse 5")
WAYS = (*PAPERS_WAYS, "kernel")

Row = dict[str, str]


def facts() -> list[dict[str, Any]]:
    """What is known of each experiment that was run in full."""
    found = [json.loads(path.read_text()) for path in RESULTS.glob("*/facts.json")]
    return sorted(found, key=lambda one: NAMES.index(one["experiment"]))


def cell(text: str) -> str:
    """Words as they are, in a cell of a table."""
    return re.sub(r"([|*_<])", r"\\\1", " ".join(text.split()))


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def claims() -> str:
    lines = []
    for one in facts():
        lines.append([f"`{one['command']}`", "", ""])
        lines += [
            [cell(claim["text"]), VERDICTS[claim["holds"]], cell(claim["found"])]
            for claim in one["claims"]
        ]
    verdicts = [claim["holds"] for one in facts() for claim in one["claims"]]
    held, failed, unknown = (verdicts.count(verdict) for verdict in VERDICTS)
    counts = (
        f"Of these {len(verdicts)} claims {held} held and {failed} failed; {unknown} could not be"
        " tested."
    )
    return table(["the paper's claim", "verdict", "what we found"], lines) + "\n\n" + counts


def number(text: str) -> Any:
    """A cell of a stored table: a number where it is one, None where it is empty."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def stored(experiment: str) -> list[dict[str, Any]]:
    """The rows of an experiment as its `judge` had them, but for lists."""
    with (RESULTS / experiment / "table.csv").open() as file:
        return [
            {key: number(text) for key, text in row.items() if text} for row in csv.DictReader(file)
        ]


def rules() -> str:
    """Claims whose verdict rests on a threshold of ours, by our rule and by the paper's words."""
    known = {(one["experiment"], c["text"]): c for one in facts() for c in one["claims"]}
    lines, changed = [], 0
    for rule in RULES:
        (claim,) = (
            claim
            for (experiment, text), claim in known.items()
            if experiment == rule.experiment and text.startswith(rule.claim)
        )
        verdicts = claim["holds"], rule.holds(stored(rule.experiment))
        changed += verdicts[0] is not verdicts[1]
        mark = "**changes**" if verdicts[0] is not verdicts[1] else "the same"
        words = [f"{VERDICTS[verdict].strip('*')}" for verdict in verdicts]
        lines.append(
            [
                cell(claim["text"]),
                f"{cell(rule.ours)}: {words[0]}",
                f"{cell(rule.words)}: {words[1]}",
                mark,
            ]
        )
    head = ["the paper's claim", "rule of `judge`", "rule by the paper's words", "verdict"]
    return table(head, lines) + f"\n\n{changed} of these {len(lines)} verdicts would change."


def boosting(**wanted: str) -> list[Row]:
    with (RESULTS / "boosting" / "table.csv").open() as file:
        return pick(list(csv.DictReader(file)), **wanted)


def column(rows: Sequence[Row], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def accuracies(support: int) -> str:
    """A table for each data set and structure: ours, and the paper's numbers in brackets."""
    parts = []
    for data, name in DATA.items():
        for structure, words in STRUCTURES.items():
            rows = boosting(data=data, structure=structure, training="ours")
            ways = ["vanilla", *(f"paper {support} {way}" for way in PAPERS_WAYS)]
            if support == 10:
                ways += ["ours", "true groups"] if structure == "groups" else ["ours"]
            title = (
                f"**{name}, {words}**"
                if support == 10
                else f"**{name}, {words}, support {support}**"
            )
            parts.append(title + "\n\n" + columns(rows, (data, structure), ways))
    return "\n\n".join(parts)


def columns(rows: Sequence[Row], where: tuple[str, str], ways: Sequence[str]) -> str:
    lines = []
    gains: dict[str, list[float]] = {way: [] for way in ways}
    printed_gains: dict[str, list[float]] = {way: [] for way in ways}
    for algorithm, name in ALGORITHMS.items():
        for clients in sorted({int(row["clients"]) for row in rows}):
            own = pick(rows, algorithm=algorithm, clients=str(clients))
            vanilla = column(pick(own, way="vanilla"), "accuracy").mean()
            line = [f"{name}, {clients}"]
            for way in ways:
                found = column(pick(own, way=way), "accuracy")
                text = f"{found.mean():.1f} ± {found.std():.1f}"
                printed = PAPERS.get((*where, algorithm, clients, way))
                gains[way].append(found.mean() - vanilla)
                if printed:
                    apart = abs(found.mean() - printed.mean)
                    far = apart > 0.5 and apart > 2 * np.hypot(found.std(), printed.deviation)
                    text += f" (paper {printed.mean} ± {printed.deviation}){' †' if far else ''}"
                    printed_gains[way].append(
                        printed.mean - PAPERS[*where, algorithm, clients, "vanilla"].mean
                    )
                line.append(text)
            lines.append(line)
    last = ["**average uplift**", ""]
    for way in ways[1:]:
        paper = f" (paper {np.mean(printed_gains[way]):+.1f})" if printed_gains[way] else ""
        last.append(f"**{np.mean(gains[way]):+.1f}**{paper}")
    heads = [way.removeprefix("paper 100 ").removeprefix("paper 10 ") for way in ways]
    return table(["clients", *heads], [*lines, last])


def worth() -> str:
    """For the paper's distances, ours and the true groups: adjusted Rand index and accuracy."""
    ways = {
        "paper, support 10, affinity": "paper 10 affinity",
        "paper, support 100, affinity": "paper 100 affinity",
        "ours, one message": "ours",
        "true groups": "true groups",
    }
    lines = []
    for data, name in DATA.items():
        rows = boosting(data=data, structure="groups", training="ours")
        for clients in sorted({row["clients"] for row in rows}, key=int):
            for number, (words, way) in enumerate(ways.items()):
                own = pick(rows, clients=clients, way=way)
                found = [
                    column(pick(own, algorithm=algorithm), "accuracy") for algorithm in ALGORITHMS
                ]
                lead = "" if number else f"{name}, {clients} clients"
                means = [f"{values.mean():.1f} ± {values.std():.1f}" for values in found]
                lines.append([lead, words, f"{column(own, 'ARI').mean():.2f}", *means])
    return table(["", "clusters", "Rand index", *ALGORITHMS.values()], lines)


def groups() -> str:
    """The adjusted Rand index of each way to cluster, for each kind of distances."""
    lines = []
    for data, name in DATA.items():
        rows = boosting(data=data, structure="groups", training="ours")
        for clients in sorted({row["clients"] for row in rows}, key=int):
            own = pick(rows, clients=clients)
            lead = f"{name}, {clients} clients"
            for words, prefix in (
                ("paper, support 10", "paper 10 "),
                ("paper, support 100", "paper 100 "),
            ):
                found = [f"{mean_index(own, prefix + way):.2f}" for way in WAYS]
                lines.append([lead, words, *found])
                lead = ""
            ours = [f"{mean_index(own, 'ours ' + way):.2f}" for way in PAPERS_WAYS]
            lines.append([lead, "ours, one message", *ours, f"**{mean_index(own, 'ours'):.2f}**"])
    return table(["", "distances", *WAYS], lines)


def mean_index(rows: Sequence[Row], way: str) -> float:
    return float(column(pick(rows, way=way), "ARI").mean())


def theirs() -> str:
    """Trained, dealt and averaged as in the authors' code, beside the paper's numbers."""
    lines = []
    for data, name in DATA.items():
        for structure, words in (("groups", "in groups"), ("drawn", "without groups")):
            rows = boosting(data=data, structure=structure, training="authors")
            for clients in sorted({row["clients"] for row in rows}, key=int):
                lead = f"{name} {words}, {clients} clients"
                for algorithm, title in ALGORITHMS.items():
                    own = pick(rows, clients=clients, algorithm=algorithm)
                    line, lead = [lead, title], ""
                    for way in ("vanilla", "paper 10 affinity"):
                        key = (
                            data,
                            "groups" if structure == "groups" else "none",
                            algorithm,
                            int(clients),
                            way,
                        )
                        cells = pick(own, way=way)
                        found = column(cells, "mean of clusters")
                        line += [
                            f"{found.mean():.1f} ± {found.std():.1f}",
                            "{} ± {}".format(*PAPERS[key]),
                        ]
                    line.append(f"{column(cells, 'accuracy').mean():.1f}")
                    lines.append(line)
    heads = [
        "",
        "",
        "vanilla",
        "paper",
        "affinity, mean over clusters",
        "paper",
        "affinity, mean over samples",
    ]
    return table(heads, lines)


def draws() -> str:
    """All clients together, with the rows and the rounds that the authors' code draws."""
    lines = []
    for data, name in DATA.items():
        for structure, words in (("groups", "in groups"), ("drawn", "without groups")):
            rows = boosting(data=data, structure=structure, training="draws")
            for clients in sorted({row["clients"] for row in rows}, key=int):
                line = [f"{name} {words}, {clients} clients"]
                for algorithm in ALGORITHMS:
                    found = column(pick(rows, clients=clients, algorithm=algorithm), "accuracy")
                    where = "groups" if structure == "groups" else "none"
                    printed = PAPERS[data, where, algorithm, int(clients), "vanilla"]
                    line.append(f"{found.mean():.1f} ± {found.std():.1f}" if len(found) else "")
                    line.append("{} ± {}".format(*printed))
                lines.append(line)
    heads = [word for title in ALGORITHMS.values() for word in (title, "paper")]
    return table(["vanilla, the authors' draws", *heads], lines)


PARTS: dict[str, Callable[[], str]] = {
    "claims": claims,
    "rules": rules,
    "boosting, support 10": lambda: accuracies(10),
    "boosting, support 100": lambda: accuracies(100),
    "boosting, distances": worth,
    "boosting, groups": groups,
    "boosting, as in the authors' code": theirs,
    "boosting, the authors' draws": draws,
}


def written(page: str) -> str:
    """The page with all its parts as the results are now."""
    for name, part in PARTS.items():
        begin, end = f"<!-- {name}: written by scripts/paper.py -->", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        if not found or end not in rest:
            raise SystemExit(f"{PAGE} has no part between {begin} and {end}.")
        page = f"{before}{begin}\n\n{part()}\n\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
