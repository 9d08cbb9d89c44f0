"""Runs the tests of a room on each mutant. No file changes, so a run may be interrupted at any time.

Most mutants are broken in the fork of a session that has collected the tests. One whose code runs at import needs a process that imports
it anew: a fork of this process, which has imported all large packages.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pickle
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.mutation import forks
from tests.mutation.collected import MOST_SECONDS, Collected, Report, seconds_for
from tests.mutation.mutants import Mutant, code_of
from tests.mutation.results import Results
from tests.mutation.rooms import ROOT, Room

# -n 0: in this process. The same examples for each mutant.
OPTIONS = ("-q", "-x", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--no-header")
# Plugins of pytest are imported before pytest could rewrite their assertions.
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
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


class Chosen:
    """Plugin of pytest: runs these tests in this order, and no others."""

    def __init__(self, tests: Iterable[str]) -> None:
        self._places = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._places), key=lambda item: self._places[item.nodeid]
        )


def warm_up() -> None:
    """Imports large packages, which each fork then has. None of them knows minova, or chooses how threads work."""
    for name in (
        "alembic",
        "anyio.pytest_plugin",
        "cryptography.x509",
        "falcon",
        "hypothesis",
        "jsonschema",
        "keystoneauth1",
        "numpy",
        "oslo_config.cfg",
        "pytest_timeout",
        "schemathesis.pytest.plugin",
        "sqlalchemy.orm",
        "xdist.plugin",
    ):
        importlib.import_module(name)


def outcomes(room: Room, mutants: Sequence[Mutant], results: Results, deadline: float) -> dict[Mutant, str]:
    """Those of the mutants that it reached before the deadline. Raises SystemExit if pytest cannot collect the tests."""
    outcomes_so_far = {mutant: outcome for mutant in mutants if (outcome := results.outcome_of(mutant))}
    left = [mutant for mutant in mutants if mutant not in outcomes_so_far]
    if left:
        report = _report(room, left, results, deadline)
        outcomes_so_far |= report.outcomes
        for mutant in left:
            if mutant not in outcomes_so_far and time.monotonic() < deadline:
                outcomes_so_far[mutant] = _outcome_at_import(room, mutant, report)
                results.note(mutant, outcomes_so_far[mutant])
    return outcomes_so_far


def _report(room: Room, mutants: Sequence[Mutant], results: Results, deadline: float) -> Report:
    with tempfile.NamedTemporaryFile() as file, tempfile.NamedTemporaryFile("r") as output:

        def work() -> int:
            collected = Collected(room, mutants, results, deadline)
            code = _pytest(room.tests, collected)
            Path(file.name).write_bytes(pickle.dumps(collected.report))
            return code

        forks.end(forks.begin(work, output.name), 1_000_000)
        written = file.read()
        report = pickle.loads(written) if written else None
        if not isinstance(report, Report):
            sys.exit(f"{output.read()[-4000:]}\nno record of the tests {' '.join(room.tests)}")
    return report


def _outcome_at_import(room: Room, mutant: Mutant, report: Report) -> str:
    """First the module's own tests, which notice most, then others, first those that execute lines of the module."""
    name = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    finder = Mutated(name, ROOT / mutant.path, code_of(mutant, ROOT))

    def run(tests: Sequence[str]) -> int:
        sys.meta_path.insert(0, finder)
        return _pytest(sorted({test.partition("::")[0] for test in tests}), Chosen(tests))

    for tests in _parts(room, mutant, report):
        outcome = forks.end(forks.begin(partial(run, tests)), 60 + seconds_for(report.record, tests))
        if outcome != forks.PASSED:
            return outcome
    return forks.PASSED


def _parts(room: Room, mutant: Mutant, report: Report) -> Iterator[list[str]]:
    record = report.record
    near, others = room.near_and_others(mutant.path, record.seconds)
    executing = record.tests_of_module(mutant.path) - near
    for tests in (near, executing, others - executing):
        if tests:
            yield record.quickest(tests, MOST_SECONDS)


def _pytest(words: Sequence[str], *plugins: Any) -> int:
    for name in [name for name in sys.modules if name.partition(".")[0] == "minova"]:
        del sys.modules[name]
    import pytest  # noqa: PLC0415 - its plugins change the process that imports them

    code = int(pytest.main([*OPTIONS, *QUIET, *words], plugins=list(plugins)))
    assert code != NO_TESTS, f"no tests in {words}"
    return code
