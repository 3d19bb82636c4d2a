"""Experiments: measured once, resumable, written whole, and judged by what was measured."""

import csv
import json
import subprocess
import sys

import pytest

import fedwad
from fedwad.errors import InputError
from fedwad.experiments import NAMES, Claim, Experiment, experiment, reproduce
from fedwad.experiments._experiment import mean_by, pick
from fedwad.experiments._plots import subplots
from fedwad.experiments._reproduce import run


def counting(calls, fail_at=None, too_large=99):
    """An experiment that notes what it is asked to measure, may break down on the way, and may
    leave tasks out."""

    def measure(number):
        if number == fail_at:
            raise KeyboardInterrupt
        calls.append(number)
        return [{"square": float(number**2)}]

    def draw(rows):
        figure, (panel,) = subplots(1, 1, panel_size=(4.6, 3.4))
        panel.plot(*mean_by(rows, "number", "square"))
        return {"squares": figure}

    def judge(rows):
        largest = max(row["square"] for row in rows)
        return [Claim("Squares grow.", largest > 1, f"up to {largest:g}")]

    def tasks(quick):
        return [{"number": number} for number in range(3 if quick else 5)]

    def skip_reason(number):
        return f"numbers from {too_large} on are too large." if number >= too_large else None

    return Experiment(
        "squares", "Squares of numbers", tasks, measure, draw, judge, skip_reason=skip_reason
    )


def command(*arguments):
    words = [sys.executable, "-m", "fedwad", "reproduce", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)


class TestRun:
    def test_the_same_rows_give_the_same_files(self, tmp_path):
        first, second = (run(counting([]), tmp_path / name) for name in ("first", "second"))
        for name in ("table.csv", "squares.svg", "squares.png"):
            assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()

    def test_everything_is_written(self, tmp_path):
        outcome = run(counting([]), tmp_path)
        assert outcome.folder == tmp_path / "squares"
        assert set(outcome.files) == {"table.csv", "squares.svg", "squares.png", "facts.json"}
        with (outcome.folder / "table.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [(row["number"], row["square"]) for row in rows] == [
            (str(k), str(k * k)) for k in range(5)
        ]
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
        rows_file = outcome.folder / "rows.jsonl"
        rows_file.write_bytes(rows_file.read_bytes()[:-7])
        calls.clear()
        again = run(counting(calls), tmp_path)
        assert calls == [4]
        assert again.claims == outcome.claims
        assert len(rows_file.read_text().splitlines()) == 5

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
            (
                '{"version": "0.0.1", "task": {}, "rows": [], "seconds": 1}\n',
                "written by fedwad 0.0.1",
            ),
        ],
    )
    def test_rows_of_something_else_are_refused(self, tmp_path, line, sentence):
        outcome = run(counting([]), tmp_path)
        with (outcome.folder / "rows.jsonl").open("a") as file:
            file.write(line)
        with pytest.raises(InputError, match=sentence):
            run(counting([]), tmp_path)

    def test_progress_says_what_is_left(self, tmp_path):
        steps = []
        run(counting([]), tmp_path, progress=steps.append)
        assert [step.done for step in steps] == [0, 1, 2, 3, 4, 5]
        assert {step.total for step in steps} == {5}
        assert steps[0].remaining is None
        assert steps[-1].remaining == 0
        assert all(step.remaining >= 0 for step in steps[1:])

    def test_what_is_left_out_is_stated(self, tmp_path):
        calls, steps = [], []
        outcome = run(counting(calls, too_large=3), tmp_path, progress=steps.append)
        assert calls == [0, 1, 2]
        assert outcome.left_out == ("2 of 5 tasks were left out: numbers from 3 on are too large.",)
        facts = json.loads((outcome.folder / "facts.json").read_text())
        assert facts["left out"] == list(outcome.left_out)
        assert facts["claims"][0]["found"] == "up to 4"
        assert (steps[-1].done, steps[-1].total) == (5, 5)

    def test_what_another_machine_has_measured_is_used(self, tmp_path):
        outcome = run(counting([]), tmp_path)
        rows_file = outcome.folder / "rows.jsonl"
        lines = [json.loads(line) for line in rows_file.read_text().splitlines()]
        lines[4]["machine"] = {"system": "Elsewhere", "gpu": "a large one"}
        lines[4]["seconds"] = 7.5
        rows_file.write_text("".join(json.dumps(line) + "\n" for line in lines[3:]))
        calls = []
        again = run(counting(calls, too_large=3), tmp_path)
        assert calls == [0, 1, 2]
        assert again.left_out == ()
        assert again.claims == outcome.claims
        here, there = json.loads((again.folder / "facts.json").read_text())["machines"]
        assert (here["tasks"], there["tasks"]) == (4, 1)
        assert there == {"system": "Elsewhere", "gpu": "a large one", "tasks": 1, "seconds": 7.5}

    def test_nothing_can_be_measured(self, tmp_path):
        with pytest.raises(InputError, match="5 of 5 tasks were left out: numbers from 0 on"):
            run(counting([], too_large=0), tmp_path)
        assert not (tmp_path / "squares" / "facts.json").exists()

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
        assert len(found.tasks(True)) < len(found.tasks(False)) or found.tasks(True) != found.tasks(
            False
        )

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
    assert [claim["holds"] for claim in outcome["claims"]] == [True, True, None, False]
    assert (tmp_path / "toy-quick" / "toy.svg").exists()
