"""The installed commands, and what they say without the packages of their role."""

import configparser
import importlib
from pathlib import Path
from typing import Any

import pytest

from minova.cmd import executables

ROOT = Path(__file__).resolve().parents[3]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")


def test_each_command_has_a_program_and_an_extra() -> None:
    lines = SETUP["options.entry_points"]["console_scripts"].split("\n")
    commands = dict(line.split(" = ") for line in lines if line)
    assert set(commands) == set(executables._PROGRAMS)
    for target in commands.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
    assert {extra for _, extra in executables._PROGRAMS.values()} <= set(SETUP["options.extras_require"])


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> Any:
        raise ModuleNotFoundError("No module named 'cliff'", name="cliff.app")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SystemExit, match=r"^minova: the Python package 'cliff.app' is missing.*'minova\[cli\]'$"):
        executables.cli()


def test_a_missing_module_of_minova_is_an_error_of_minova(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> Any:
        raise ModuleNotFoundError("No module named 'minova.x'", name="minova.x")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError):
        executables.api()
