"""Every benchmark has the common command line and runs.

Those that start no server run here in their smallest size; MINOVA_BENCHMARKS=all runs all (tools/check nightly).
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.command_line import Option, parse

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.parent.name for path in ROOT.glob("tests/benchmarks/*/__main__.py"))
QUICK = {"audit", "cli", "scheduler"}


def test_every_benchmark_is_a_program() -> None:
    assert {path.parent.name for path in ROOT.glob("tests/benchmarks/*/*.py")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_help_names_the_program_and_its_options(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        importlib.import_module(f"tests.benchmarks.{name}.__main__").main()
    shown = capsys.readouterr().out
    assert f"usage: python -m tests.benchmarks.{name} " in shown
    assert "--smallest" in shown


@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if name in QUICK or os.environ.get("MINOVA_BENCHMARKS") == "all"],
)
def test_the_smallest_size_runs(name: str) -> None:
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", "--smallest"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout.strip() != "") == (0, True), done.stderr[-2000:]


OPTIONS = (
    Option("hosts", [1, 2], [1], "hosts"),
    Option("rounds", 9, 1, "rounds"),
    Option("database", ["sqlite"], ["sqlite"], "databases", ("sqlite", "mariadb")),
    Option("feed", False, False, "a switch"),
)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], ([1, 2], 9, ["sqlite"], False)),
        (["--smallest"], ([1], 1, ["sqlite"], False)),
        (["--smallest", "--rounds", "3", "--feed"], ([1], 3, ["sqlite"], True)),
        (["--hosts", "5,6", "--database", "mariadb,sqlite"], ([5, 6], 9, ["mariadb", "sqlite"], False)),
    ],
)
def test_options_have_usual_and_smallest_values(words: list[str], values: tuple[object, ...]) -> None:
    options = parse("boots", "Boots.", *OPTIONS, words=words)
    assert (options.hosts, options.rounds, options.database, options.feed) == values


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--rounds", "x"], ["--database", "oracle"], ["3"]])
def test_a_value_that_cannot_be_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        parse("boots", "Boots.", *OPTIONS, words=words)
    assert "usage:" in capsys.readouterr().err
