"""`fedwad test SITES...`."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad._words import format_bytes
from fedwad.cli.columns import TableOptions
from fedwad.cli.console import (
    EXIT_DIFFERENT,
    exit_on_error,
    print_json,
    print_text,
    progress_bar,
    screen,
)
from fedwad.cli.engine import ResumableEngineOptions
from fedwad.cli.explain import Explain, explanation_in_json, show_explanation
from fedwad.cli.option_groups import Json, Seed, Sources, expand_option_groups
from fedwad.cli.sites import find_several, read_files
from fedwad.errors import InputError

__all__ = ["permutation"]

Content = dict[str, Any]


@exit_on_error
@expand_option_groups
def permutation(
    files: Sources,
    table_options: TableOptions,
    engine_options: ResumableEngineOptions,
    alpha: Annotated[
        float,
        typer.Option(
            help="Significance level: how often a difference is found where there is none."
        ),
    ] = 0.05,
    blocks: Annotated[
        int | None,
        typer.Option(
            help="Blocks of the smaller of two sites; 20 of at least ten rows by default."
        ),
    ] = None,
    explain: Explain = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Do the sites differ by more than chance? An exact permutation test.

    Each site sends means over blocks of its rows, which are permuted between sites. With more than
    two sites all pairs are tested, and p-values are adjusted for their number (Holm). The exit code
    is 3 if a difference is found.
    """
    if not 0 < alpha < 1:
        raise InputError(f"--alpha is {alpha:g}; give a number between 0 and 1, such as 0.05.")
    with progress_bar("Asking the sites") as bar:
        if engine_options.uses_engine:
            _refuse_blocks(blocks, "an engine tests all pairs")
            keywords = {"test": True, "seed": seed}
            outcome = engine_options.run("matrix", files, keywords, table_options.columns, bar.line)
            content = _list_pairs(fedwad.MatrixResult.from_dict(outcome))
        else:
            data = read_files(find_several(files, "a test"), table_options.columns)
            with engine_options.local(data) as fed:
                if len(data) == 2:
                    content = _test_pair([fed[name] for name in data], blocks, seed)
                else:
                    _refuse_blocks(blocks, f"there are {len(data)}")
                    content = _list_pairs(fedwad.matrix(fed, test=True, seed=seed))
    content |= {"alpha": alpha, "different": content["pvalue"] <= alpha}
    if as_json:
        print_json(_in_json(content))
    else:
        _show(content, explain)
    if content["different"]:
        raise typer.Exit(EXIT_DIFFERENT)


def _in_json(content: Content) -> Content:
    """Return the content with explanations as --json prints them.

    With two sites there is one explanation, which is also at the top of the content.
    """
    pairs = [
        pair | explanation_in_json(pair["explanation"]) if "explanation" in pair else pair
        for pair in content["pairs"]
    ]
    top = {} if len(pairs) > 1 else {k: v for k, v in pairs[0].items() if k not in content}
    return content | {"pairs": pairs} | top


def _refuse_blocks(blocks: int | None, reason: str) -> None:
    if blocks is not None:
        raise InputError(f"--blocks is for two sites in this process, and {reason}; leave it out.")


def _test_pair(sites: list[Any], blocks: int | None, seed: int) -> Content:
    first, second = sites
    result = fedwad.permutation_test(first, second, blocks=blocks, seed=seed)
    content = result.to_dict()
    del content["evidence"]
    pair: Content = {"sites": content["sites"], "pvalue": content["pvalue"]}
    if result.evidence is not None:
        pair["explanation"] = result.explain()
    return content | {"pairs": [pair]}


def _list_pairs(result: fedwad.MatrixResult) -> Content:
    """Return the p-values of all pairs in the form that --json prints, the smallest first."""
    content = result.to_dict()
    sites, table = result.sites, content["pvalue"]
    pairs = [
        {
            "sites": [sites[j], sites[i]],
            "pvalue": table[i][j],
            "explanation": result.explain(sites[j], sites[i]),
        }
        for i in range(len(sites))
        for j in range(i)
    ]
    pairs.sort(key=lambda pair: math.inf if pair["pvalue"] is None else pair["pvalue"])
    common = {name: content[name] for name in ("sites", "seed", "traffic", "failed")}
    return common | {"pvalue": pairs[0]["pvalue"], "pairs": pairs}


def _show_pairs(content: Content, explain: bool) -> None:
    """Print why pairs differ, and how many pairs were tested."""
    has_several = len(content["pairs"]) > 1
    tested_pairs = [pair for pair in content["pairs"] if pair["pvalue"] is not None]
    for pair in tested_pairs:
        if "explanation" in pair and (explain or pair["pvalue"] <= content["alpha"]):
            if has_several:
                screen.print(f"[bold]{escape(' - '.join(pair['sites']))}[/]")
            show_explanation(pair["explanation"], explain)
    if has_several:
        print_text(f"P-values are adjusted for {len(tested_pairs)} pairs (Holm).")


def _show(content: Content, explain: bool) -> None:
    level = f"at the {100 * content['alpha']:g}% level"
    verdict = "different" if content["different"] else "no evidence of a difference"
    screen.print(f"[bold]{verdict}[/] {level}")
    table = Table.grid(padding=(0, 2))
    for pair in content["pairs"]:
        tested = "not tested" if pair["pvalue"] is None else f"p = {pair['pvalue']:.4g}"
        table.add_row(escape(" - ".join(pair["sites"])), tested)
    screen.print(table)
    _show_pairs(content, explain)
    if content.get("smallest", 0) > content["alpha"]:
        print_text(
            f"So few blocks cannot give a p-value below {content['smallest']:.2g}; the sites are"
            " too small to judge at this level."
        )
    traffic = content["traffic"]
    print_text(
        f"Sent: {format_bytes(traffic['up'])} by the sites in {traffic['messages']} messages."
    )
