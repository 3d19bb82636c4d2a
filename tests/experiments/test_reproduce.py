"""Experiments: measured once, resumable, written whole, and judged by what was measured."""

import csv
import json
import subprocess
import sys

import pytest

import fedwad
from fedwad.errors import InputError
from fedwad.experiments import NAMES, Claim, Experiment, experiment, reproduce
from fedwad.experiments._experiment import axes, mean_by, pick
from fedwad.experiments._reproduce import run


def counting(calls, fail_at=None):
    """An experiment that notes what it is asked to measure, and may break down on the way."""

    def measure(number):
        if number == fail_at:
            raise KeyboardInterrupt
        calls.append(number)
        return [{"square": float(number**2)}]

    def draw(rows):
        figure, (panel,) = axes()
        panel.plot(*mean_by(rows, "number", "square"))
        return {"squares": figure}

    def judge(rows):
        largest = max(row["square"] for row in rows)
        return [Claim("Squares grow.", largest > 1, f"up to {largest:g}")]

    def tasks(quick):
        return [{"number": number} for number in range(3 if quick else 5)]

    return Experiment("squares", "Squares of numbers", tasks, measure, draw, judge)


def command(*arguments):
    words = [sys.executable, "-m", "fedwad", "reproduce", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)


class TestRun:
    def test_everything_is_written(self, tmp_path):
        outcome = run(counting([]), tmp_path)
        assert outcome.folder == tmp_path / "squares"
        assert set(outcome.files) == {"table.csv", "squares.svg", "squares.png", "facts.json"}
        with (outcome.folder / "table.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [(row["number"], row["square"]) for row in rows] == [(str(k), str(k * k)) for k in range(5)]
        facts = json.loads((outcome.folder / "facts.json").read_text())
        assert facts["claims"] == [{"text": "Squares grow.", "holds": True, "found": "up to 16"}]
        assert facts["versions"]["fedwad"] == fedwad.__version__
        assert facts["command"] == "fedwad reproduce squares"
        assert (outcome.folder / "squares.png").read_bytes().startswith(b"\x89PNG")

    def test_an_interrupted_run_goes_on_where_it_was(self, tmp_path):
        calls = []
        with pytest.raises(KeyboardInterrupt):
            run(counting(calls, fail_at=3), tmp_path)
        assert calls == [0, 1, 2]
        run(counting(calls), tmp_path)
        assert calls == [0, 1, 2, 3, 4]

    def test_a_line_cut_short_is_measured_again(self, tmp_path):
        calls = []
        outcome = run(counting(calls), tmp_path)
        journal = outcome.folder / "rows.jsonl"
        journal.write_bytes(journal.read_bytes()[:-7])
        calls.clear()
        again = run(counting(calls), tmp_path)
        assert calls == [4]
        assert again.claims == outcome.claims
        assert len(journal.read_text().splitlines()) == 5

    def test_a_fresh_run_forgets(self, tmp_path):
        calls = []
        run(counting(calls), tmp_path)
        run(counting(calls), tmp_path, fresh=True)
        assert calls == [0, 1, 2, 3, 4] * 2

    def test_quick_and_full_do_not_mix(self, tmp_path):
        calls = []
        quick = run(counting(calls), tmp_path, quick=True)
        full = run(counting(calls), tmp_path)
        assert quick.folder != full.folder
        assert calls == [0, 1, 2, 0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("line", "sentence"),
        [
            ("no json\n", "is damaged; start again with --fresh"),
            ('{"version": "0.0.1", "task": {}, "rows": [], "seconds": 1}\n', "written by fedwad 0.0.1"),
        ],
    )
    def test_rows_of_something_else_are_refused(self, tmp_path, line, sentence):
        outcome = run(counting([]), tmp_path)
        with (outcome.folder / "rows.jsonl").open("a") as file:
            file.write(line)
        with pytest.raises(InputError, match=sentence):
            run(counting([]), tmp_path)

    def test_progress_tells_what_is_left(self, tmp_path):
        steps = []
        run(counting([]), tmp_path, progress=steps.append)
        assert [step.done for step in steps] == [0, 1, 2, 3, 4, 5]
        assert {step.total for step in steps} == {5}
        assert steps[0].remaining is None
        assert steps[-1].remaining == 0
        assert all(step.remaining >= 0 for step in steps[1:])

    def test_a_place_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="choose another --out"):
            run(counting([]), tmp_path / "file")


class TestNames:
    @pytest.mark.parametrize("name", NAMES)
    def test_each_experiment_has_tasks_that_can_be_kept(self, name):
        found = experiment(name)
        assert found.name == name
        for quick in (True, False):
            tasks = found.tasks(quick)
            keys = {json.dumps(task, sort_keys=True) for task in tasks}
            assert len(keys) == len(tasks) > 0
        assert len(found.tasks(True)) < len(found.tasks(False)) or found.tasks(True) != found.tasks(False)

    def test_an_unknown_one(self):
        with pytest.raises(InputError, match="There is no experiment 'tor'; choose toy"):
            reproduce("tor")

    def test_an_unknown_one_on_the_command_line(self, tmp_path):
        done = command("tor", "--out", tmp_path)
        assert done.returncode == 2
        assert "There is no experiment 'tor'" in done.stderr
        assert not list(tmp_path.iterdir())


def test_pick_and_mean():
    rows = [{"a": 1, "b": 2.0}, {"a": 1, "b": 4.0}, {"a": 0, "b": 1.0}, {"a": 2, "b": None}]
    assert pick(rows, a=1) == rows[:2]
    assert mean_by(rows, "a", "b") == ([0, 1], [1.0, 3.0])


@pytest.mark.slow
def test_the_papers_toy_on_the_command_line(tmp_path):
    done = command("toy", "--quick", "--json", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    (outcome,) = json.loads(done.stdout)["experiments"]
    assert [claim["holds"] for claim in outcome["claims"]] == [True, True, False]
    assert (tmp_path / "toy-quick" / "toy.svg").exists()
