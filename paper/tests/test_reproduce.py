"""Experiments: measured once, resumable, written whole, and judged by what was measured."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fedwad
from failing import assert_one_sentence, fails
from fedwad.errors import InputError
from paper.__main__ import FIGURES, TABLES, main
from paper.experiment import (
    NAMES,
    Claim,
    Experiment,
    Outcome,
    experiment,
    mean_by,
    pick,
    run,
    subplots,
)

pytest.importorskip("matplotlib", reason="the extra `paper` is not installed")

ROOT = Path(__file__).parents[2]


def counting(calls, fail_at=None):
    """An experiment that notes what it is asked to measure, and may break down on the way."""

    def measure(number, t="own"):
        if number == fail_at:
            raise KeyboardInterrupt
        calls.append(number if t == "own" else (number, t))
        return [{"square": float(number**2)}]

    def draw(rows):
        figure, (panel,) = subplots(1, 1, panel_size=(4.6, 3.4))
        panel.plot(*mean_by(rows, "number", "square"))
        return {"squares": figure}

    def judge(rows):
        largest = max(row["square"] for row in rows)
        return [Claim("Squares grow.", largest > 1, f"up to {largest:g}")]

    def tasks(size):
        counts = {"quick": 3, "reduced": 5, "whole": 6}
        return [{"number": number, "t": "own"} for number in range(counts[size])]

    return Experiment(
        "squares", "Squares of numbers", tasks, measure, draw, judge, smaller="Five, not six."
    )


def command(*arguments):
    words = [sys.executable, "-m", "paper", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)


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
        assert facts["command"] == "python -m paper squares"
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

    def test_a_quick_run_stays_apart_and_judges_nothing(self, tmp_path):
        calls = []
        quick = run(counting(calls), tmp_path, "quick")
        reduced = run(counting(calls), tmp_path)
        assert quick.folder != reduced.folder
        assert calls == [0, 1, 2, 0, 1, 2, 3, 4]
        assert quick.claims == ()
        assert json.loads((quick.folder / "facts.json").read_text())["claims"] == []

    def test_a_whole_run_adds_to_a_reduced_one_which_says_what_is_smaller(self, tmp_path):
        calls = []
        reduced = run(counting(calls), tmp_path)
        whole = run(counting(calls), tmp_path, "whole")
        assert calls == [0, 1, 2, 3, 4, 5]
        assert (reduced.smaller, whole.smaller) == ("Five, not six.", "")
        facts = json.loads((whole.folder / "facts.json").read_text())
        assert facts["command"] == "python -m paper squares --whole"

    def test_another_position(self, tmp_path):
        calls = []
        outcome = run(counting(calls), tmp_path, "quick", t=0.1)
        assert calls == [(0, 0.1), (1, 0.1), (2, 0.1)]
        command = json.loads((outcome.folder / "facts.json").read_text())["command"]
        assert command == "python -m paper squares --quick --t 0.1"

    def test_a_position_that_no_task_has_is_refused_before_anything_is_written(self, tmp_path):
        for name, size in (("toy", "reduced"), ("boosting", "whole"), ("classifier", "quick")):
            with fails(InputError, "no-t", name):
                run(experiment(name), tmp_path, size, t=0.1)
        assert not list(tmp_path.iterdir())

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

    def test_what_another_machine_has_measured_is_used(self, tmp_path):
        outcome = run(counting([]), tmp_path)
        rows_file = outcome.folder / "rows.jsonl"
        lines = [json.loads(line) for line in rows_file.read_text().splitlines()]
        lines[4]["machine"] = {"system": "Elsewhere", "gpu": "a large one"}
        lines[4]["seconds"] = 7.5
        rows_file.write_text("".join(json.dumps(line) + "\n" for line in lines[3:]))
        calls = []
        again = run(counting(calls), tmp_path)
        assert calls == [0, 1, 2]
        assert again.claims == outcome.claims
        here, there = json.loads((again.folder / "facts.json").read_text())["machines"]
        assert (here["tasks"], there["tasks"]) == (4, 1)
        assert there == {"system": "Elsewhere", "gpu": "a large one", "tasks": 1, "seconds": 7.5}

    def test_a_place_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="choose another --out"):
            run(counting([]), tmp_path / "file")


class TestNames:
    @pytest.mark.parametrize("name", NAMES)
    def test_each_experiment_has_tasks_that_can_be_kept(self, name):
        found = experiment(name)
        assert found.name == name
        for size in ("quick", "reduced", "whole"):
            tasks = found.tasks(size)
            keys = {json.dumps(task, sort_keys=True) for task in tasks}
            assert len(keys) == len(tasks) > 0
        assert found.tasks("quick") != found.tasks("whole")

    def test_an_unknown_one(self):
        with fails(InputError, "unknown-experiment"):
            experiment("tor")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["figure"], "A figure has a number; choose figure 2, 3"),
            (["table", "9"], "No table 9 can be run; choose table 1, 2"),
            (["toy", "3"], "toy has no number"),
            (["otdd", "--t", "mine"], "t is 'mine'"),
        ],
    )
    def test_words_that_name_none(self, words, said, tmp_path, capsys):
        assert main([*words, "--quick", "--out", str(tmp_path)]) == 2
        error = capsys.readouterr().err.strip()
        assert_one_sentence(error)
        assert said in error
        assert not list(tmp_path.iterdir())

    def test_an_unknown_one_on_the_command_line(self, tmp_path):
        done = command("tor", "--out", tmp_path)
        assert done.returncode == 2
        assert "'tor'" in done.stderr
        assert not list(tmp_path.iterdir())


def test_pick_and_mean():
    rows = [{"a": 1, "b": 2.0}, {"a": 1, "b": 4.0}, {"a": 0, "b": 1.0}, {"a": 2, "b": None}]
    assert pick(rows, a=1) == rows[:2]
    assert mean_by(rows, "a", "b") == ([0, 1], [1.0, 3.0])


@pytest.mark.slow
def test_the_papers_toy_on_the_command_line(tmp_path):
    done = command("toy", "--quick", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "toy-quick" / "facts.json").read_text())
    assert facts["claims"] == []
    assert not any(word in done.stdout for word in ("held", "did not hold", "judged"))
    assert (tmp_path / "toy-quick" / "toy.svg").exists()


@pytest.mark.slow  # starts interpreters
def test_an_interrupted_experiment_says_that_it_can_go_on(tmp_path):
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        words = [sys.executable, "-m", "paper", "toy", "--out", folder]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        rows, end = folder / "toy" / "rows.jsonl", time.monotonic() + 120
        while not rows.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        if process.returncode != -signal.SIGSEGV:  # of a compiler that was interrupted: rare
            break
    assert process.returncode == 130
    assert err.endswith("the same command continues from there.\n")
    assert out == ""
    assert rows.read_text().endswith("\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [(["figure", "3"], "toy"), (["table", "2"], "boosting"), (["figure", "15"], "matrices")],
)
def test_figures_and_tables_by_the_papers_own_numbers(words, name, monkeypatch, tmp_path):
    ran = []

    def note(experiment, out, *_):
        ran.append(experiment.name)
        return Outcome(experiment.name, "", Path(out), (), (), 0.0)

    monkeypatch.setattr("paper.__main__.run", note)
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert ran == [name]


def test_every_figure_and_table_with_numbers_has_an_experiment():
    assert sorted(FIGURES) == [2, 3, 4, 5, 6, *range(8, 16)]  # 1 and 7 are drawings
    assert sorted(TABLES) == [1, 2, 3, 4, 5]
    assert {*FIGURES.values(), *TABLES.values()} | {"t"} == set(NAMES)


def test_a_drawing_is_not_run(capsys):
    assert main(["figure", "7"]) == 2
    assert_one_sentence(capsys.readouterr().err.strip())


def test_an_interrupted_fresh_experiment_goes_on_without_fresh(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("paper.__main__.run", interrupt)
    assert main(["toy", "--fresh", "--out", str(tmp_path)]) == 130
    assert "the same command without --fresh continues" in capsys.readouterr().err


def test_what_cannot_be_measured_is_one_sentence_and_status_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDWAD_DATA", str(tmp_path / "nowhere"))
    assert main(["matrices", "--quick", "--out", str(tmp_path)]) == 2
    assert_one_sentence(capsys.readouterr().err.splitlines()[-1].lstrip("\r"))
