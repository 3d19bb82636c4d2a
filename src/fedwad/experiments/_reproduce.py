"""Running an experiment: each task is measured and kept, then table, figures and claims are
written."""

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
    """How far an experiment is: tasks done and all, and the seconds that the rest will take (None:
    not known yet)."""

    done: int
    total: int
    remaining: float | None


@dataclass(frozen=True)
class Outcome:
    """What an experiment left behind."""

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
class _Measured:
    """What was measured for one task, in how many seconds, and on which machine."""

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
    """Measure what is not measured yet, and write everything into `out`/name (name-quick for the
    quick version).

    Each task's rows are appended to rows.jsonl at once, so an interrupted run continues where it
    stopped. `fresh` deletes earlier rows. Rows of a different version of fedwad are an error. Tasks
    that this machine leaves out are reported; rows that another machine measured are used.
    """
    folder = Path(out) / (experiment.name + ("-quick" if quick else ""))
    _make_folder(folder)
    journal = folder / "rows.jsonl"
    if fresh:
        journal.unlink(missing_ok=True)
    tasks = list(experiment.tasks(quick))
    measured = _read_measured(journal)
    waiting, left_out = _tasks_to_measure(experiment, tasks, measured)
    _measure(experiment, tasks, waiting, measured, journal, progress or (lambda _: None))
    results = [measured[_key(task)] for task in tasks if _key(task) in measured]
    if not results:
        raise InputError(" ".join(left_out))
    return _write_results(experiment, folder, results, quick, left_out)


def _tasks_to_measure(
    experiment: Experiment, tasks: Sequence[Settings], measured: Mapping[str, _Measured]
) -> tuple[list[Settings], tuple[str, ...]]:
    """The tasks to measure, and a sentence for each reason to leave others out."""
    missing = [task for task in tasks if _key(task) not in measured]
    reasons = [experiment.skip_reason(**task) for task in missing]
    waiting = [task for task, reason in zip(missing, reasons, strict=True) if reason is None]
    return waiting, tuple(
        f"{count} of {len(tasks)} tasks were left out: {reason}"
        for reason, count in Counter(filter(None, reasons)).items()
    )


def _measure(
    experiment: Experiment,
    tasks: Sequence[Settings],
    waiting: Sequence[Settings],
    measured: dict[str, _Measured],
    journal: Path,
    progress: Callable[[Progress], None],
) -> None:
    """Measure the waiting tasks, and keep each at once."""
    spent = [measured[_key(task)].seconds for task in tasks if _key(task) in measured]
    for number, task in enumerate(waiting):
        rest = sum(spent) / len(spent) * (len(waiting) - number) if spent else None
        progress(Progress(len(tasks) - len(waiting) + number, len(tasks), rest))
        start = time.perf_counter()
        rows = [task | row for row in experiment.measure(**task)]
        result = _Measured(rows, round(time.perf_counter() - start, 3), _machine())
        spent.append(result.seconds)
        measured[_key(task)] = result
        _append(journal, task, result)
    progress(Progress(len(tasks), len(tasks), 0.0))


def _write_results(
    experiment: Experiment,
    folder: Path,
    results: Sequence[_Measured],
    quick: bool,
    left_out: tuple[str, ...],
) -> Outcome:
    rows = [row for one in results for row in one.rows]
    seconds = sum(one.seconds for one in results)
    files = ["table.csv"]
    write_atomically(folder / "table.csv", _table(rows))
    for name, figure in experiment.draw(rows).items():
        for ending in ("svg", "png"):
            write_atomically(folder / f"{name}.{ending}", render(figure, ending, dpi=110))
            files.append(f"{name}.{ending}")
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


def _machines(results: Sequence[_Measured]) -> list[dict[str, Any]]:
    """The machines that measured, each with its number of tasks and its seconds."""
    machines: dict[str, dict[str, Any]] = {}
    for one in results:
        entry = machines.setdefault(_key(one.machine), {**one.machine, "tasks": 0, "seconds": 0.0})
        entry["tasks"] += 1
        entry["seconds"] = round(entry["seconds"] + one.seconds, 1)
    return list(machines.values())


def _machine() -> dict[str, Any]:
    machine: dict[str, Any] = {"system": platform.system(), "processor": platform.machine()}
    machine["cores"] = os.cpu_count()
    torch = sys.modules.get("torch")  # where it was not needed, no GPU was either
    if torch is not None and torch.cuda.is_available():
        machine |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    return machine


def _table(rows: Sequence[Row]) -> str:
    """The rows as CSV, without the lists, which are for the figures."""
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


def _key(task: Settings) -> str:
    return json.dumps(task, sort_keys=True)


def _append(journal: Path, task: Settings, measured: _Measured) -> None:
    line = json.dumps({"version": fedwad.__version__, "task": task, **asdict(measured)})
    with journal.open("ab") as file:
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _read_measured(journal: Path) -> dict[str, _Measured]:
    measured: dict[str, _Measured] = {}
    if not journal.exists():
        return measured
    text = journal.read_bytes()
    if text and not text.endswith(b"\n"):  # cut by an interruption: that task is measured again
        text = text[: text.rfind(b"\n") + 1]
        write_atomically(journal, text)
    for line in text.splitlines():
        try:
            record = json.loads(line)
            written, machine = record["version"], dict(record.get("machine", _machine()))
            result = _Measured(record["rows"], float(record["seconds"]), machine)
            key = _key(record["task"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{journal} is damaged; start again with --fresh.") from None
        if written != fedwad.__version__:
            raise InputError(
                f"{journal} was written by fedwad {written}; start again with --fresh."
            )
        measured[key] = result
    return measured
