"""Help: each command says what it does, and each of its arguments and options what it is for."""

import re

import pytest
from typer.main import get_command

from command_line import app, run


def commands(command, words=()):
    yield words, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*words, name))


COMMANDS = dict(commands(get_command(app)))


def test_all_commands_are_found():
    assert len(COMMANDS) > 15
    assert ("distance",) in COMMANDS
    assert ("ledger", "show") in COMMANDS


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_argument_and_option_has_a_help_text(words):
    command = COMMANDS[words]
    printed = squeezed(run(*words, "--help", columns=1000).stdout)
    assert command.help
    assert squeezed(command.help.split(".")[0]) in printed
    for parameter in command.params:
        assert parameter.help, f"{' '.join(words)}: {parameter.name}"
        assert squeezed(parameter.help) in printed


def squeezed(text):
    return re.sub(r"[\s│]+", "", text)
