"""The first answer of a process beside what importing pandas and scikit-learn takes."""

from __future__ import annotations

import resource
import subprocess
import sys

from fedwad.datasets import load

__all__ = ["first_answer"]


def first_answer(runs: int = 3) -> list[dict[str, object]]:
    """Processor seconds of whole processes, the least of several, after one that fills caches."""
    files = [str(path) for path in load("heart").values()]
    commands = {
        "import pandas, sklearn": ["-c", "import pandas, sklearn"],
        "fedwad --help": ["-m", "fedwad", "--help"],
        "fedwad matrix, four hospitals": ["-m", "fedwad", "matrix", *files],
    }
    seconds = {
        name: min(_seconds(words) for _ in range(runs + 1)) for name, words in commands.items()
    }
    beside = seconds["import pandas, sklearn"]
    return [
        {"process": name, "processor s": round(found, 2), "ratio": round(found / beside, 2)}
        for name, found in seconds.items()
    ]


def _seconds(words: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], capture_output=True, check=False)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    for row in first_answer():
        print(*row.values(), sep="\t")
