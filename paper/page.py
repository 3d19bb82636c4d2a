"""Write the parts of pages that come from results/: the judged claims and the tables of the
experiments `t` and `boosting` in claims.md, and the short table over t in docs/distance.md.

    python -m paper.page
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paper.boosting import ALGORITHMS, DATA, PAPER_ACCURACY
from paper.experiment import NAMES, pick
from paper.rules import RULES
from paper.t import PAIRS, POSITIONS, losses, medians

PAGE = Path(__file__).with_name("claims.md")
DISTANCE = Path(__file__).parents[1] / "docs" / "distance.md"
RESULTS = Path(__file__).with_name("results")
VERDICTS = {True: "held", False: "**failed**", None: "not tested"}

STRUCTURES = {"groups": "five groups of clients", "none": "random pairs of classes"}
#: Ways to cluster: the paper's, and all.
PAPER_WAYS = ("affinity", "sparse 3", "sparse 5")
WAYS = (*PAPER_WAYS, "kernel")

Row = dict[str, str]


def read_facts() -> list[dict[str, Any]]:
    """The facts.json of each experiment that was run in full."""
    facts = [json.loads(path.read_text()) for path in RESULTS.glob("*/facts.json")]
    return sorted(facts, key=lambda one: NAMES.index(one["experiment"]))


def escape_cell(text: str) -> str:
    """Text for a cell of a Markdown table, with an escape before each character that Markdown would
    interpret."""
    return re.sub(r"([|*_<])", r"\\\1", " ".join(text.split()))


def format_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


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
    """The rows of an experiment as its `judge` had them, without lists."""
    with (RESULTS / experiment / "table.csv").open() as file:
        return [
            {key: parse_number(text) for key, text in row.items() if text}
            for row in csv.DictReader(file)
        ]


def rules_table() -> str:
    """Claims whose verdict rests on a threshold of ours: the verdict by our rule, and by the rule
    that the paper's words give."""
    claims = [(one["experiment"], claim) for one in read_facts() for claim in one["claims"]]
    lines, changes = [], 0
    for rule in RULES:
        (claim,) = (
            claim
            for experiment, claim in claims
            if experiment == rule.experiment and claim["text"].startswith(rule.claim)
        )
        verdicts = claim["holds"], rule.holds(read_rows(rule.experiment))
        changes += verdicts[0] is not verdicts[1]
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
    return format_table(head, lines) + f"\n\n{changes} of these {len(lines)} verdicts would change."


def position_table() -> str:
    """The errors of the paper's estimate over t: medians over seeds, and the largest."""
    rows = read_rows("t")
    lines = []
    for size in sorted({row["S"] for row in rows}):
        lost = losses(rows, size)
        for t in POSITIONS:
            found = medians(rows, size, t).values()
            cells = [f"{100 * middle:.3g} ({100 * most:.3g})" for middle, most in found]
            name = "n" if size == rows[0]["n"] else str(size)
            lines.append([name, str(t), *cells, f"{100 * lost[t]:.2g}"])
    head = ["S", "t", *(PAIRS[pair] for pair in dict.fromkeys(row["pair"] for row in rows))]
    return format_table([*head, "worst loss to the best t"], lines)


def position_summary() -> str:
    """The same, means over pairs: a line for each number of support points."""
    rows, shown = read_rows("t"), [t for t in POSITIONS if t != 0.1]
    lines = []
    for size in sorted({row["S"] for row in rows}):
        means = [np.mean([one for one, _ in medians(rows, size, t).values()]) for t in shown]
        name = "S = n" if size == rows[0]["n"] else f"S = {size}"
        lines.append([name, *(f"{100 * mean:.3g}" for mean in means)])
    return format_table(["error in %, t =", *map(str, shown)], lines)


def boosting_rows(**values: str) -> list[Row]:
    """The rows of `boosting` with these values, all as text."""
    with (RESULTS / "boosting" / "table.csv").open() as file:
        return pick(list(csv.DictReader(file)), **values)


def column(rows: Sequence[Row], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def mean_and_deviation(values: np.ndarray) -> str:
    return f"{values.mean():.1f} ± {values.std():.1f}"


def client_counts(rows: Sequence[Row]) -> list[str]:
    """The numbers of clients in ascending order, as text."""
    return sorted({row["clients"] for row in rows}, key=int)


def accuracy_tables(support: int) -> str:
    """A table for each dataset and structure: our accuracies, and the paper's in brackets."""
    parts = []
    for data, name in DATA.items():
        for structure, words in STRUCTURES.items():
            rows = boosting_rows(data=data, structure=structure, training="ours")
            ways = ["vanilla", *(f"paper {support} {way}" for way in PAPER_WAYS)]
            if support == 10:
                ways += ["ours", "true groups"] if structure == "groups" else ["ours"]
            title = f"{name}, {words}" + ("" if support == 10 else f", support {support}")
            parts.append(f"**{title}**\n\n" + accuracy_table(rows, (data, structure), ways))
    return "\n\n".join(parts)


def accuracy_table(rows: Sequence[Row], case: tuple[str, str], ways: Sequence[str]) -> str:
    """Accuracies of each way to cluster, and their average gain over one model for all sites.

    `case` is the dataset and the structure. A dagger marks accuracies that are further from the
    paper's than both deviations explain.
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
                accuracy = column(pick(own, way=way), "accuracy")
                text = mean_and_deviation(accuracy)
                printed = PAPER_ACCURACY.get((*case, algorithm, int(clients), way))
                gains[way].append(accuracy.mean() - vanilla)
                if printed:
                    apart = abs(accuracy.mean() - printed.mean)
                    far = apart > 0.5 and apart > 2 * np.hypot(accuracy.std(), printed.deviation)
                    text += f" (paper {printed.mean} ± {printed.deviation}){' †' if far else ''}"
                    printed_gains[way].append(
                        printed.mean
                        - PAPER_ACCURACY[*case, algorithm, int(clients), "vanilla"].mean
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
    """Adjusted Rand index and accuracy in clusters of the paper's distances, of ours, and in the
    true groups."""
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
                indices = [f"{mean_index(own, f'paper {support} {way}'):.2f}" for way in WAYS]
                lines.append([lead, f"paper, support {support}", *indices])
                lead = ""
            ours = [f"{mean_index(own, 'ours ' + way):.2f}" for way in PAPER_WAYS]
            lines.append([lead, "ours, one message", *ours, f"**{mean_index(own, 'ours'):.2f}**"])
    return format_table(["", "distances", *WAYS], lines)


def mean_index(rows: Sequence[Row], way: str) -> float:
    """The mean adjusted Rand index of a way to cluster."""
    return float(column(pick(rows, way=way), "ARI").mean())


def authors_rows(training: str) -> Iterator[tuple[str, list[Row], tuple[str, str], int]]:
    """For each setting that follows the authors' code: its title, its rows, the dataset and the
    structure in the paper's table, and the number of clients."""
    for data, name in DATA.items():
        for structure, words in (("groups", "in groups"), ("drawn", "without groups")):
            rows = boosting_rows(data=data, structure=structure, training=training)
            table_key = data, "groups" if structure == "groups" else "none"
            for clients in client_counts(rows):
                title = f"{name} {words}, {clients} clients"
                yield title, pick(rows, clients=clients), table_key, int(clients)


def authors_code_table() -> str:
    """Accuracies when clients are divided, trained and averaged as in the authors' code, and the
    paper's."""
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
    affinity = ("affinity, mean over clusters", "paper", "affinity, mean over samples")
    return format_table(["", "", "vanilla", "paper", *affinity], lines)


def authors_draws_table() -> str:
    """Accuracies of one model for all clients, with the rows of clients and the clients of rounds
    that the authors' code draws, and the paper's."""
    lines = []
    for title, rows, table_key, clients in authors_rows("draws"):
        line = [title]
        for algorithm in ALGORITHMS:
            accuracy = column(pick(rows, algorithm=algorithm), "accuracy")
            printed = PAPER_ACCURACY[*table_key, algorithm, clients, "vanilla"]
            line.append(mean_and_deviation(accuracy) if len(accuracy) else "")
            line.append("{} ± {}".format(*printed))
        lines.append(line)
    heads = [word for title in ALGORITHMS.values() for word in (title, "paper")]
    return format_table(["vanilla, the authors' draws", *heads], lines)


PARTS: dict[str, Callable[[], str]] = {
    "claims": claims_table,
    "t": position_table,
    "rules": rules_table,
    "boosting, support 10": lambda: accuracy_tables(10),
    "boosting, support 100": lambda: accuracy_tables(100),
    "boosting, distances": clusters_table,
    "boosting, groups": rand_index_table,
    "boosting, as in the authors' code": authors_code_table,
    "boosting, the authors' draws": authors_draws_table,
}
DISTANCE_PARTS: dict[str, Callable[[], str]] = {"t, in short": position_summary}


def update_page(page: str, parts: Mapping[str, Callable[[], str]] = PARTS) -> str:
    """The page with its parts written again from the stored results."""
    for name, part in parts.items():
        begin, end = f"<!-- {name}: written by paper/page.py -->", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        if end not in rest:
            raise SystemExit(f"The page has no part between {begin} and {end}.")
        page = f"{before}{begin}\n\n{part()}\n\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(update_page(PAGE.read_text()))
    DISTANCE.write_text(update_page(DISTANCE.read_text(), DISTANCE_PARTS))
