"""Help: each command says what it does, and each of its arguments and options what it is for."""

import os
import re
import subprocess
import sys

import pytest

import fedwad
from command_line import run
from fedwad.cli.app import PARTS, about, load

ENTRIES = {name: entry for part in PARTS.values() for name, entry in part.items()}


def commands():
    for name, entry in ENTRIES.items():
        command = load(name, entry)
        yield (name,), command
        for word, each in getattr(command, "commands", {}).items():
            yield (name, word), each


COMMANDS = dict(commands())


def test_all_commands_are_found():
    assert len(COMMANDS) > 15
    assert ("distance",) in COMMANDS
    assert ("ledger", "show") in COMMANDS


def test_the_list_says_of_each_command_what_its_own_help_says_first():
    for name, entry in ENTRIES.items():
        lines = {(name,): entry} if isinstance(entry, str) else {}
        lines |= {} if lines else {(name, word): each for word, each in entry[1].items()}
        for words, each in lines.items():
            assert COMMANDS[words].help.split("\n\n")[0] == about(each)


def test_the_list_of_commands_loads_no_numbers():
    code = (
        "import sys, contextlib, io\n"
        "from fedwad.cli.app import app\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    app(['--help'])\n"
        "print('numpy' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.stdout.strip() == "False"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_argument_and_option_has_a_help_text(words):
    command = COMMANDS[words]
    printed = squeezed(run(*words, "--help", columns=1000).stdout)
    assert command.help
    assert bool(getattr(command, "commands", {})) or squeezed("Example: `fedwad") in printed
    assert squeezed(command.help.split(".")[0]) in printed
    for parameter in command.params:
        assert parameter.help, f"{' '.join(words)}: {parameter.name}"
        assert squeezed(parameter.help) in printed


def squeezed(text):
    return re.sub(r"[\s│]+", "", text)


def test_a_matrix_loads_no_solvers_that_it_does_not_call():
    files = list(map(str, fedwad.datasets.load("heart").values()))
    code = (
        "import sys\nfrom contextlib import suppress\nfrom fedwad.cli.app import app\n"
        "with suppress(SystemExit):\n    app(sys.argv[1:])\n"
        "print(sys.modules.keys() & {'ot', 'scipy.optimize', 'sklearn', 'jinja2', 'numba'})"
    )
    words = [sys.executable, "-c", code, "matrix", *files]
    printed = subprocess.run(words, capture_output=True, text=True)
    assert printed.stdout.splitlines()[-1] == "set()"


def test_options_of_one_method_have_a_panel_that_names_it():
    panels = {one.name: one.rich_help_panel for one in COMMANDS[("distance",)].params}
    paper = {"support", "rounds", "t", "interpolant", "reveal", "tol", "max_support", "init"}
    assert {name for name, panel in panels.items() if panel == "With --method fedwad"} == paper
    assert panels["cells"] == "With --method summary"
    assert panels["method"] == panels["covariance_type"] == "Method"


@pytest.mark.parametrize(
    ("typed", "found"),
    [("fedwad ma", "matrix"), ("fedwad matrix --rep", "--report"), ("fedwad node ch", "check")],
)
def test_the_tab_key_completes_commands_and_their_options(typed, found):
    given = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    environment = os.environ | given | {"_FEDWAD_COMPLETE": "complete_bash"}
    code = (
        "import sys; sys.argv = ['fedwad']; from fedwad.cli.app import app; app(prog_name='fedwad')"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert found in done.stdout.split()
