"""Write into docs/paper.md what it takes from docs/results: the judged claims and the tables of
boosting.

python scripts/paper.py
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedwad.experiments import NAMES
from fedwad.experiments._boosting_claims import ALGORITHMS, DATA
from fedwad.experiments._boosting_paper import PAPER_ACCURACY
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


def read_facts() -> list[dict[str, Any]]:
    """What is known of each experiment that was run in full."""
    found = [json.loads(path.read_text()) for path in RESULTS.glob("*/facts.json")]
    return sorted(found, key=lambda one: NAMES.index(one["experiment"]))


def escape_cell(text: str) -> str:
    """Text for a cell of a Markdown table, in which no character has a meaning."""
    return re.sub(r"([|*_<])", r"\\\1", " ".join(text.split()))


def format_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def claims_table() -> str:
    lines = []
    for one in read_facts():
        lines.append([f"`{one['command']}`", "", ""])
        lines += [
            [escape_cell(claim["text"]), VERDICTS[claim["holds"]], escape_cell(claim["found"])]
            for claim in one["claims"]
        ]
    verdicts = [claim["holds"] for one in read_facts() for claim in one["claims"]]
    held, failed, unknown = (verdicts.count(verdict) for verdict in VERDICTS)
    counts = (
        f"Of these {len(verdicts)} claims {held} held and {failed} failed; {unknown} could not be"
        " tested."
    )
    return format_table(["the paper's claim", "verdict", "what we found"], lines) + "\n\n" + counts


def parse_number(text: str) -> Any:
    """A cell of a stored table: a number where it is one, None where it is empty."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def read_rows(experiment: str) -> list[dict[str, Any]]:
    """The rows of an experiment as its `judge` had them, but for lists."""
    with (RESULTS / experiment / "table.csv").open() as file:
        return [
            {key: parse_number(text) for key, text in row.items() if text}
            for row in csv.DictReader(file)
        ]


def rules_table() -> str:
    """Claims whose verdict rests on a threshold of ours, by our rule and by the paper's words."""
    known = {(one["experiment"], c["text"]): c for one in read_facts() for c in one["claims"]}
    lines, changed = [], 0
    for rule in RULES:
        (claim,) = (
            claim
            for (experiment, text), claim in known.items()
            if experiment == rule.experiment and text.startswith(rule.claim)
        )
        verdicts = claim["holds"], rule.holds(read_rows(rule.experiment))
        changed += verdicts[0] is not verdicts[1]
        mark = "**changes**" if verdicts[0] is not verdicts[1] else "the same"
        words = [VERDICTS[verdict].strip("*") for verdict in verdicts]
        lines.append(
            [
                escape_cell(claim["text"]),
                f"{escape_cell(rule.ours)}: {words[0]}",
                f"{escape_cell(rule.words)}: {words[1]}",
                mark,
            ]
        )
    head = ["the paper's claim", "rule of `judge`", "rule by the paper's words", "verdict"]
    return format_table(head, lines) + f"\n\n{changed} of these {len(lines)} verdicts would change."


def boosting_rows(**wanted: str) -> list[Row]:
    with (RESULTS / "boosting" / "table.csv").open() as file:
        return pick(list(csv.DictReader(file)), **wanted)


def column(rows: Sequence[Row], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def mean_and_deviation(values: np.ndarray) -> str:
    return f"{values.mean():.1f} ± {values.std():.1f}"


def client_counts(rows: Sequence[Row]) -> list[str]:
    return sorted({row["clients"] for row in rows}, key=int)


def accuracy_tables(support: int) -> str:
    """A table for each data set and structure: ours, and the paper's numbers in brackets."""
    parts = []
    for data, name in DATA.items():
        for structure, words in STRUCTURES.items():
            rows = boosting_rows(data=data, structure=structure, training="ours")
            ways = ["vanilla", *(f"paper {support} {way}" for way in PAPERS_WAYS)]
            if support == 10:
                ways += ["ours", "true groups"] if structure == "groups" else ["ours"]
            title = f"{name}, {words}" + ("" if support == 10 else f", support {support}")
            parts.append(f"**{title}**\n\n" + accuracy_table(rows, (data, structure), ways))
    return "\n\n".join(parts)


def accuracy_table(rows: Sequence[Row], where: tuple[str, str], ways: Sequence[str]) -> str:
    """Accuracies of each way to cluster, and their average gain over one model for all sites.

    A dagger marks accuracies that are further from the paper's than both deviations explain.
    """
    lines = []
    gains: dict[str, list[float]] = {way: [] for way in ways}
    printed_gains: dict[str, list[float]] = {way: [] for way in ways}
    for algorithm, name in ALGORITHMS.items():
        for clients in client_counts(rows):
            own = pick(rows, algorithm=algorithm, clients=clients)
            vanilla = column(pick(own, way="vanilla"), "accuracy").mean()
            line = [f"{name}, {clients}"]
            for way in ways:
                found = column(pick(own, way=way), "accuracy")
                text = mean_and_deviation(found)
                printed = PAPER_ACCURACY.get((*where, algorithm, int(clients), way))
                gains[way].append(found.mean() - vanilla)
                if printed:
                    apart = abs(found.mean() - printed.mean)
                    far = apart > 0.5 and apart > 2 * np.hypot(found.std(), printed.deviation)
                    text += f" (paper {printed.mean} ± {printed.deviation}){' †' if far else ''}"
                    printed_gains[way].append(
                        printed.mean
                        - PAPER_ACCURACY[*where, algorithm, int(clients), "vanilla"].mean
                    )
                line.append(text)
            lines.append(line)
    last = ["**average uplift**", ""]
    for way in ways[1:]:
        paper = f" (paper {np.mean(printed_gains[way]):+.1f})" if printed_gains[way] else ""
        last.append(f"**{np.mean(gains[way]):+.1f}**{paper}")
    heads = [way.removeprefix("paper 100 ").removeprefix("paper 10 ") for way in ways]
    return format_table(["clients", *heads], [*lines, last])


def clusters_table() -> str:
    """For the paper's distances, ours and the true groups: adjusted Rand index and accuracy."""
    ways = {
        "paper, support 10, affinity": "paper 10 affinity",
        "paper, support 100, affinity": "paper 100 affinity",
        "ours, one message": "ours",
        "true groups": "true groups",
    }
    lines = []
    for data, name in DATA.items():
        rows = boosting_rows(data=data, structure="groups", training="ours")
        for clients in client_counts(rows):
            lead = f"{name}, {clients} clients"
            for words, way in ways.items():
                own = pick(rows, clients=clients, way=way)
                means = [
                    mean_and_deviation(column(pick(own, algorithm=algorithm), "accuracy"))
                    for algorithm in ALGORITHMS
                ]
                lines.append([lead, words, f"{mean_index(own, way):.2f}", *means])
                lead = ""
    return format_table(["", "clusters", "Rand index", *ALGORITHMS.values()], lines)


def rand_index_table() -> str:
    """The adjusted Rand index of each way to cluster, for each kind of distances."""
    lines = []
    for data, name in DATA.items():
        rows = boosting_rows(data=data, structure="groups", training="ours")
        for clients in client_counts(rows):
            own = pick(rows, clients=clients)
            lead = f"{name}, {clients} clients"
            for support in (10, 100):
                found = [f"{mean_index(own, f'paper {support} {way}'):.2f}" for way in WAYS]
                lines.append([lead, f"paper, support {support}", *found])
                lead = ""
            ours = [f"{mean_index(own, 'ours ' + way):.2f}" for way in PAPERS_WAYS]
            lines.append([lead, "ours, one message", *ours, f"**{mean_index(own, 'ours'):.2f}**"])
    return format_table(["", "distances", *WAYS], lines)


def mean_index(rows: Sequence[Row], way: str) -> float:
    return float(column(pick(rows, way=way), "ARI").mean())


def authors_rows(training: str) -> Iterator[tuple[str, list[Row], tuple[str, str], int]]:
    """A title, rows, the key of the paper's table and the number of clients, for each setting that
    follows the authors' code."""
    for data, name in DATA.items():
        for structure, words in (("groups", "in groups"), ("drawn", "without groups")):
            rows = boosting_rows(data=data, structure=structure, training=training)
            table_key = data, "groups" if structure == "groups" else "none"
            for clients in client_counts(rows):
                title = f"{name} {words}, {clients} clients"
                yield title, pick(rows, clients=clients), table_key, int(clients)


def authors_code_table() -> str:
    """Trained, dealt and averaged as in the authors' code, beside the paper's numbers."""
    lines = []
    for title, rows, table_key, clients in authors_rows("authors"):
        lead = title
        for algorithm, name in ALGORITHMS.items():
            line, lead = [lead, name], ""
            for way in ("vanilla", "paper 10 affinity"):
                own = pick(rows, algorithm=algorithm, way=way)
                printed = PAPER_ACCURACY[*table_key, algorithm, clients, way]
                line.append(mean_and_deviation(column(own, "mean of clusters")))
                line.append("{} ± {}".format(*printed))
            lines.append([*line, f"{column(own, 'accuracy').mean():.1f}"])
    ours = ("affinity, mean over clusters", "paper", "affinity, mean over samples")
    heads = ["", "", "vanilla", "paper", *ours]
    return format_table(heads, lines)


def authors_draws_table() -> str:
    """All clients together, with the rows and the rounds that the authors' code draws."""
    lines = []
    for title, rows, table_key, clients in authors_rows("draws"):
        line = [title]
        for algorithm in ALGORITHMS:
            found = column(pick(rows, algorithm=algorithm), "accuracy")
            printed = PAPER_ACCURACY[*table_key, algorithm, clients, "vanilla"]
            line.append(mean_and_deviation(found) if len(found) else "")
            line.append("{} ± {}".format(*printed))
        lines.append(line)
    heads = [word for title in ALGORITHMS.values() for word in (title, "paper")]
    return format_table(["vanilla, the authors' draws", *heads], lines)


PARTS: dict[str, Callable[[], str]] = {
    "claims": claims_table,
    "rules": rules_table,
    "boosting, support 10": lambda: accuracy_tables(10),
    "boosting, support 100": lambda: accuracy_tables(100),
    "boosting, distances": clusters_table,
    "boosting, groups": rand_index_table,
    "boosting, as in the authors' code": authors_code_table,
    "boosting, the authors' draws": authors_draws_table,
}


def update_page(page: str) -> str:
    """The page with all its parts as the results are now."""
    for name, part in PARTS.items():
        begin, end = f"<!-- {name}: written by scripts/paper.py -->", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        if not found or end not in rest:
            raise SystemExit(f"{PAGE} has no part between {begin} and {end}.")
        page = f"{before}{begin}\n\n{part()}\n\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(update_page(PAGE.read_text()))
