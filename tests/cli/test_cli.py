"""The command line as a user meets it: real processes, exit codes, one JSON object, no
tracebacks."""

import html
import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import fedwad
import fedwad_command
from command_line import run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((80, 3)), rng.standard_normal((60, 3)) + 2
    np.save(folder / "paris.npy", x)
    np.savetxt(folder / "oslo.csv", y, delimiter=",", header="u,v,w", comments="")
    np.save(folder / "flat.npy", x[:, :2])
    return folder


def test_distance_prints_the_same_numbers_as_the_library(files):
    done = run("distance", files / "paris.npy", files / "oslo.csv", "--method", "summary", "--json")
    assert done.returncode == 3, done.stderr
    content = json.loads(done.stdout)
    expected = fedwad.distance(str(files / "paris.npy"), str(files / "oslo.csv"), method="summary")
    assert (content["value"], content["lower"], content["upper"]) == (
        expected.value,
        expected.lower,
        expected.upper,
    )
    assert content["sites"] == ["paris", "oslo"]
    assert content["sentence"].startswith("paris and oslo differ")
    assert content["differs"]
    assert content["pvalue"] == expected.pvalue


def test_distance_saves_and_says(files, tmp_path):
    options = [
        "--method",
        "fedwad",
        "--support",
        8,
        "--rounds",
        3,
        "--save",
        tmp_path / "r.json",
    ]
    done = run("distance", files / "paris.npy", files / "oslo.csv", *options)
    assert done.returncode == 3, done.stderr
    for word in (
        "between these samples",
        "certified bounds",
        "paper's estimate",
        "10 messages",
    ):
        assert word in done.stdout
    found = fedwad.DistanceResult.load(tmp_path / "r.json")
    assert done.stdout.splitlines()[0] == found.sentence
    assert len(found.history) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_columns_in_another_order_are_the_same_columns(files, tmp_path):
    table = pd.read_csv(files / "oslo.csv", dtype=str)  # so that no digit changes
    table[["w", "u", "v"]].to_csv(tmp_path / "other.csv", index=False)
    done = run(
        "distance",
        files / "oslo.csv",
        tmp_path / "other.csv",
        "--json",
        "--method",
        "summary",
    )
    content = json.loads(done.stdout)
    assert content["value"] == 0.0


def test_sending_single_samples_is_said(files):
    done = run(
        "distance", files / "paris.npy", files / "oslo.csv", "--method", "fedwad", "--rounds", 2
    )
    assert "1 sample\n" in re.sub(" +", " ", done.stdout).replace(" \n", "\n")
    assert "is about one sample" in done.stdout
    quiet = run("distance", files / "paris.npy", files / "oslo.csv", "--method", "summary")
    assert "smallest cell" in quiet.stdout
    assert "Warning" not in quiet.stdout
    assert quiet.stderr == ""


def test_a_file_is_at_distance_zero_from_itself(files):
    done = run("distance", files / "paris.npy", files / "paris.npy", "--json")
    assert json.loads(done.stdout)["value"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["paris.npy", "nowhere.npy"], "There is no file at nowhere.npy"),
        (["paris.npy", "flat.npy"], "paris has 3 features and flat has 2"),
        (["paris.npy", "oslo.csv", "--method", "fedwad", "--rounds", "0"], "rounds is 0"),
        (["paris.npy", "oslo.csv", "--p", "0.5"], "p is 0.5"),
        (["paris.npy", "oslo.csv", "--method", "fedwad", "--t", "half"], "t is 'half'"),
        (["paris.npy", "oslo.csv", "--label-column", "z"], "no named columns"),
        (["paris.npy", "oslo.csv", "--save", "no/where/r.json"], "no folder"),
        (["paris.npy", "oslo.csv", "--save", "oslo.csv"], "give the name of a .json file"),
        (["paris.npy", "oslo.csv", "--seed", "-1"], "seed is -1"),
        (["paris.npy", "oslo.csv", "--rounds", "3"], "rounds is an option of method 'fedwad'"),
        (["paris.npy", "oslo.csv", "--support", "3"], "support is an option of method 'fedwad'"),
        (["paris.npy", "oslo.csv", "--method", "fedwad", "--cells", "3"], "of method 'summary'"),
        (["paris.npy", "oslo.csv", "--class-covariance", "full"], "without labels"),
    ],
)
def test_errors_are_one_sentence_and_status_2(files, arguments, sentence):
    done = run("distance", *arguments, cwd=files)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow  # as `make demo`
def test_demo_answers_first_and_ends_with_a_page(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words.index("differ") < words.index("hungarian")
    for site in fedwad.datasets.load("heart"):
        assert site in words
    assert "123" in words  # rows of Switzerland, all without a measured cholesterol
    assert "fedwad-demo.html" in words
    assert "in 8 messages" in " ".join(words)  # columns and a summary of each
    page = (tmp_path / "fedwad-demo.html").read_text()
    assert "column 'chol' at switzerland" in html.unescape(page)
    assert len(page.encode()) <= 150_000  # small enough for an e-mail


def test_demo_as_json_counts_what_left(tmp_path):
    done = run("demo", "--json", "--report", tmp_path / "d.html")
    content = json.loads(done.stdout)
    assert (np.array(content["pvalue"])[np.triu_indices(4, 1)] < 0.05).all()
    sent = [entry["bytes"] for entries in content["ledgers"].values() for entry in entries]
    assert len(sent) == 12  # columns, the line of the schema, and a summary of four hospitals
    assert content["traffic"]["messages"] == 8
    assert sum(sent) == content["traffic"]["up"]
    assert content["report"] == str(tmp_path / "d.html")


def test_version_and_help():
    assert run("--version").stdout.strip() == f"fedwad {fedwad.__version__}"
    done = run("--help")
    assert "demo" in done.stdout
    assert "distance" in done.stdout


@pytest.mark.parametrize("loading", ["fedwad", "fedwad.cli.app"])
def test_ctrl_c_while_the_package_is_loaded_is_no_crash(loading, monkeypatch, capsys):
    class Interrupting:
        def find_spec(self, name, *_):
            if name == loading:
                raise KeyboardInterrupt

    for name in ("fedwad.cli.app", "fedwad.cli", "fedwad")[: 3 if loading == "fedwad" else 1]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as left:
        fedwad_command.main()
    assert left.value.code == 130
    assert capsys.readouterr().err == "Interrupted; no result was written.\n"


@pytest.mark.parametrize(
    "place",
    [
        "typer.main.get_command",  # before Typer's own handler
        "typer.core.TyperCommand.make_context",  # inside it, before the command begins
        "fedwad.cli.console.announce_compiling",
        "fedwad.cli.sites.find_several",  # in the command
    ],
)
def test_ctrl_c_prints_one_sentence_wherever_it_comes(place, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    monkeypatch.setattr(sys, "argv", ["fedwad", "matrix", "a.csv", "b.csv"])
    with pytest.raises(SystemExit) as left:
        fedwad_command.main()
    assert left.value.code == 130
    assert capsys.readouterr().err == "Interrupted; no result was written.\n"


def test_ctrl_c_during_exec_ends_with_the_exit_code():
    code = (
        "import sys, fedwad_command\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'fedwad':\n"
        "            exec('raise KeyboardInterrupt')\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "fedwad_command.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "Interrupted; no result was written.\n"


@pytest.mark.slow  # starts interpreters
def test_ctrl_c_leaves_no_mess(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((3000, 20)))
    command = [
        sys.executable,
        "-m",
        "fedwad",
        "distance",
        "a.npy",
        "b.npy",
        "--method",
        "fedwad",
        "--rounds",
        "100000",
        "--save",
        "r.json",
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(8)  # long enough to have loaded on a busy machine; the rounds take minutes
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted" in err
    assert "Traceback" not in err
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "b.npy"]


def test_an_error_ends_the_process_at_once():
    """A thread may still read the file of another site; the exit code is that of the error."""
    script = (
        "import sys, threading, time, fedwad_command\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "fedwad_command.main = lambda: sys.exit(2)\n"
        "fedwad_command.run()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], timeout=40, check=False)
    assert done.returncode == 2
