"""Run an experiment: measure its tasks one by one, then write the table, the figures and the
claims."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import fedwad
from fedwad._files import write_atomically
from fedwad.errors import InputError
from fedwad.experiments._experiment import Claim, Experiment, Row, Settings
from fedwad.report.pictures import render

__all__ = ["Outcome", "Progress", "run"]

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
    """What an experiment wrote and found; `left_out` has a sentence for each reason to leave tasks
    out."""

    name: str
    title: str
    folder: Path
    files: tuple[str, ...]
    claims: tuple[Claim, ...]
    seconds: float
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder), "files": list(self.files)}


@dataclass(frozen=True)
class _TaskResult:
    """The rows of one task, the seconds that it took, and the machine that measured it."""

    rows: list[Row]
    seconds: float
    machine: dict[str, Any]


def run(
    experiment: Experiment,
    out: str | Path,
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Measure the tasks that have no rows yet, and write everything into `out`/name (name-quick for
    the quick version).

    The rows of a task are appended to rows.jsonl as soon as they are measured, so an interrupted
    run continues where it stopped. `fresh` deletes earlier rows. Rows of a different version of
    fedwad are an error. Rows that another machine measured are used. Tasks without rows that this
    machine cannot measure are left out, and the outcome says so.
    """
    folder = Path(out) / (experiment.name + ("-quick" if quick else ""))
    _make_folder(folder)
    rows_file = folder / "rows.jsonl"
    if fresh:
        rows_file.unlink(missing_ok=True)
    tasks = list(experiment.tasks(quick))
    results = _read_results(rows_file)
    to_measure, left_out = _tasks_to_measure(experiment, tasks, results)
    _measure(experiment, tasks, to_measure, results, rows_file, progress or (lambda _: None))
    in_order = [results[_key(task)] for task in tasks if _key(task) in results]
    if not in_order:
        raise InputError(" ".join(left_out))
    return _write_outcome(experiment, folder, in_order, quick, left_out)


def _tasks_to_measure(
    experiment: Experiment, tasks: Sequence[Settings], results: Mapping[str, _TaskResult]
) -> tuple[list[Settings], tuple[str, ...]]:
    """The tasks to measure, and a sentence for each reason to leave others out."""
    missing = [task for task in tasks if _key(task) not in results]
    reasons = [experiment.skip_reason(**task) for task in missing]
    to_measure = [task for task, reason in zip(missing, reasons, strict=True) if reason is None]
    return to_measure, tuple(
        f"{count} of {len(tasks)} tasks were left out: {reason}"
        for reason, count in Counter(filter(None, reasons)).items()
    )


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
    quick: bool,
    left_out: tuple[str, ...],
) -> Outcome:
    rows = [row for result in results for row in result.rows]
    seconds = sum(result.seconds for result in results)
    files = ["table.csv"]
    write_atomically(folder / "table.csv", _table(rows))
    for name, figure in experiment.draw(rows).items():
        for suffix in ("svg", "png"):
            write_atomically(folder / f"{name}.{suffix}", render(figure, suffix, dpi=110))
            files.append(f"{name}.{suffix}")
    claims = tuple(experiment.judge(rows))
    facts = {
        "experiment": experiment.name,
        "title": experiment.title,
        "command": f"fedwad reproduce {experiment.name}{' --quick' if quick else ''}",
        "seconds": round(seconds, 1),
        "versions": _versions(),
        "machines": _machines(results),
        "claims": [asdict(claim) for claim in claims],
        **({"left out": list(left_out)} if left_out else {}),
    }
    write_atomically(folder / "facts.json", json.dumps(facts, indent=2) + "\n")
    return Outcome(
        experiment.name, experiment.title, folder, (*files, "facts.json"), claims, seconds, left_out
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
            f"{folder} cannot be made ({error.strerror}); choose another --out."
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
            raise InputError(f"{rows_file} is damaged; start again with --fresh.") from None
        if file_version != fedwad.__version__:
            raise InputError(
                f"{rows_file} was written by fedwad {file_version}; start again with --fresh."
            )
        results[key] = result
    return results
