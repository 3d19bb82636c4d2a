"""`fedwad reference SITE` and `fedwad watch NEW`: have the data drifted since the reference?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fedwad
from fedwad._files import write_atomically
from fedwad._words import to_printable
from fedwad.cli.compare import columns_in_json, show_columns
from fedwad.cli.console import exit_by, print_json, print_sentence, print_text, progress_bar
from fedwad.cli.options import (
    Explain,
    Json,
    LedgerFile,
    ReadingOptions,
    SavedOutput,
    Seed,
    SiteOptions,
    Source,
    check_ending,
)
from fedwad.cli.sites import EngineOptions, find_one_file, show_conflicts
from fedwad.compare import metrics
from fedwad.compare.drift import for_later_tables
from fedwad.errors import InputError
from fedwad.federation import (
    KeptFederation,
    KeptReply,
    LocalFederation,
    SchemaFederation,
    Site,
    ensure_schema,
    open_client,
)


def reference(
    site: Source,
    *,
    table_options: SiteOptions,
    engine_options: EngineOptions,
    out: Path,
    policy: Path | None = None,
    ledger: LedgerFile = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """What are a site's data like now? A reference for `fedwad watch`, without rows.

    It holds a summary with means over blocks of rows, and the schema. Messages pass through the
    site's policy and ledger like any other. With --engine its policy must have keep = true.

    Example: `fedwad reference june.csv --out ref.json`

    Parameters
    ----------
    out : write the reference to this .json file
    policy : the site's policy, which must allow columns and summary and have keep = true;
        everything is answered when left out
    """
    check_ending(out, ".json", "--out")
    if ledger is not None and policy is None:
        raise InputError(
            "--ledger was given without --policy; give both, or neither.", "missing-option"
        )
    name, path = (site, "") if engine_options.connect else find_one_file(site)
    if engine_options.uses_engine:
        if policy is not None:
            raise InputError(
                "--policy is for a site in this process; a site of an engine has its own.",
                "conflicting-options",
            )
        with progress_bar(f"Asking {name}") as bar:
            content = engine_options.run(
                "reference", [site], {"seed": seed}, table_options.columns, bar.line
            )
        result = fedwad.Reference.from_dict(content)
    else:
        with progress_bar(f"Summarising {to_printable(name)}"):
            source: Any = path
            options = table_options.columns.to_options()
            if policy is not None:
                source, options = _site(path, policy, ledger, table_options), {}
            result = fedwad.Reference.from_data(source, name, seed=seed, **options)
    result.save(out)
    if result.schema is not None:
        show_conflicts(result.schema)
    if as_json:
        print_json({"site": result.site, "out": str(out), "digest": result.digest})
        return
    print_text(f"Wrote {result!r} to {out}; it has no rows.")
    print_text(f"Next: fedwad watch NEW --reference {out} --history log.jsonl")


def _site(path: str | Path, policy: Path, ledger: Path | None, table_options: SiteOptions) -> Site:
    """Return the site behind its policy and ledger, with a schema that fits later tables too."""
    client = open_client(path, policy, ledger, **table_options.columns.to_options())
    name = client.policy.name or find_one_file(str(path))[0]
    federation = LocalFederation({name: client})
    prepared = ensure_schema(federation)
    if isinstance(prepared, SchemaFederation):
        return for_later_tables(federation, prepared.schema, name)
    return LocalFederation({name: client}, client.data.features, client.data.schema)[name]


def watch(
    new: Source,
    *,
    reference: Path,
    output: SavedOutput,
    engine_options: EngineOptions,
    reading: ReadingOptions,
    alpha: float = 0.01,
    history: Path | None = None,
    prometheus: Path | None = None,
    explain: Explain = False,
    seed: Seed = 0,
) -> None:
    """Have the data drifted since the reference was made?

    The new data stay here. They are encoded as the reference was. --history divides alpha between
    all comparisons with the reference, so repeated comparisons raise no more false alarms. With
    --engine a site is asked for the same statistics again, if its policy has keep = true.

    The exit code is 3 on drift, and 4 if there are too few rows to tell.

    Example: `fedwad watch july.csv --reference ref.json --history log.jsonl`

    Parameters
    ----------
    reference : a file of `fedwad reference`
    alpha : probability of a false alarm; with --history over all comparisons together
    history : add the comparison to this .jsonl file, and count those before
    prometheus : write a .prom file for the textfile collector of Prometheus
    """
    output.check()
    check_ending(history, ".jsonl", "--history")
    if not 0 < alpha < 1:  # before a site is asked
        raise InputError(
            f"--alpha is {alpha:g}; give a number between 0 and 1, such as 0.01.", "bad-option"
        )
    saved = fedwad.Reference.load(reference)
    data: Any
    name, data = (new, None) if engine_options.connect else find_one_file(new)
    options = reading.with_schema("auto").to_options()
    if engine_options.uses_engine:
        data, options = _ask_again(saved, new, name, engine_options, reading), {}
    with progress_bar(f"Comparing {to_printable(name)}"):
        result = saved.compare(data, alpha, name=name, history=history, seed=seed, **options)
    entries = [result.line()] if history is None else saved.history(history)
    output.write(result, entries=entries)
    content = result.line() | {"alpha": result.alpha, "judged": result.judged}
    content["distance"] = content.pop("value")
    content |= {
        "sentence": result.sentence,
        "sites": list(result.distance.sites),
        "blocks": list(result.blocks),
        "smallest": result.smallest,
    }
    content |= columns_in_json(result.explain())
    if prometheus is not None:
        write_atomically(prometheus, metrics(content, result.distance.sites[0], name))
    if output.as_json:
        print_json(content)
    else:
        print_sentence(result.sentence)
        if explain:
            show_columns(result.explain())
        if history is not None:
            print_text(
                f"Comparison {result.test} with this reference: false alarms over all of them have"
                f" probability {result.alpha:g} at most."
            )
        if not result.judged:
            print_text(
                f"The smallest p-value that is possible here is {result.smallest:.2g}. Compare more"
                " rows at a time, or make a new reference."
            )
        output.print_report()
    exit_by(result.drift if result.judged else None)


def _ask_again(
    saved: fedwad.Reference,
    source: str,
    name: str,
    engine_options: EngineOptions,
    reading: ReadingOptions,
) -> Site:
    """Ask a site on an engine what the site of the reference was asked; a site with its replies."""
    schema = None if saved.schema is None else saved.schema.to_toml()
    options = {"requests": [saved.summary.to_dict()["request"]], "schema": schema}
    columns = reading.with_schema("auto" if schema or engine_options.connect else None)
    with progress_bar(f"Asking {name}") as bar:
        content = engine_options.run("join", [source], options, columns, bar.line)
    kept = [KeptReply.from_dict(one) for one in content["replies"]]
    return KeptFederation({name: kept}, None, saved.features, saved.schema)[name]
