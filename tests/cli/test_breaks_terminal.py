"""Row 14: what a client says is printed as text, whatever it says."""

import io
import warnings

import pytest
from rich.console import Console

from fedwad.errors import FederationError
from fedwad.federation import Failure, error_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Typer about Click
    import typer

    from fedwad.cli import console

SAYS = {
    "colour": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "erase": "\x1b[2J\x1b[H",
    "markup": "[/x]",
    "escaped markup": r"\[/x]",
    "twice escaped": r"\\[/x] and \\\[bold]",
    "carriage": "fine\rError: none",
    "newline": "fine\nError: a second sentence",
    "c1": "\x9b31m",
    "right to left": "\u202eevil\u2066",
}


def printed(monkeypatch, sentence):
    """What reaches the terminal of an analyst when a client fails with these words."""
    out = io.StringIO()
    monkeypatch.setattr(
        console, "stderr", Console(file=out, highlight=False, force_terminal=False, width=200)
    )

    @console.exit_on_error
    def command():
        raise error_of(Failure("federation", sentence), "paris")

    with pytest.raises(typer.Exit):
        command()
    return out.getvalue()


@pytest.mark.parametrize("name", SAYS)
def test_what_a_client_says_reaches_the_terminal_as_text(monkeypatch, name):
    text = printed(monkeypatch, SAYS[name])
    assert text.rstrip("\n").isprintable(), f"control characters came through: {text!r}"


@pytest.mark.parametrize("name", ["markup", "escaped markup", "twice escaped"])
def test_brackets_stay_brackets(monkeypatch, name):
    assert SAYS[name] in printed(monkeypatch, SAYS[name])


@pytest.mark.parametrize("name", SAYS)
def test_an_error_of_a_client_holds_no_control_character(name):
    """Also where a user's own program prints it."""
    assert str(error_of(Failure("federation", SAYS[name]), "paris")).isprintable()
    assert isinstance(error_of(Failure("x", "y"), "pa\x1b[31mris"), FederationError)
    assert str(error_of(Failure("x", "y"), "pa\x1b[31mris")).isprintable()


@pytest.mark.parametrize("name", SAYS)
def test_the_line_of_an_engine_breaks_no_bar(monkeypatch, name):
    out = io.StringIO()
    monkeypatch.setattr(
        console, "stderr", Console(file=out, highlight=False, force_terminal=True, width=200)
    )
    with console.progress_bar("Waiting") as bar:
        bar.line(SAYS[name])
    assert "owned\x07" not in out.getvalue()
    assert "\x1b[31mred" not in out.getvalue()
