"""What an experiment is, how one is run, and what the figures of all share.

An experiment has settings to measure, and makes figures and judged claims of the rows. A row is one
measurement: the settings of its task, and what was measured.
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import fedwad
from fedwad._files import new_figure, write_atomically
from fedwad.compare.plots import write_figure
from fedwad.errors import InputError
from fedwad.transport import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


NAMES = ("t", "toy", "scaling", "coresets", "classifier", "otdd", "matrices", "boosting")

#: "quick": a trial that judges nothing. "reduced": what a CPU does in minutes. "whole": the paper's
#: sizes, as far as they were ever run here.
Size = Literal["quick", "reduced", "whole"]
Settings = dict[str, Any]
Row = dict[str, Any]
#: Figures by file name without suffix.
Figures = Mapping[str, "Figure"]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether it held here (None if these rows cannot tell), and what we
    found."""

    text: str
    holds: bool | None
    found: str


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper.

    Parameters
    ----------
    name, title : the name on the command line, and what the experiment shows
    tasks : function of the size of the run that returns the settings to measure
    measure : function that takes the settings of one task as keywords and returns its rows
    draw : function of all rows that returns the figures
    judge : function of all rows that returns the paper's claims with verdicts
    data : names of the datasets that the experiment needs, for `paper.data.load`
    smaller : what is smaller than in the paper in a run of reduced size, as a sentence
    """

    name: str
    title: str
    tasks: Callable[[Size], Sequence[Settings]]
    measure: Callable[..., list[Row]]
    draw: Callable[[Sequence[Row]], Figures]
    judge: Callable[[Sequence[Row]], list[Claim]]
    data: tuple[str, ...] = ()
    smaller: str = ""


def pick(rows: Sequence[Row], **values: Any) -> list[Row]:
    """The rows that have these values in the columns of these names."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def mean_by(rows: Sequence[Row], x: str, y: str) -> tuple[list[Any], list[float]]:
    """The values of column `x` in ascending order, and the mean of column `y` at each.

    Rows without a value of `y` do not count.
    """
    complete = [row for row in rows if row.get(y) is not None]
    xs = sorted({row[x] for row in complete})
    return xs, [float(np.mean([row[y] for row in complete if row[x] == at])) for at in xs]


def has_cuda() -> bool:
    """Whether PyTorch is installed and finds a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


_PACKAGES = ("numpy", "scipy", "numba", "POT", "scikit-learn", "torch")


@dataclass(frozen=True)
class Progress:
    """How far an experiment is: the number of tasks done, that of all tasks, and an estimate of the
    seconds that remain (None if no task was measured yet)."""

    done: int
    total: int
    remaining: float | None


@dataclass(frozen=True)
class Outcome:
    """What an experiment wrote and found; `smaller` says what is smaller than in the paper."""

    name: str
    title: str
    folder: Path
    files: tuple[str, ...]
    claims: tuple[Claim, ...]
    seconds: float
    smaller: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder), "files": list(self.files)}


@dataclass(frozen=True)
class _TaskResult:
    """The rows of one task, the seconds that it took, and the machine that measured it."""

    rows: list[Row]
    seconds: float
    machine: dict[str, Any]


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in NAMES:
        raise InputError(
            f"There is no experiment {name!r}; choose {', '.join(NAMES)} or all.",
            "unknown-experiment",
        )
    chosen: Experiment = import_module(f"paper.{name}").EXPERIMENT
    return chosen


def run(
    experiment: Experiment,
    out: str | Path,
    size: Size = "reduced",
    fresh: bool = False,
    t: float | Literal["own", "random"] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Measure the tasks that have no rows yet, and write everything into `out`/name (name-quick for
    the quick version). `t` replaces the position of tasks; if none has one, that is an error.

    The rows of a task are appended to rows.jsonl as soon as they are measured, so an interrupted
    run continues where it stopped. `fresh` deletes earlier rows. Rows of a different version of
    fedwad are an error. Rows that another machine measured are used. A quick run judges nothing.
    """
    tasks = experiment.tasks(size)
    if t is not None:
        if not any("t" in task for task in tasks):
            raise InputError(
                f"{experiment.name} of this size has no t to set; leave --t {t} out.", "no-t"
            )
        tasks = [task | {"t": t} if "t" in task else task for task in tasks]
    folder = Path(out) / (experiment.name + ("-quick" if size == "quick" else ""))
    _make_folder(folder)
    rows_file = folder / "rows.jsonl"
    if fresh:
        rows_file.unlink(missing_ok=True)
    results = _read_results(rows_file)
    to_measure = [task for task in tasks if _key(task) not in results]
    _measure(experiment, tasks, to_measure, results, rows_file, progress or (lambda _: None))
    words = {"quick": " --quick", "reduced": "", "whole": " --whole"}[size]
    words += "" if t is None else f" --t {t}"
    return _write_outcome(experiment, folder, [results[_key(task)] for task in tasks], size, words)


def _measure(
    experiment: Experiment,
    tasks: Sequence[Settings],
    to_measure: Sequence[Settings],
    results: dict[str, _TaskResult],
    rows_file: Path,
    progress: Callable[[Progress], None],
) -> None:
    """Measure some of the tasks, and add each result to `results` and to the file of rows."""
    durations = [results[_key(task)].seconds for task in tasks if _key(task) in results]
    for number, task in enumerate(to_measure):
        mean = sum(durations) / len(durations) if durations else None
        remaining = None if mean is None else mean * (len(to_measure) - number)
        progress(Progress(len(tasks) - len(to_measure) + number, len(tasks), remaining))
        start = time.perf_counter()
        rows = [task | row for row in experiment.measure(**task)]
        result = _TaskResult(rows, round(time.perf_counter() - start, 3), _machine())
        durations.append(result.seconds)
        results[_key(task)] = result
        _append(rows_file, task, result)
    progress(Progress(len(tasks), len(tasks), 0.0))


def _write_outcome(
    experiment: Experiment,
    folder: Path,
    results: Sequence[_TaskResult],
    size: Size,
    words: str,
) -> Outcome:
    rows = [row for result in results for row in result.rows]
    seconds = sum(result.seconds for result in results)
    files = ["table.csv"]
    write_atomically(folder / "table.csv", _table(rows))
    for name, figure in experiment.draw(rows).items():
        for suffix in ("svg", "png"):
            write_figure(figure, folder / f"{name}.{suffix}", dpi=110)
            files.append(f"{name}.{suffix}")
    claims = () if size == "quick" else tuple(experiment.judge(rows))
    smaller = {"quick": "A quick run: it judges nothing.", "reduced": experiment.smaller}.get(
        size, ""
    )
    facts = {
        "experiment": experiment.name,
        "title": experiment.title,
        "command": f"python -m paper {experiment.name}{words}",
        "seconds": round(seconds, 1),
        "versions": _versions(),
        "machines": _machines(results),
        "claims": [asdict(claim) for claim in claims],
        **({"smaller": smaller} if smaller else {}),
    }
    write_atomically(folder / "facts.json", json.dumps(facts, indent=2) + "\n")
    return Outcome(
        experiment.name, experiment.title, folder, (*files, "facts.json"), claims, seconds, smaller
    )


def _machines(results: Sequence[_TaskResult]) -> list[dict[str, Any]]:
    """The machines that measured, each with its number of tasks and its seconds."""
    machines: dict[str, dict[str, Any]] = {}
    for result in results:
        new = {**result.machine, "tasks": 0, "seconds": 0.0}
        entry = machines.setdefault(_key(result.machine), new)
        entry["tasks"] += 1
        entry["seconds"] = round(entry["seconds"] + result.seconds, 1)
    return list(machines.values())


def _machine() -> dict[str, Any]:
    """This machine, with its GPU if a task may have used it."""
    machine: dict[str, Any] = {"system": platform.system(), "processor": platform.machine()}
    machine["cores"] = os.cpu_count()
    torch = sys.modules.get("torch")  # if it is not loaded, no GPU was used
    if torch is not None and torch.cuda.is_available():
        machine |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    return machine


def _table(rows: Sequence[Row]) -> str:
    """The rows as CSV. Lists are left out; only figures need them."""
    plain = [{k: v for k, v in row.items() if not isinstance(v, list)} for row in rows]
    text = io.StringIO()
    columns = dict.fromkeys(key for row in plain for key in row)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in plain:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    return text.getvalue()


def _versions() -> dict[str, str]:
    versions = {"fedwad": fedwad.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be made ({error.strerror}); choose another --out.",
            "unwritable-folder",
        ) from None


def _key(settings: Settings) -> str:
    """Text that is the same for equal settings."""
    return json.dumps(settings, sort_keys=True)


def _append(rows_file: Path, task: Settings, result: _TaskResult) -> None:
    line = json.dumps({"version": fedwad.__version__, "task": task, **asdict(result)})
    with rows_file.open("ab") as file:
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _read_results(rows_file: Path) -> dict[str, _TaskResult]:
    """The results in the file of rows, by the key of their tasks."""
    results: dict[str, _TaskResult] = {}
    if not rows_file.exists():
        return results
    text = rows_file.read_bytes()
    if text and not text.endswith(b"\n"):  # an interruption cut the last line: measure it again
        text = text[: text.rfind(b"\n") + 1]
        write_atomically(rows_file, text)
    for line in text.splitlines():
        try:
            record = json.loads(line)
            file_version, machine = record["version"], dict(record.get("machine", _machine()))
            result = _TaskResult(record["rows"], float(record["seconds"]), machine)
            key = _key(record["task"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{rows_file} is damaged; start again with --fresh.", "damaged-rows"
            ) from None
        if file_version != fedwad.__version__:
            raise InputError(
                f"{rows_file} was written by fedwad {file_version}; start again with --fresh.",
                "other-version",
            )
        results[key] = result
    return results


#: In all figures: the paper's method, ours, the exact distance.
PAPER_COLOUR, OUR_COLOUR, EXACT_COLOUR = "#c1440e", "#1f6f8b", "#222222"


def subplots(rows: int, columns: int, panel_size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure, and its panels row by row; the size of a panel is (width, height) in inches."""
    width, height = panel_size
    figure = new_figure(width * columns, height * rows)
    panels = list(np.ravel(figure.subplots(rows, columns)))
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(True, alpha=0.2)
    return figure, panels


def plot_means(
    panel: Axes, rows: Sequence[Row], x: str, y: str, style: str, **options: Any
) -> None:
    """Plot the mean of column `y` at each value of column `x`."""
    panel.plot(*mean_by(rows, x, y), style, **options)


def legend_below(figure: Figure, curves: Any, columns: int, fontsize: int = 8) -> None:
    """Put one legend for these curves below all panels."""
    options: dict[str, Any] = {"ncols": columns, "fontsize": fontsize, "frameon": False}
    figure.legend(handles=curves, loc="outside lower center", **options)


def square_matrix(values: Sequence[float] | Floats, size: int) -> Floats:
    """The symmetric matrix with these values above its diagonal, row by row.

    The diagonal is NaN, so figures leave it blank.
    """
    square = np.full((size, size), np.nan)
    above_diagonal = np.triu_indices(size, 1)
    square[above_diagonal] = square.T[above_diagonal] = values
    return square
