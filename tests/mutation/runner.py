"""Runs the tests of a room on a mutant: in a fork of a process that has imported all other packages, so that most runs take a second.

The mutant is given to the import of its module. No file changes, so a run may be interrupted at any time.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.mutation.mutants import Mutant, code_of
from tests.mutation.rooms import ROOT

# -n 0: in this process. The same examples for each mutant.
OPTIONS = ("-q", "-x", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--no-header")
# Plugins of pytest are imported before pytest could rewrite their assertions.
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
FAILED, PASSED, TIMED_OUT = "noticed", "survived", "timed out"
NO_TESTS = 5


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source."""

    def __init__(self, name: str, path: Path, code: str) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(
        self, name: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        is_package = self._path.name == "__init__.py"
        spec = importlib.util.spec_from_loader(name, self, origin=str(self._path), is_package=is_package)
        if spec is not None and is_package:
            spec.submodule_search_locations = [str(self._path.parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self._path)
        exec(compile(self._code, self._path, "exec"), module.__dict__)


def warm_up() -> None:
    """Imports large packages, which each fork then has. None of them knows minova, or chooses how threads work."""
    for name in (
        "alembic",
        "cryptography.x509",
        "falcon",
        "hypothesis",
        "jsonschema",
        "keystoneauth1",
        "numpy",
        "oslo_config.cfg",
        "sqlalchemy.orm",
    ):
        importlib.import_module(name)


def unbroken(tests: Sequence[str]) -> float:
    """Seconds that the tests take. Raises SystemExit if they fail."""
    begun = time.monotonic()
    with tempfile.NamedTemporaryFile("r") as output:
        outcome = _wait(_forked(lambda: _pytest(tests), output.name), 3600)
        if outcome != PASSED:
            sys.exit(f"{output.read()[-4000:]}\nthe tests fail without any change: pytest {' '.join(tests)}")
    return time.monotonic() - begun


def outcome_of(mutant: Mutant, tests: Sequence[str], seconds: float) -> str:
    """Whether a test fails. One that takes longer than `seconds` hangs, which is noticed, too."""
    name = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    finder = Mutated(name, ROOT / mutant.path, code_of(mutant, ROOT))

    def run() -> int:
        sys.meta_path.insert(0, finder)
        return _pytest(tests)

    return _wait(_forked(run), seconds)


def _pytest(words: Sequence[str]) -> int:
    for name in [name for name in sys.modules if name.partition(".")[0] == "minova"]:
        del sys.modules[name]
    import pytest  # noqa: PLC0415 - its plugins change the process that imports them

    code = int(pytest.main([*OPTIONS, *QUIET, *words]))
    assert code != NO_TESTS, f"no tests in {words}"
    return code


def _forked(work: Callable[[], int], output: str = os.devnull) -> int:
    """Returns the id of the process."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        file = os.open(output, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(file, number)
        code = work()
    finally:
        os._exit(code)


def _wait(pid: int, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return PASSED if status == 0 else FAILED
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return TIMED_OUT
