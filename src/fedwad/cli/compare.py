"""`fedwad distance`, `matrix`, `cluster`, `test`, `join` and `embed`: how similar are sites?

Each command prints `result.sentence` first, which holds the verdict, and then numbers. The exit
code of all but `cluster` and `embed` says the verdict too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from rich.cells import cell_len
from rich.markup import escape

import fedwad
from fedwad._words import format_bytes, pluralize, to_printable
from fedwad.cli.console import (
    Bar,
    describe_traffic,
    exit_by,
    make_table,
    print_facts,
    print_failed,
    print_json,
    print_sentence,
    print_text,
    progress_bar,
    screen,
    warn_small_cells,
)
from fedwad.cli.options import (
    Explain,
    MethodOptions,
    NumberOfClusters,
    OptionGroup,
    Output,
    PairOptions,
    PrivacyOptions,
    ReadingOptions,
    SavedOutput,
    Seed,
    Source,
    Sources,
    WeightedTableOptions,
    check_clusters,
    parse_number_of_clusters,
)
from fedwad.cli.sites import (
    EngineOptions,
    ResumableEngineOptions,
    find_one_file,
    schema_warnings,
)
from fedwad.compare import (
    Progress,
    add_replies,
    change_in_words,
    describe_clusters,
    groups_in_words,
    join_options,
)
from fedwad.compare.answers import verdict
from fedwad.compare.explanation import numbers_in_words
from fedwad.compare.sentences import distance_in_words
from fedwad.compare.shown import ShownMatrix
from fedwad.compare.task import index_of
from fedwad.errors import InputError
from fedwad.federation import LocalFederation, local
from fedwad.methods import DISTANCE_METHODS, MATRIX_METHODS, FedWaD
from fedwad.transport import Floats

Order = Annotated[float, "Order of the distance, at least 1."]
Rows = list[tuple[str, str | None]]

_EFFECTIVE = "Rows have weights; the numbers of rows above are effective numbers."
_MAX_PAIRS = 20  # pairs whose tests are printed; --json has all


class DistanceOptions(MethodOptions):
    """Options of the methods of a distance."""

    methods: ClassVar[Any] = DISTANCE_METHODS


class MatrixOptions(MethodOptions):
    """Options of the methods of a matrix."""

    methods: ClassVar[Any] = MATRIX_METHODS


@dataclass(frozen=True)
class ClassOptions(OptionGroup):
    """Whether classes are compared too.

    Parameters
    ----------
    labels : dataset distance: compare classes too; needs labels in the data
    class_covariance : class statistics compared besides the means: standard deviations (diag) or
        covariances (full)
    """

    labels: bool = False
    class_covariance: Literal["diag", "full"] = "diag"


@dataclass(frozen=True)
class ClusterOptions(OptionGroup):
    """The graph of similar sites in which clusters are found.

    Parameters
    ----------
    affinity : between sites: a Gaussian kernel, the paper's 1 - D^2/max (linear), or that between
        nearest neighbours only (knn), all alike (binary)
    n_neighbors : neighbours of each site in the graph (knn, binary)
    """

    affinity: Literal["kernel", "linear", "knn", "binary"] = "kernel"
    n_neighbors: int = 3


# --- distance


def distance(
    a: Source,
    b: Source,
    *,
    options: DistanceOptions,
    table_options: PairOptions,
    output: SavedOutput,
    privacy: PrivacyOptions,
    engine_options: ResumableEngineOptions,
    classes: ClassOptions,
    p: Order = 2.0,
    seed: Seed = 0,
    explain: Explain = False,
) -> None:
    """Do the data in A and B differ, how far, and in which columns?

    Each file becomes a site in this process. Only what would travel between real sites is
    exchanged, and its size is reported. The answer comes from a permutation test; the distance
    between the populations, and certified bounds of the samples' own distance, say how far.

    The exit code is 3 if a difference is found, and 4 if there are too few rows to tell.

    Example: `fedwad distance paris.csv oslo.csv --explain`
    """
    output.check((a, b))
    if explain and p != 2:
        raise InputError(
            f"--explain is for p = 2, and --p is {p:g}; leave one of them out.",
            "conflicting-options",
        )
    keywords = options.keywords() | privacy.keywords(table_options.columns.schema)
    keywords |= {"p": p, "seed": seed} | asdict(classes)
    if options.method == FedWaD.name and output.report:
        keywords.setdefault("reveal", "every")  # the page shows the rounds
    files, first, second = {}, a, b
    if not engine_options.uses_engine:
        (first, one), (second, other) = find_one_file(a), find_one_file(b)
        if first == second:
            first, second = a, b
        if Path(one).resolve() == Path(other).resolve():
            second = first
        files = {first: one, second: other}

    def here(_: LocalFederation, fed: Any, bar: Bar) -> fedwad.DistanceResult:
        rounds = keywords.get("rounds", FedWaD.rounds)

        def show(record: fedwad.Round) -> None:
            stage = "Asking both sites"
            if record.running is not None:
                stage += f", running estimate {record.running:.4g}"
            bar.progress(Progress(stage, record.number, rounds))

        return fedwad.distance(fed[first], fed[second], callback=show, **keywords)

    kind = fedwad.DistanceResult
    result, page = engine_options.ask(
        "distance", (a, b), keywords, table_options, files, kind, here, output
    )
    output.write(result, **page)
    if output.as_json:
        content = result.to_dict() | {"sentence": result.sentence, "differs": result.differs}
        del content["evidence"]
        if result.evidence is not None:  # its columns instead, the most important first
            explanation = result.explain()
            content |= columns_in_json(explanation)
            content["notes"] = [*result.notes, *explanation.notes]
        print_json(content | {"warnings": page.get("warnings", [])})
    else:
        print_sentence(result.sentence)
        print_facts(_distance_rows(result))
        if table_options.weights is not None:
            print_text(_EFFECTIVE)
        if explain:
            show_columns(result.explain())
        warn_small_cells(result.min_cell_size)
        output.print_report()
    exit_by(result.differs, result.enough)


def _distance_rows(result: fedwad.DistanceResult) -> Rows:
    """Return the numbers behind the answer, each with its name, as notebooks show them."""
    fedwad, cell = result.fedwad, result.min_cell_size
    return [
        ("rows", " and ".join(f"{n:,}" for n in result.rows) or None),
        *((name, text) for name, text in result._html_rows().items() if name != "answer"),
        ("paper's estimate", None if fedwad is None else f"{fedwad:.6g}"),
        ("rounds", str(len(result.history)) if result.history else None),
        ("privacy", _guarantee(result.privacy)),
        ("sent", describe_traffic(result.traffic)),
        ("smallest cell, last replies", None if cell is None else pluralize(cell, "sample")),
    ]


def _guarantee(privacy: dict[str, Any] | None) -> str | None:
    """The guarantee of private releases in words."""
    text = "epsilon {epsilon:g}, delta {delta:g} for the one release of each site"
    return None if privacy is None else text.format(**privacy)


# --- why sites differ


def columns_in_json(explanation: fedwad.Explanation) -> dict[str, Any]:
    """Return what `--json` says about columns, the most important first."""
    content = explanation.to_dict()
    return {name: content[name] for name in ("columns", "causes")}


def show_columns(explanation: fedwad.Explanation) -> None:
    """Print a row for each column, the largest contribution first; causes are not dim."""
    titles = ("column", "contribution", "share", "adjusted p", "SMD", "of samples", "change")
    table = make_table(*titles, left=("column", "change"))
    for index in explanation.order:
        name, numbers = explanation.names[index], numbers_in_words(explanation, index).values()
        change = escape(change_in_words(explanation, index))
        style = None if name in explanation.causes else "dim"
        table.add_row(escape(name), *numbers, change, style=style)
    screen.print(table)
    for note in explanation.notes:
        print_text(note)


# --- matrix and cluster


def matrix(
    files: Sources,
    *,
    options: MatrixOptions,
    table_options: WeightedTableOptions,
    output: SavedOutput,
    privacy: PrivacyOptions,
    engine_options: ResumableEngineOptions,
    classes: ClassOptions,
    clustering: ClusterOptions,
    p: Order = 2.0,
    k: NumberOfClusters = None,
    seed: Seed = 0,
) -> None:
    """Which sites have similar data? All distances between many sites, and a test of each pair.

    Each file becomes a site in this process. Only what would travel between real sites is
    exchanged, and its size is reported. A .csv needs --label-column for --labels; a .npz holds
    labels as y.

    The exit code is 3 if the sites differ, and 4 if there are too few rows to tell.

    Example: `fedwad matrix sites/ --k auto --report sites.html`
    """
    output.check(files)
    n_clusters = parse_number_of_clusters(k)
    keywords = options.keywords() | privacy.keywords(table_options.columns.schema)
    keywords |= {"p": p, "seed": seed} | asdict(classes)
    paths = engine_options.find(files, table_options, "a matrix")
    check_clusters(n_clusters, paths or files)

    def here(_: Any, fed: Any, bar: Bar) -> fedwad.MatrixResult:
        return fedwad.matrix(fed, callback=bar.progress, **keywords)

    result, page = engine_options.ask(
        "matrix", files, keywords, table_options, paths, fedwad.MatrixResult, here, output
    )
    clusters = None if n_clusters is None else find_clusters(result, n_clusters, clustering, seed)
    _write_matrix(result, clusters, output, **page)
    if table_options.weights is not None and not output.as_json:
        print_text(_EFFECTIVE)
    exit_by(_differ(result), result.enough)


def cluster(
    file: Path,
    *,
    clustering: ClusterOptions,
    output: Output,
    k: NumberOfClusters = "auto",
    seed: Seed = 0,
) -> None:
    """Which sites belong together? Clusters of a saved matrix, and how stable they are.

    Example: `fedwad cluster sites.json --k 2`

    Parameters
    ----------
    file : a matrix saved by `fedwad matrix --save`
    """
    output.check()
    n_clusters = parse_number_of_clusters(k) or "auto"
    result = fedwad.MatrixResult.load(file)
    _write_matrix(result, find_clusters(result, n_clusters, clustering, seed), output)


def _differ(result: fedwad.MatrixResult) -> bool | None:
    """Whether the sites of a matrix differ, by the test that its sentence leads with."""
    if len(result) == 2:
        answer: bool | None = result.differs[0, 1]
        return answer
    return None if result.test is None else verdict(result.test.pvalue, result.test.smallest)


def find_clusters(
    result: fedwad.MatrixResult, k: int | Literal["auto"], options: ClusterOptions, seed: int
) -> dict[str, Any]:
    """Return clusters in the form that --json prints."""
    suggestion = result.suggest()
    number = suggestion.k if k == "auto" else k
    graph = asdict(options)
    return {
        "k": number,
        "labels": result.cluster(number, **graph, seed=seed).tolist(),
        "suggested": suggestion.k,
        "suggested_by_distance": suggestion.by_distance,
        "reason": suggestion.reason,
        "eigenvalues": suggestion.eigenvalues.tolist(),
        "too_small": list(suggestion.too_small),
        "stability": result.stability(number, **graph, seed=seed),
        "affinity": options.affinity,
    }


def _write_matrix(
    result: fedwad.MatrixResult, clusters: dict[str, Any] | None, output: Output, **page: Any
) -> None:
    """Write a matrix and its clusters to files, and print them."""
    labels = None if clusters is None else np.array(clusters["labels"])
    output.write(result, clusters=labels, **page)
    if output.as_json:
        print_json(matrix_in_json(result, clusters, page))
        return
    view = ShownMatrix(result, labels)
    show_matrix(view)
    if clusters is not None:
        _show_clusters(view, clusters)
    output.print_report()


def matrix_in_json(
    result: fedwad.MatrixResult, clusters: dict[str, Any] | None, page: dict[str, Any]
) -> dict[str, Any]:
    """Return what `--json` prints of a matrix, of its clusters, and of its sites' warnings."""
    content, known = result.to_dict(), result.knows_populations
    del content["kept"], content["evidence"]  # for --save
    content |= {
        "sentence": result.sentence,
        "differs": result.differs.tolist(),
        "heterogeneity": result.heterogeneity.to_dict() if known else None,
        "eccentricity": result.eccentricity.to_dict() if known else None,
        "warnings": page.get("warnings", []),
    }
    return content | ({} if clusters is None else {"clusters": clusters})


def show_matrix(view: ShownMatrix) -> None:
    """Print the answer, all distances or each site's neighbours, and what was sent."""
    result = view.matrix
    print_sentence(result.sentence)
    columns, rows = _headings(view)
    titles, heads = [""], [[escape(name)] for name in rows]
    if result.rows:
        titles.append("rows")
        heads = [[*head, f"{n:,}"] for head, n in zip(heads, result.rows, strict=True)]
    if view.clusters is not None:
        titles.append("cluster")
        for head, label in zip(heads, view.clusters.tolist(), strict=True):
            head.append(str(view.cluster_number[label] or "single"))
    if columns:
        print_text(view.title)
        table = make_table(*titles, *map(escape, columns), left=("",), no_wrap=True)
        for head, others in zip(heads, view.texts, strict=True):
            table.add_row(*head, *others)
    else:
        words = ("nearest sample", "bounds") if result.certified else ("nearest", "likely range")
        titles += [words[0], "distance", words[1], "farthest", "distance"]
        table = make_table(*titles, left=("", *words, "farthest"))
        for name, head in zip(result.sites, heads, strict=True):
            near, *_, far = result.nearest(name)
            bounds = f"{near.lower:.4g} to {near.upper:.4g}"
            ends = escape(far.site), f"{far.value:.4g}"
            table.add_row(*head, escape(near.site), f"{near.value:.4g}", bounds, *ends)
    screen.print(table)
    print_facts(_matrix_rows(result))
    print_failed(result.failed)
    warn_small_cells(result.min_cell_size)


def _matrix_rows(result: fedwad.MatrixResult) -> Rows:
    """Return the numbers behind the answer over all pairs, each with its name."""
    pairs, cell = np.triu_indices(len(result), 1), result.min_cell_size

    def extent(values: Floats) -> str:
        low, high = f"{np.nanmin(values[pairs]):.4g}", f"{np.nanmax(values[pairs]):.4g}"
        return low if low == high else f"{low} to {high}"

    rows: Rows = [(name, text) for name, text in result._html_rows().items() if name != "answer"]
    if result.noise is not None and not np.isnan(result.noise[pairs]).all():
        rows.append(("chance alone", extent(result.noise)))
    if result.certified:
        rows.append(("between samples", f"{extent(result.value)}, method {result.method}"))
    return [
        *rows,
        ("privacy", _guarantee(result.privacy)),
        ("sent", describe_traffic(result.traffic)),
        ("smallest cell, last replies", None if cell is None else pluralize(cell, "sample")),
    ]


def _headings(view: ShownMatrix) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return headings of columns and rows with which the table fits on the screen.

    Columns are headed by the names of sites, or else by numbers. There are none if neither fits.
    """
    result, size = view.matrix, len(view.matrix)
    if size > 12:  # more can hardly be read, so only the nearest and the farthest are shown
        return (), result.sites
    number_width = max(len(text) for row in view.texts for text in row)
    numbers = tuple(str(k + 1) for k in range(size))
    numbered = tuple(f"{number} {name}" for number, name in zip(numbers, result.sites, strict=True))
    rows_width = max(4, *(len(f"{n:,}") for n in result.rows)) + 2 if result.rows else 0
    for columns, rows in ((result.sites, result.sites), (numbers, numbered)):
        width = max(map(cell_len, rows)) + 2 + rows_width + 9 * (view.clusters is not None)
        if width + sum(max(cell_len(name), number_width) + 2 for name in columns) <= screen.width:
            return columns, rows
    return (), result.sites


def _show_clusters(view: ShownMatrix, clusters: dict[str, Any]) -> None:
    """Print the members of each cluster, the suggested number, and how stable they are."""
    for group in view.groups:
        names = ", ".join(view.matrix.sites[k] for k in sorted(group.members))
        print_text(f"{group.title}: {names} ({group.extent})")
    suggested, by_distance = clusters["suggested"], clusters["suggested_by_distance"]
    alone = f", since {clusters['reason']}" if clusters["reason"] else ""
    if suggested < by_distance:
        alone += f" (distances alone suggest {by_distance})"
    print_text(f"Suggested number: {suggested}{alone}.")
    if 1 < len(view.groups) < len(view.matrix):  # one group, or none of two, always agrees
        print_text(
            "Clusters of other samples of the same sites would agree to"
            f" {clusters['stability']:.2f} (adjusted Rand index, 1 is perfect)"
            f"{'; do not rely on them.' if clusters['stability'] < 0.5 else '.'}"
        )
    if clusters["too_small"]:
        print_text(f"Too few rows to be tested: {', '.join(clusters['too_small'])}.")


# --- test

Tested = fedwad.PermutationTestResult | fedwad.MatrixResult


def permutation(
    files: Sources,
    *,
    table_options: WeightedTableOptions,
    engine_options: ResumableEngineOptions,
    output: Output,
    explain: Explain = False,
    seed: Seed = 0,
) -> None:
    """Do the sites differ by more than chance? An exact permutation test at the 5% level.

    Each site sends means over blocks of its rows with its summary, which are permuted between
    sites. With more than two sites all are tested together, and then all pairs, whose p-values are
    adjusted for their number.

    The exit code is 3 if a difference is found, and 4 if there are too few rows to tell.

    Example: `fedwad test paris.csv oslo.csv`
    """
    output.check()
    paths = engine_options.find(files, table_options, "a test")
    pair = len(paths or files) == 2

    def here(federation: LocalFederation, fed: Any, _: Bar) -> Tested:
        if not pair:
            return fedwad.matrix(fed, seed=seed)
        first, second = (fed[name] for name in federation.names)
        return fedwad.permutation_test(first, second, seed=seed)

    kind: Any = fedwad.PermutationTestResult if pair else fedwad.MatrixResult
    result, page = engine_options.ask(
        "test", files, {"seed": seed}, table_options, paths, kind, here, output
    )
    output.write(result, **page)
    content, pairs = result.to_dict(), _tested_pairs(result)
    if isinstance(result, fedwad.MatrixResult):
        differs, whole = _differ(result), result.test
        content = {key: content[key] for key in ("sites", "seed", "enough", "traffic", "failed")}
        for key in ("pvalue", "smallest", "statistic"):
            content[key] = None if whole is None else getattr(whole, key)
    else:
        differs = result.differs
        del content["evidence"]
    if output.as_json:
        content, shown = content | {"warnings": page.get("warnings", [])}, []
        for one in pairs:
            why = one.pop("explanation")
            shown.append(one | ({} if why is None else columns_in_json(why)))
        # With two sites there is one pair, whose columns are also at the top.
        top = {} if len(shown) > 1 else {k: v for k, v in shown[0].items() if k not in content}
        print_json(
            {"sentence": result.sentence, "differs": differs} | content | {"pairs": shown} | top
        )
    else:
        _show_test(result, pairs, explain)
        output.print_report()
    exit_by(differs, result.enough)


def _tested_pairs(result: Tested) -> list[dict[str, Any]]:
    """The test of each pair of sites, small p-values first."""
    names, known = list(result.sites), result.evidence is not None
    if isinstance(result, fedwad.PermutationTestResult):
        why = result.explain() if known else None
        found = {"pvalue": result.pvalue, "differs": result.differs, "explanation": why}
        return [{"sites": names} | found]
    unknown = np.full_like(result.value, np.nan)
    pvalue = unknown if result.pvalue is None else result.pvalue
    pairs = [
        {
            "sites": [names[i], names[j]],
            "pvalue": float(pvalue[i, j]),
            "differs": result.differs[i, j],
            "explanation": result.explain(names[i], names[j]) if known else None,
        }
        for i, j in combinations(range(len(result)), 2)
    ]
    return sorted(pairs, key=lambda pair: np.nan_to_num(pair["pvalue"], nan=np.inf))


def _show_test(result: Tested, pairs: list[dict[str, Any]], explain: bool) -> None:
    print_sentence(result.sentence)
    if len(pairs) > 1:
        table = make_table("pair", "p-value", left=("pair",))
        for pair in pairs[:_MAX_PAIRS]:
            tested = "not tested" if np.isnan(pair["pvalue"]) else f"{pair['pvalue']:.4g}"
            table.add_row(escape(" - ".join(pair["sites"])), tested)
        screen.print(table)
        if len(pairs) > _MAX_PAIRS:
            print_text(f"and {len(pairs) - _MAX_PAIRS} more pairs; --json has all.")
        tested_pairs = sum(not np.isnan(pair["pvalue"]) for pair in pairs)
        count = pluralize(tested_pairs, "pair")
        print_text(f"P-values are adjusted for {count}.")
    for pair in pairs if explain else ():
        if pair["explanation"] is not None:
            screen.print(f"[bold]{escape(' - '.join(pair['sites']))}[/]")
            show_columns(pair["explanation"])
    print_failed(getattr(result, "failed", {}))
    print_text(f"Sent: {describe_traffic(result.traffic)}.")


# --- join


def join(
    new: Source,
    *,
    matrix: Path,
    output: SavedOutput,
    engine_options: EngineOptions,
    reading: ReadingOptions,
    explain: Explain = False,
) -> None:
    """Is a new site like the others? Only the new site is asked.

    The other sites are those of a saved matrix. It holds their replies, which their policies must
    allow (keep = true). With --engine, so must the policy of the new site.

    The exit code is 3 if the new site differs from every site of the nearest cluster, and 4 if
    there are too few rows to tell.

    Example: `fedwad join rome.csv --matrix sites.json`

    Parameters
    ----------
    matrix : a matrix saved by `fedwad matrix --save`
    """
    output.check([new])
    saved = fedwad.MatrixResult.load(matrix)
    # `evidence` holds what explains distances by columns, such as the schema that encoded them.
    schema = None if saved.evidence is None else saved.evidence.schema
    # These columns matter on an engine only. With "auto", the new site encodes its table by the
    # schema of the matrix, which the job sends; without a schema, all columns are numbers. With
    # --connect, the new site uses the settings of its own node instead.
    expects_schema = schema is not None or engine_options.connect is not None
    columns = reading.with_schema("auto" if expects_schema else None)
    if engine_options.uses_engine:
        name = new if engine_options.connect is not None else find_one_file(new)[0]
        with progress_bar(f"Asking {name}") as bar:
            content = engine_options.run("join", [new], join_options(saved), columns, bar.line)
        result = add_replies(saved, name, content["replies"])
    else:
        name, path = find_one_file(new)
        options = columns.to_options() | {"schema": schema}
        with progress_bar(f"Asking {to_printable(name)}"):
            result = saved.add(local({name: path}, **options)[name])
    name = result.sites[-1]
    placement = result.placement(name)
    output.write(result, schema=schema, newcomer=name, warnings=schema_warnings(schema))
    if output.as_json:
        traffic = {"up": result.traffic.up, "messages": result.traffic.messages}
        extra = {"traffic": traffic, "sites": list(result.sites)}
        print_json(placement.to_dict() | extra | columns_in_json(placement.explanation))
    else:
        print_sentence(placement.sentence)
        names = ", ".join(
            f"{one.site} {distance_in_words(one.value, (one.lower, one.upper))}"
            for one in placement.nearest[:3]
        )
        print_text(f"Distances to the populations, the smallest estimate first: {names}.")
        if explain:
            show_columns(placement.explanation)
        sent = format_bytes(result.traffic.up)
        messages = pluralize(result.traffic.messages, "message")
        print_text(f"Sent: {sent} by {placement.site} alone, in {messages}.")
        output.print_report()
    exit_by(placement.stranger, result.enough)


# --- embed


def embed(
    files: Sources,
    *,
    table_options: WeightedTableOptions,
    output: SavedOutput,
    engine_options: ResumableEngineOptions,
    classes: ClassOptions,
    support: int = 10,
    k: NumberOfClusters = "auto",
    nearest: str | None = None,
    seed: Seed = 0,
) -> None:
    """Which of thousands of sites have similar data? Each site becomes a point.

    Near points mean similar data. Time grows with the number of sites, not of pairs; for up to a
    few hundred sites, `fedwad matrix` says more about each pair.

    Example: `fedwad embed sites/ --nearest rome --report map.html`

    Parameters
    ----------
    support : points of the support that all sites share
    nearest : name of a site whose ten most similar sites are printed
    """
    output.check(files)
    n_clusters = parse_number_of_clusters(k) or "auto"
    keywords = {"support": support, "seed": seed} | asdict(classes)
    paths = engine_options.find(files, table_options, "an embedding")
    check_clusters(n_clusters, paths or files)
    if nearest is not None:  # before they are asked
        index_of(tuple(paths or files), nearest, "embedding")

    def here(_: Any, fed: Any, bar: Bar) -> fedwad.EmbeddingResult:
        return fedwad.embed(fed, callback=bar.progress, **keywords)

    result, page = engine_options.ask(
        "embed", files, keywords, table_options, paths, fedwad.EmbeddingResult, here, output
    )
    suggestion = result.suggest()
    number = suggestion.k if n_clusters == "auto" else n_clusters
    clusters = {
        "k": number,
        "labels": result.cluster(number, seed).tolist(),
        "suggested": suggestion.k,
        "eigenvalues": suggestion.eigenvalues.tolist(),
    }
    # Before files are written, since the name may be wrong.
    neighbours = [] if nearest is None else result.nearest(nearest)
    output.write(result, clusters=clusters["labels"], **page)
    if output.as_json:
        near = {"nearest": [vars(one) for one in neighbours]} if neighbours else {}
        print_json(result.to_dict() | {"clusters": clusters} | near)
        return
    _show_groups(result, clusters)
    if nearest is not None:
        title = f"nearest to {escape(nearest)}"
        table = make_table(title, "of points", "estimated distance", left=(title,))
        for one in neighbours:
            value = "" if one.value is None else f"{one.value:.4g}"
            table.add_row(escape(one.site), f"{one.embedded:.4g}", value)
        screen.print(table)
    print_text(f"Sent: {describe_traffic(result.traffic)}.")
    print_failed(dict(list(result.failed.items())[:10]))
    if len(result.failed) > 10:
        print_text(f"Without {len(result.failed) - 10} more sites; --json names them.")
    warn_small_cells(result.min_cell_size)
    output.print_report()


def _show_groups(result: fedwad.EmbeddingResult, clusters: dict[str, Any]) -> None:
    groups = describe_clusters(result.embedding, np.array(clusters["labels"]), result.sites)
    suggested = clusters["suggested"]
    note = "" if suggested == len(groups) else f" ({suggested} suggested)"
    print_sentence(f"{groups_in_words(len(result), len(groups))}{note}.")
    titles = ("cluster", "sites", "most central site", "radius", "nearest", "distance")
    table = make_table(*titles, left=("most central site",))
    for group in groups:
        table.add_row(*map(escape, group.texts))
    screen.print(table)
