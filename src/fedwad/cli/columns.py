"""`fedwad columns` and `fedwad schema`: what columns of sites hold, and how they are encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

import fedwad
from fedwad._words import to_printable
from fedwad.cli.console import (
    describe_traffic,
    exit_by,
    print_failed,
    print_json,
    print_sentence,
    print_text,
    progress_bar,
    screen,
    stderr,
)
from fedwad.cli.options import (
    Json,
    SavedOutput,
    Seed,
    Sources,
    SplitOptions,
    WeightedTableOptions,
    check_ending,
)
from fedwad.cli.sites import (
    EngineOptions,
    ResumableEngineOptions,
    find_files,
    show_conflicts,
)
from fedwad.compare.table_one import ABOUT, ABOUT_IN_WORDS, ABSENT, TableRow
from fedwad.errors import InputError
from fedwad.federation.in_process import schema_of_tables
from fedwad.privacy import check_draft
from fedwad.tables import Schema


def columns(
    files: Sources,
    *,
    table_options: WeightedTableOptions,
    engine_options: ResumableEngineOptions,
    output: SavedOutput,
    test: bool = True,
    seed: Seed = 0,
) -> None:
    """Which columns differ? Table 1: each column at each site, with p-values.

    Rows, missing values, mean, standard deviation, quartiles and counts of levels of each site,
    standardised mean differences, and p-values that are adjusted for the number of columns. The
    exit code is 3 if the sites differ, and 4 if there are too few rows to tell.

    Example: `fedwad columns sites/ --report table1.html`

    Parameters
    ----------
    test : test which columns differ; each site sends one more message
    """
    output.check(files)
    paths = engine_options.find(files, table_options)
    keywords: dict[str, Any] = {"seed": seed, "test": test}

    def here(_: Any, fed: Any, __: Any) -> fedwad.ColumnsResult:
        return fedwad.columns(fed, **keywords)

    result, page = engine_options.ask(
        "columns", files, keywords, table_options, paths, fedwad.ColumnsResult, here, output
    )
    output.write(result, **page)
    if output.as_json:
        found = result.to_dict() | {"warnings": page.get("warnings", [])}
        print_json(found | {"columns": [found["columns"][k] for k in result.order]})
    else:
        print_sentence(result.sentence)
        print_failed(result.failed)
        for places in _beside_each_other(result):
            screen.print(_table(result, places))
        if any(ABSENT in line.texts for line in result.table()):
            print_text(f"\N{EN DASH} {ABSENT}.")
        if any(line.statistic.startswith(ABOUT) for line in result.table()):
            print_text(f"{ABOUT_IN_WORDS}.")
        print_text(f"Sent: {describe_traffic(result.traffic)}.")
        output.print_report()
    if test and len(result.sites) > 1:
        exit_by(result.differs, result.enough)


_NAMES = 20  # characters of a column's name, and of what a row is about, before they wrap
_ENDS = ("SMD", "adjusted p")


def _lines(result: fedwad.ColumnsResult) -> list[TableRow]:
    """The rows of Table 1, with a dash where a site has no such column."""
    return [
        replace(line, texts=tuple("\N{EN DASH}" if one == ABSENT else one for one in line.texts))
        for line in result.table()
    ]


def _beside_each_other(result: fedwad.ColumnsResult) -> list[list[int]]:
    """The sites that fit beside each other on the screen, table by table; at least one in each."""
    lines, parts = _lines(result), [[0]]
    columns = [[name, *(line.texts[k] for line in lines)] for k, name in enumerate(result.sites)]
    words = [[word for text in texts for word in to_printable(text).split()] for texts in columns]
    widths = [2 + max(map(cell_len, one), default=0) for one in words]  # cells wrap at spaces
    first = [[line.column for line in lines], [line.statistic for line in lines]]
    room = screen.width - sum(len(title) + 2 for title in _ENDS)
    room -= sum(min(max(map(cell_len, texts)), _NAMES) + 2 for texts in first)
    for place in range(1, len(widths)):
        if sum(widths[k] for k in (*parts[-1], place)) > room:
            parts.append([])
        parts[-1].append(place)
    return parts


def _table(result: fedwad.ColumnsResult, places: Sequence[int]) -> Table:
    """Table 1 with these sites."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(2):
        table.add_column("", max_width=_NAMES, overflow="fold")
    for title in (*(result.sites[place] for place in places), *_ENDS):
        table.add_column(Text(to_printable(title)), justify="right", overflow="fold")
    lines = _lines(result)
    table.add_row("", "rows", *(lines[0].texts[place] for place in places))
    for k in result.order:
        numbers = result.smd[k], result.pvalue[k], result.missing_smd[k]
        smd, pvalue, lacks = ("" if number != number else f"{number:.2g}" for number in numbers)
        ends, missing = [smd, pvalue], ["", ""]
        if result.missing_smd[k] > 0:  # of whether a value is missing
            missing = [lacks, "" if smd else pvalue]
            ends = ends if smd else ["", ""]  # too few values: what is missing is the reason
        name = result.names[k]
        for line in [one for one in lines[1:] if one.column == name]:
            here = [line.texts[place] for place in places]
            numbers_here = missing if line.statistic == "missing" and any(missing) else ends
            texts = [name, line.statistic, *here, *numbers_here]
            table.add_row(*(Text(to_printable(text)) for text in texts))
            name, ends = "", ["", ""]
    return table


def schema(
    files: Sources,
    *,
    engine_options: EngineOptions,
    table_options: SplitOptions,
    out: Path | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    draft: Path | None = None,
    as_json: Json = False,
) -> None:
    """How are the columns of the sites' tables encoded?

    The sites agree on a schema through one message each. It is a file to read, edit and keep:
    other commands take it as `--schema FILE`. Conflicts between the sites are printed as warnings.
    With --epsilon, each site makes one noisy release instead.

    Example: `fedwad schema sites/ --out schema.toml`

    Parameters
    ----------
    out : write the schema to this .toml file
    epsilon : make the schema under differential privacy; needs --draft
    delta : delta of that guarantee
    draft : schema file with kinds, ranges and levels from public knowledge
    """
    check_ending(out, ".toml", "--out")
    if epsilon is not None and draft is None:
        raise InputError(
            "--epsilon needs --draft FILE: names of levels, kinds and ranges cannot be found"
            " privately, so write them from public knowledge into a schema file.",
            "missing-option",
        )
    if epsilon is None and draft is not None:
        raise InputError("--draft belongs to a private schema; add --epsilon.", "missing-option")
    columns = table_options.with_schema("auto" if draft is None else draft)
    if engine_options.uses_engine:
        options: dict[str, Any] = {}
        if epsilon is not None and isinstance(columns.schema, Schema):
            check_draft(columns.schema)
            draft_text = columns.schema.to_toml()
            options = {"epsilon": epsilon, "delta": delta, "draft": draft_text}
            if engine_options.connect is not None:
                columns = replace(columns, schema="auto", schema_path="")
        with progress_bar("Asking the sites") as bar:
            found = engine_options.run("schema", files, options, columns, bar.line)
        result = Schema.from_dict(found)
    else:
        sources = find_files(files, columns, table_options.queries)
        with progress_bar("Reading the tables"):
            result = schema_of_tables(sources, columns, epsilon, delta)
    if out is not None:
        result.save(out)
    if as_json:
        shown = [
            {"name": c.name, "kind": c.kind, "becomes": c.becomes, "encoded": list(c.encoded_names)}
            for c in result.columns
        ]
        print_json({**result.to_dict(), "columns": shown})
    else:
        print_text(repr(result))
    show_conflicts(result)
    if out is not None:
        stderr.print(f"Schema: {out}", markup=False)
