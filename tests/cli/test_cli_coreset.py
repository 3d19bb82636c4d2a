"""`fedwad coreset`: what it prints, writes and refuses."""

import json
import re

import numpy as np
import pytest

import command_line
import fedwad


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("sites")
    rng = np.random.default_rng(0)
    for k, name in enumerate(("paris", "oslo", "rome")):
        np.savetxt(
            tmp_path / f"{name}.csv",
            np.column_stack([rng.normal(3 * k, 1, (40, 3)), rng.integers(0, 2, 40)]),
            delimiter=",",
            header="age,dose,weight,diagnosis",
            comments="",
        )
    return tmp_path


def run(*words, cwd=None):
    return command_line.run("coreset", *words, cwd=cwd, columns=200)


def test_json_is_the_result_and_nothing_else(folder):
    done = run(folder, "--size", 3, "--json")
    assert done.returncode == 0, done.stderr
    found = fedwad.CoresetResult.from_dict(json.loads(done.stdout))
    parts = {name: folder / f"{name}.csv" for name in ("oslo", "paris", "rome")}
    assert found.points.tobytes() == fedwad.coreset(parts, 3).points.tobytes()
    assert found.sites == ("oslo", "paris", "rome")


def test_words_tell_the_distance_and_what_was_sent(folder):
    done = run(folder, "--size", 3, "--label-column", "diagnosis")
    assert done.returncode == 0, done.stderr
    assert "Coreset of 3 points for 3 sites, method union" in done.stdout
    assert "certified" in done.stdout
    assert re.search(r"\d kB", done.stdout)


def test_report_and_file_have_what_json_has(folder, tmp_path):
    done = run(
        folder,
        "--size",
        3,
        "--rounds",
        5,
        "--save",
        tmp_path / "c.json",
        "--report",
        tmp_path / "c.html",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert fedwad.CoresetResult.load(tmp_path / "c.json") == fedwad.CoresetResult.from_dict(content)
    page = (tmp_path / "c.html").read_text()
    assert "The points as rows of a table" in page
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_checkpoint_and_resume(folder, tmp_path):
    first = run(folder, "--size", 3, "--checkpoint", tmp_path / "run", "--json")
    again = run(folder, "--size", 3, "--checkpoint", tmp_path / "run", "--resume", "--json")
    one, two = (json.loads(done.stdout) for done in (first, again))
    assert one["points"] == two["points"]
    assert run(folder, "--size", 4, "--checkpoint", tmp_path / "run", "--resume").returncode == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--size", "0"], "size is 0"),
        (["--shape", "3"], "shape is '3'"),
        (["--shape", "5x5", "--report", "x.html"], "shape is"),
        (["--save", "x.txt"], "is x.txt"),
        (["--report", "x.txt"], "is x.txt"),
        (["--resume"], "--checkpoint"),
        (["--method", "summary", "--rounds", "3"], "rounds is an option of methods"),
        (["--learning-rate", "1"], "learning_rate is an option of methods"),
        (["--connect", "somewhere"], "--engine"),
    ],
)
def test_errors_are_one_sentence(folder, words, sentence, tmp_path):
    done = run(folder, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
