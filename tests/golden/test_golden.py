"""What the package answers, call by call: every public function, method and command, and its pages.

`golden.json` beside this file has the numbers of each call, as a decimal for the reader and as bits
(`float.hex`). Who changes a number on purpose writes the file again, and its diff is the list of
changes to explain:

    FEDWAD_GOLDEN=write python -m pytest tests/golden

Numbers are compared to a relative 1e-9, and by bits with `FEDWAD_GOLDEN=bits`. Other processors add
and multiply in other orders, which changes what synthetic samples and permutations are drawn. So on
another processor than that of the file (`KERNEL`, the one that OpenBLAS takes it for) only the calls
in `PORTABLE` are compared by number, the others by their names and shapes. Private releases are left
out, since their noise is fresh. Data are integers divided by ten, the same everywhere.
A list of more than 24 numbers is kept as its length, its
first and its last number, its mean and its root mean square.
"""

import json
import math
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import fedwad
from command_line import run
from fedwad.cli.app import PARTS
from fedwad.datasets import partition

FILE = Path(__file__).with_name("golden.json")
MODE = os.environ.get("FEDWAD_GOLDEN", "")
WRITE = "FEDWAD_GOLDEN=write python -m pytest tests/golden"
#: Keys of what is worded, of how long something took, of paths, and of whole replies.
LEFT_OUT = {
    "sentence",
    "notes",
    "seconds",
    "time",
    "kept",
    "file",
    "files",
    "report",
    "saved",
    "path",
    "version",
}
LEFT_OUT |= {"digest", "seal", "run", "when", "at", "blocks"}
KERNEL = next(
    (one["architecture"] for one in threadpool_info() if "architecture" in one), "unknown"
)
PORTABLE = {"$ schema", "$ plan", "$ node check", "$ reference"} | {
    f"fedwad: {name}"
    for name in (
        "wasserstein",
        "wasserstein, p = 1, weights",
        "transport.solve",
        "transport.dataset_distance",
        "permutation_test",
        "columns",
        "schema",
        "classifier",
        "drift",
        "partition",
        "policy",
    )
}
pytestmark = pytest.mark.filterwarnings("ignore::fedwad.DataWarning")
HEART = fedwad.datasets.load("heart")


def points(seed, n=60, d=3, shift=0):
    """Integers divided by ten: the same numbers on every machine."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-30, 31, (n, d)) + rng.integers(-30, 31, (n, d)) + shift) / 10


X, Y = points(0), points(1, 50, shift=8)
LABELLED = {
    name: (points(k, 60, 2, 5 * k), np.arange(60) % 3) for k, name in enumerate(("a", "b", "c"))
}
SITES = {f"s{k}": points(k, 40, 3, 12 * (k // 2)) for k in range(5)}


def of(result, *names):
    """These attributes of a result."""
    return {name: getattr(result, name) for name in names}


def distance_of(result):
    names = "value lower upper noise population population_interval pvalue differs certified"
    return of(result, *names.split()) | {"traffic": vars_of(result.traffic)}


def matrix_of(result):
    names = "sites value lower upper noise population pvalue differs"
    return of(result, *names.split()) | {"traffic": vars_of(result.traffic)}


def vars_of(thing):
    return {name: getattr(thing, name) for name in thing.__dataclass_fields__}


def explanation_of(e):
    return of(e, "names", "contribution", "share", "pvalue", "smd", "causes", "sample_share")


def tables_apart():
    fed = fedwad.local(HEART, label_column="num")
    return fedwad.distance(fed["cleveland"], fed["hungarian"])


def columns_call():
    t = fedwad.columns(fedwad.local(HEART, label_column="num"))
    return {"frame": t.to_frame().reset_index().to_dict("list")}


def schema_call():
    s = fedwad.schema(HEART, label_column="num")
    encoded = s.encode(str(HEART["va"]))
    return {"toml": s.to_toml().splitlines(), "encoded": np.asarray(encoded)}


def clusters_call():
    m = fedwad.matrix(SITES)
    found = {
        affinity: m.cluster(2, affinity=affinity, seed=0, **more)
        for affinity, more in (("kernel", {}), ("linear", {}), ("knn", {"n_neighbors": 2}))
    }
    return found | {
        "k": m.suggest().k,
        "nearest": [(one.site, one.value) for one in m.nearest("s0", 2)],
        "heterogeneity": vars_of(m.heterogeneity),
        "eccentricity": vars_of(m.eccentricity),
        "explained": explanation_of(m.explain("s0", "s4")),
        "clusters explained": {
            label: explanation_of(e) for label, e in m.explain_clusters(found["kernel"]).items()
        },
    }


def join_call():
    m = fedwad.matrix(fedwad.local(SITES, fedwad.Policy(["describe", "summary"], 1, keep=True)))
    joined = m.add(points(9, 40, 3, 12), "new")
    return matrix_of(joined) | {"placement": vars_of(joined.placement("new"))}


def coreset_of(c):
    return of(c, "points", "weights") | {"history": [vars_of(one) for one in c.history]}


def embed_call():
    """Points up to their signs: axes are eigenvectors."""
    e = fedwad.embed(SITES)
    apart = np.linalg.norm(e.embedding[:, None] - e.embedding[None], axis=2)
    found = of(e, "explained", "noise", "rows") | {"apart": apart, "k": e.suggest().k}
    nearest = [(one.site, one.value) for one in e.nearest("s0", 2)]
    return found | {"clusters": e.cluster(2, seed=0), "nearest": nearest}


def stability_call():
    m = fedwad.matrix(fedwad.local(SITES, fedwad.Policy(["describe", "summary"], 1, keep=True)))
    return {"of two clusters": m.stability(2, draws=5, seed=0)}


def solve_call():
    measures = [fedwad.Measure(X), fedwad.Measure(Y)]
    plan = fedwad.transport.solve(*measures)
    return of(plan, "cost", "gap")


def classifier_call():
    model = fedwad.CoresetClassifier(size=6).fit(fedwad.local(LABELLED))
    asked = points(7, 20, 2)
    return {"predicted": model.predict(asked), "probabilities": model.predict_proba(asked)}


def drift_call():
    reference = fedwad.Reference.from_data(points(0, 200))
    same, moved = reference.compare(points(1, 100)), reference.compare(points(2, 100, shift=20))
    return {name: of(r, "drift", "pvalue") for name, r in (("same", same), ("moved", moved))}


def audit_call():
    result = fedwad.audit(points(3, 40), fedwad.Policy(["describe", "summary"], 5), "summary")
    return of(result, "rows", "baseline", "recovered", "n_attacked", "n_records")


CALLS = {
    "wasserstein": lambda: fedwad.wasserstein(X, Y),
    "wasserstein, p = 1, weights": lambda: fedwad.wasserstein(
        X, Y, p=1, a=np.arange(1, 61), b=np.arange(1, 51)
    ),
    "transport.solve": solve_call,
    "transport.dataset_distance": lambda: fedwad.transport.dataset_distance(
        *LABELLED["a"], *LABELLED["b"]
    ),
    "distance": lambda: distance_of(fedwad.distance(X, Y)),
    "distance of tables": lambda: distance_of(tables_apart()),
    "distance, p = 1": lambda: distance_of(fedwad.distance(X, Y, p=1)),
    "distance, fedwad": lambda: fedwad_of(support=10, rounds=4),
    "distance, fedwad, exact interpolant": lambda: fedwad_of(
        support=10, rounds=3, interpolant="exact", t=0.3
    ),
    "distance, labels": lambda: distance_of(
        fedwad.distance(LABELLED["a"], LABELLED["b"], labels=True)
    ),
    "explain": lambda: explanation_of(fedwad.distance(X, Y).explain()),
    "explain tables": lambda: explanation_of(tables_apart().explain()),
    "permutation_test": lambda: of(
        fedwad.permutation_test(X, Y), "pvalue", "statistic", "smallest"
    ),
    "matrix": lambda: matrix_of(fedwad.matrix(SITES)),
    "matrix, hub": lambda: matrix_of(fedwad.matrix(SITES, method="hub", support=6, rounds=2)),
    "matrix, pairs": lambda: matrix_of(fedwad.matrix(SITES, method="pairs", support=6, rounds=2)),
    "matrix, labels": lambda: matrix_of(fedwad.matrix(LABELLED, labels=True)),
    "matrix, labels, full covariance": lambda: matrix_of(
        fedwad.matrix(LABELLED, labels=True, class_covariance="full")
    ),
    "matrix of tables": lambda: matrix_of(fedwad.matrix(fedwad.local(HEART, label_column="num"))),
    "clusters": clusters_call,
    "join": join_call,
    "embed": embed_call,
    "stability": stability_call,
    "columns": columns_call,
    "schema": schema_call,
    "coreset": lambda: coreset_of(fedwad.coreset(SITES, 5, rounds=5)),
    "coreset, fedwad": lambda: coreset_of(fedwad.coreset(SITES, 5, method="fedwad", rounds=5)),
    "coreset, summary": lambda: coreset_of(fedwad.coreset(SITES, 5, method="summary")),
    "barycenter": lambda: coreset_of(fedwad.barycenter(SITES, size=5, rounds=5)),
    "coreset, direct": lambda: coreset_of(fedwad.coreset(SITES, 5, method="direct", rounds=5)),
    "classifier": classifier_call,
    "drift": drift_call,
    "audit": audit_call,
    "partition": lambda: {
        name: [len(y), *np.bincount(y, minlength=10)]
        for name, (_, y) in partition.dirichlet(
            *fedwad.datasets.load("digits"), 0.5, clients=4, samples=50
        ).items()
    },
    "policy": lambda: fedwad.Policy(["describe", "summary"], 5).to_toml().splitlines(),
}


def fedwad_of(**options):
    r = fedwad.distance(X, Y, method="fedwad", **options)
    return distance_of(r) | of(r, "fedwad") | {"history": [vars_of(one) for one in r.history]}


#: The commands, in this order in one folder; each prints one JSON object.
COMMANDS = {
    "columns": "columns cleveland.csv va.csv --report columns.html",
    "schema": "schema cleveland.csv va.csv",
    "distance": "distance cleveland.csv va.csv --label-column num --report distance.html",
    "distance, fedwad": "distance cleveland.csv va.csv --method fedwad --support 8 --rounds 3",
    "matrix": "matrix . --label-column num --save m.json --report matrix.html",
    "matrix, hub": "matrix . --label-column num --method hub --support 6 --rounds 2",
    "matrix, pairs": "matrix . --label-column num --method pairs --support 6 --rounds 2",
    "cluster": "cluster m.json",
    "three": "matrix cleveland.csv hungarian.csv va.csv --label-column num --save three.json",
    "join": "join switzerland.csv --matrix three.json --label-column num --report join.html",
    "test": "test cleveland.csv hungarian.csv --report test.html",
    "embed": "embed . --label-column num --report embedding.html",
    "reference": "reference cleveland.csv --label-column num --out then.json --policy site.toml",
    "node check": "node check va.csv site.toml --label-column num",
    "ledger show": "ledger show site.ledger.sqlite",
    "ledger verify": "ledger verify site.ledger.sqlite",
    "budget show": "budget show site.ledger.sqlite",
    "watch": "watch hungarian.csv --reference then.json --label-column num --report drift.html",
    "coreset": "coreset . --size 4 --rounds 3 --label-column num --report coreset.html",
    "plan": "plan --n 500 --d 4 --epsilon 3 --report plan.html",
    "audit": "audit va.csv --method summary --report audit.html",
}
PAGES = (
    "columns",
    "join",
    "distance",
    "matrix",
    "test",
    "embedding",
    "drift",
    "coreset",
    "plan",
    "audit",
)
#: Commands without numbers of their own, or with fresh noise, times or weights in them.
NOT_PINNED = {"demo", "train", "warm-up"}
#: Public names that are classes of results and options, or rooms.
FUNCTIONS = [
    name
    for name in fedwad.__all__
    if name.islower() and callable(getattr(fedwad, name)) and name != "local"
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden")
    for table in HEART.values():
        (path / table.name).write_bytes(table.read_bytes())
    (path / "site.toml").write_text(
        'name = "heart"\nallow = ["describe", "columns", "summary"]\nkeep = true\n'
    )
    return path


def test_every_public_function_and_command_is_pinned():
    pinned = {name.split(",")[0].split(" of ")[0] for name in CALLS}
    assert set(FUNCTIONS) <= pinned
    commands = {word for part in PARTS.values() for word in part}
    assert commands <= {words.split()[0] for words in COMMANDS.values()} | NOT_PINNED


@pytest.mark.parametrize("name", CALLS)
def test_a_call(name):
    compare(f"fedwad: {name}", CALLS[name]())


def test_commands_and_pages(folder):
    for name, words in COMMANDS.items():
        done = run(*words.split(), "--json", cwd=folder)
        assert done.returncode in (0, 3), (words, done.stderr)
        compare(f"$ {name}", {"exit": done.returncode} | json.loads(done.stdout))
    for name in PAGES:
        found = Structure((folder / f"{name}.html").read_text()).found
        if name == "coreset":  # its page has the seconds of each round
            del found["numbers"]
        compare(f"page: {name}", found)


class Structure(HTMLParser):
    """Headings, captions and column titles of a page, and the numbers of its text, in order."""

    TITLES = ("h1", "h2", "h3", "h4", "caption", "figcaption", "summary", "th")
    SILENT = ("script", "style", "svg", "title")

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self._open = {"titles": [], "numbers": []}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        if tag in (*self.TITLES, *self.SILENT):
            self._open.append(tag)
            if tag in self.TITLES:
                self.found["titles"].append("")

    def handle_endtag(self, tag):
        if tag in self._open:
            self._open.remove(tag)

    def handle_data(self, text):
        if any(tag in self.SILENT for tag in self._open):
            return
        if self._open:
            # headings are sentences about the result, so their words may change, not their numbers
            words = re.sub(r"\s+", " ", text)
            self.found["titles"][-1] += "#" if self._open[-1] == "h1" else words
        # Not when it was written, and how long it took.
        text = re.sub(r"[\d-]*\d ?\d?\d:\d\d(:\d\d)?|\d[\d.]* (m?s|seconds?)\b", "", text)
        numbers = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)", text)
        self.found["numbers"] += [float(number) for number in numbers]


def plain(value):
    """What is kept of a value: names as they are, numbers as decimal and bits, long lists in short."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items() if key not in LEFT_OUT}
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{16,}", value):
        return "a digest"
    if isinstance(value, str):  # of a sentence only how it begins, since it may be reworded
        return " ".join([*value.split()[:5], "..."]) if value.count(" ") > 5 else value
    if isinstance(value, bool | int | None):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g} {float(value).hex()}"
    if hasattr(value, "__dataclass_fields__"):
        return plain(vars_of(value))
    values = value.tolist() if hasattr(value, "tolist") else list(value)
    flat = np.asarray(values).ravel() if is_numeric(values) else None
    if flat is not None and len(flat) > 24:
        squares = math.fsum(x * x for x in flat.tolist()) / len(flat)
        mean = math.fsum(flat.tolist()) / len(flat)
        short = {"first": float(flat[0]), "last": float(flat[-1]), "mean": mean}
        return {"length": len(flat)} | plain(short | {"root mean square": math.sqrt(squares)})
    if all(isinstance(one, dict) and "name" in one for one in values):  # in an order of numbers
        values = sorted(values, key=lambda one: str(one["name"]))
    return [plain(one) for one in values]


def is_numeric(values):
    try:
        return np.asarray(values).dtype.kind in "fiu"
    except ValueError:  # rows of different lengths
        return False


def compare(name, value):
    """Compare with the file, or write into it."""
    found, kept = plain(value), json.loads(FILE.read_text()) if FILE.exists() else {}
    if MODE == "write":
        expected = {*(f"fedwad: {c}" for c in CALLS), *(f"$ {c}" for c in COMMANDS)}
        expected |= {f"page: {page}" for page in PAGES}
        kept = {key: old for key, old in kept.items() if key in expected}
        kept |= {name: found, "kernel": KERNEL}
        FILE.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
        return
    exact = kept["kernel"] == KERNEL or name in PORTABLE
    differences = list(differ(kept.get(name), found, name, exact))
    shown = "\n".join(differences[:20])
    assert not differences, f"{shown}\n\nIf these changes are meant, run:\n    {WRITE}"


def differ(old, new, where, exact):
    """Where two kept values differ, in words; without `exact`, numbers may be any."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from differ(old.get(key), new.get(key), f"{where} / {key}", exact)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        if not exact and all(isinstance(one, str) for one in old + new):
            old, new = sorted(old), sorted(new)  # rows of a table are in an order of numbers
        for k, (one, two) in enumerate(zip(old, new, strict=True)):
            yield from differ(one, two, f"{where} / {k}", exact)
    elif not exact and re.search(r" / rows / \d+ / ", where):
        return  # decoded points of a coreset, numbers that are worded
    elif old != new and not is_close(old, new, exact):
        yield f"{where}: {old} was kept, {new} came"


def is_close(old, new, exact):
    bits = [re.fullmatch(r"\S+ (-?0x\S+|-?inf|nan)", str(one)) for one in (old, new)]
    if not all(bits):
        return not exact and isinstance(old, int) and isinstance(new, int)
    one, two = (float.fromhex(found[1]) for found in bits)
    return not exact or (MODE != "bits" and math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9))
