"""Bars on a terminal: one at a time, and one for whatever may take seconds."""

import numpy as np
import pytest
from rich.console import Console

from command_line import run
from fedwad.cli import console
from fedwad.cli.console import Bar

COMMANDS = [
    "matrix oslo.csv paris.csv",
    "distance oslo.csv paris.csv",
    "test oslo.csv paris.csv",
    "columns oslo.csv paris.csv",
    "embed oslo.csv paris.csv rome.csv",
    "coreset oslo.csv paris.csv",
    "schema oslo.csv paris.csv",
    "matrix both.csv --by centre",
    "reference oslo.csv --out again.json",
    "watch paris.csv --reference ref.json",
    "join rome.csv --matrix sites.json",
    "node check oslo.csv oslo.toml",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    rng = np.random.default_rng(0)
    both = ["centre,age,height"]
    for name in ("oslo", "paris", "rome"):
        rows = rng.normal(size=(60, 2))
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header="age,height", comments="")
        both += [f"{name},{a},{b}" for a, b in rows]
    (folder / "both.csv").write_text("\n".join(both) + "\n")
    (folder / "oslo.toml").write_text('name = "oslo"\nallow = ["columns", "summary"]\n')
    for command in (
        "reference oslo.csv --out ref.json",
        "matrix oslo.csv paris.csv --save sites.json",
    ):
        assert run(*command.split(), cwd=folder).returncode == 0
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_shows_one_bar_at_a_time(folder, monkeypatch, command):
    """Rich before 14.1 refuses a second one."""
    monkeypatch.setattr(console.stderr, "_force_terminal", True)
    shown, most, set_live, clear_live = [], [], Console.set_live, Console.clear_live

    def count(self, live):
        shown.append(live)
        most.append(len(shown))
        return set_live(self, live)

    def end(self):
        shown.pop()
        clear_live(self)

    monkeypatch.setattr(Console, "set_live", count)
    monkeypatch.setattr(Console, "clear_live", end)
    result = run(*command.split(), cwd=folder)
    assert result.returncode in (0, 3, 4), result.stderr
    assert set(most) == {1}, "no bar, or one inside another"


def test_a_bar_says_how_many_rows_of_a_large_table_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(console.stderr, "_force_terminal", True)
    lines, line = [], Bar.line
    monkeypatch.setattr(Bar, "line", lambda self, text: (lines.append(text), line(self, text)))
    import pyarrow as pa
    from pyarrow import parquet

    rows = np.random.default_rng(0).normal(size=8000)
    names = np.repeat(["oslo", "paris"], 4000)
    parquet.write_table(pa.table({"age": rows, "centre": names}), tmp_path / "a.parquet")
    (tmp_path / "by_option").mkdir()
    (tmp_path / "fedwad.toml").write_text("max_rows = 1000\n")
    for folder, option in (("by_option", " --max-rows 1000"), (".", "")):  # typed, and a setting
        path = tmp_path / "a.parquet"
        command = f"columns {path} --by centre{option}"
        lines.clear()
        result = run(*command.split(), cwd=tmp_path / folder)
        assert result.returncode == 0, result.stderr
        assert any("8000 rows" in text for text in lines)
