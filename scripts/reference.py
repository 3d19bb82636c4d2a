"""Pages of the reference that are made when the documentation is built: a hook of MkDocs.

Commands with their options, keys of a policy, kinds of messages and errors come from the code
alone.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fedwad
from fedwad import errors
from fedwad.cli.app import PARTS, load
from fedwad.messages import message
from fedwad.messages.codec import REQUESTS

#: The pages of the Python reference: the title, and names, or headings that end with a colon.
PYTHON = {
    "distances": (
        "Distances",
        "fedwad.distance fedwad.DistanceResult fedwad.Round fedwad.Explanation"
        " fedwad.permutation_test fedwad.PermutationTestResult On-one-machine: fedwad.wasserstein"
        " fedwad.Measure fedwad.transport.solve fedwad.transport.dataset_distance",
    ),
    "methods": (
        "Methods and their options",
        "Distances: fedwad.methods.Summary fedwad.methods.FedWaD Matrices: fedwad.methods.Hub"
        " fedwad.methods.Pairs Coresets: fedwad.methods.UnionCoreset"
        " fedwad.methods.SummaryCoreset fedwad.methods.FedWaDCoreset"
        " fedwad.methods.DirectCoreset",
    ),
    "matrices": (
        "Matrices and clusters",
        "fedwad.matrix fedwad.MatrixResult fedwad.compare.answers.Heterogeneity"
        " fedwad.compare.answers.Eccentricity fedwad.Placement Clusters:"
        " fedwad.compare.clusters.cluster fedwad.compare.clusters.suggest"
        " fedwad.compare.clusters.stability fedwad.compare.clusters.Suggestion"
        " Thousands-of-sites: fedwad.embed fedwad.EmbeddingResult Table-1: fedwad.columns"
        " fedwad.ColumnsResult fedwad.compare.table_one.TableColumn fedwad.compare.SiteColumn",
    ),
    "drift": ("Drift", "fedwad.Reference fedwad.DriftResult"),
    "coresets": (
        "Coresets",
        "fedwad.coreset fedwad.CoresetResult fedwad.CoresetRound Barycenters: fedwad.barycenter"
        " fedwad.BarycenterResult fedwad.BarycenterRound The-classifier: fedwad.CoresetClassifier",
    ),
    "learning": (
        "Learning",
        "fedwad.learning.train fedwad.learning.TrainingOptions fedwad.learning.TrainingResult",
    ),
    "federation": (
        "Federation and policy",
        "fedwad.local fedwad.Policy fedwad.federation.open_client fedwad.federation.Journal",
    ),
    "privacy": ("Privacy", "fedwad.DP fedwad.privacy.plan fedwad.audit fedwad.AuditResult"),
    "tables": (
        "Tables and schemas",
        "fedwad.tables.read_table fedwad.tables.profile fedwad.tables.agree fedwad.schema"
        " fedwad.Schema",
    ),
    "datasets": ("Datasets", "fedwad.datasets.load fedwad.datasets.partition"),
    "reports": ("Reports", "fedwad.report.write_report"),
}
CLASSES = [
    name for name, kind in inspect.getmembers(errors, inspect.isclass) if name.endswith("Error")
]


def python(name: str) -> str:
    """A page of the Python reference, whose text comes from docstrings."""
    title, names = PYTHON[name]
    lines = [f"# {title}", ""]
    for one in names.split():
        lines += [f"\n## {one[:-1].replace('-', ' ')}\n" if one.endswith(":") else f"::: {one}"]
    return "\n".join(lines)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those that were found."""
    from mkdocs.structure.files import File

    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    return files


def commands() -> str:
    """All commands by what users want to do, with their options."""
    lines = ["# Commands", "", "*Which command, and with which options?*", ""]
    lines += ["All take `--help`; `fedwad --install-completion` sets up tab completion.", ""]
    for part, entries in PARTS.items():
        lines += [f"## {part}", ""]
        for name, entry in entries.items():
            command = load(name, entry)
            members = getattr(command, "commands", None)
            for words, one in (
                [(f"{name} {w}", c) for w, c in members.items()] if members else [(name, command)]
            ):
                lines += [f"### fedwad {words}", "", one.help or "", ""]
                lines += ["| option | what it does |", "|---|---|"]
                for option in one.params:
                    flags = ", ".join(f"`{flag}`" for flag in option.opts)
                    text = (getattr(option, "help", "") or "").replace("|", "\\|")
                    lines.append(f"| {flags} | {text} |")
                lines.append("")
    return "\n".join(lines)


def policy() -> str:
    """The keys of a policy file, from the docstring of `fedwad.Policy`, with their defaults."""
    text = inspect.getdoc(fedwad.Policy) or ""
    defaults = {field.name: field.default for field in dataclasses.fields(fedwad.Policy)}
    lines = ["# Policy keys", "", "*What can a site allow, and what is allowed by default?*", ""]
    lines += ["| key | default | what it says |", "|---|---|---|"]
    found = re.findall(r"^(\w[\w, ]*) : (.*?)(?=^\w[\w, ]* : |\Z)", text, re.DOTALL | re.MULTILINE)
    for names, about in found:
        values = ", ".join(f"`{defaults[name]!r}`" for name in names.split(", "))
        lines.append(f"| `{names}` | {values} | {' '.join(about.split())} |")
    return "\n".join(lines)


def messages() -> str:
    """Each kind of request, and what its reply holds."""
    lines = ["# Messages", "", "*What exactly can leave a site?*", ""]
    lines += ["Each request is of one of these kinds; nothing else is answered.", ""]
    for one in sorted(REQUESTS, key=lambda one: one.__name__):
        about = " ".join((inspect.getdoc(one) or "").split("\n\n")[0].split())
        reply = " ".join((inspect.getdoc(one.reply_type) or "").split("\n\n")[0].split())
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(one.reply_type))
        lines += [f"## {one.kind}: {one.__name__}", "", about, "", f"Reply: {reply}"]
        lines += [f"It holds {fields}.", ""]
    return "\n".join(lines)


def error_codes() -> str:
    """The classes of errors, and each code with one of its sentences."""
    found: dict[str, tuple[str, str]] = {}
    for kind, sentence, codes in raised():
        for code in codes:
            longest = found.get(code)
            if longest is None or len(sentence) > len(longest[1]):
                found[code] = kind, sentence
    lines = ["# Errors", "", "*What can be raised, and how does a program tell errors apart?*", ""]
    lines += [
        "A message is one sentence, which may be reworded; look at the class and its `code`:",
        "",
        "```python",
        "import fedwad",
        "",
        "try:",
        '    fedwad.distance("paris.csv", "oslo.csv")',
        "except fedwad.InputError as error:",
        '    if error.code == "unknown-column":',
        "        ...",
        "```",
        "",
    ]
    lines += [f"::: fedwad.{name}" for name in (*sorted(CLASSES), "DataWarning")]
    lines += ["", "## Codes", "", "| `code` | class | such as |", "|---|---|---|"]
    for code, (kind, sentence) in sorted(found.items()):
        text = " ".join(sentence.split()).replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| `{code}` | `{kind}` | {text or 'from the failure of a site'} |")
    return "\n".join(lines)


def raised(*folders: Path) -> Iterator[tuple[str, str, set[str]]]:
    """Each error that these folders make (the package, if none is given): its class, its sentence,
    and the codes that it can have.

    ValueError if an error is made without a code, or with one that cannot be told.
    """
    folders = folders or (Path(fedwad.__file__).parent,)
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            kind = getattr(call.func, "id", getattr(call.func, "attr", ""))
            where = f"{path}:{call.lineno}"
            if kind in CLASSES:
                _need(len(call.args) == 2, f"{where}: give the sentence and the code")
                yield kind, _sentence(call.args[0]), _codes(call.args[1], path, where)
            elif kind == "Failure":
                # An error of a site has a code; its silence and the like have none.
                made = ("input", "policy", "federation", "certificate")
                of_error = getattr(call.args[0], "value", "") in made
                _need(len(call.args) == 3 or not of_error, f"{where}: give the error's code too")
                codes = {str(one.value) for one in call.args[2:] if isinstance(one, ast.Constant)}
                yield "FederationError", _sentence(call.args[1]), codes
    for code in message._ERRORS.values():
        yield "FederationError", "", {code}


def _sentence(node: ast.expr) -> str:
    """The text of a sentence, with three dots for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_sentence(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _sentence(node.left) + _sentence(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "..."


def _codes(node: ast.expr, path: Path, where: str) -> set[str]:
    """The codes that an argument can be; that of another error is checked where that is made."""
    if isinstance(node, ast.Constant):
        return {str(node.value)}
    if isinstance(node, ast.IfExp):
        return _codes(node.body, path, where) | _codes(node.orelse, path, where)
    if isinstance(node, ast.Name):  # a variable, of literals only
        given = re.findall(rf"\b{node.id}(?:, \w+)? = (.*)", path.read_text(encoding="utf-8"))
        _need(bool(given) and all(value.startswith('"') for value in given), where)
        return {value.split('"')[1] for value in given}
    _need(getattr(node, "attr", "") in ("code", "error"), where)
    return set()


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


#: What makes each page.
PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands,
    "reference/policy.md": policy,
    "reference/messages.md": messages,
    "api/errors.md": error_codes,
} | {f"api/{name}.md": partial(python, name) for name in PYTHON}
