"""A pytest session that collects the tests of a room once. A fork of it runs all of them for the record; then each mutant has a fork, in
which its functions get the broken code, and only the tests that execute its line run.

A mutant of code that runs at import is left to the runner, which imports everything again.
"""

import gc
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import pytest

from tests.mutation import forks, swap
from tests.mutation.mutants import Mutant, code_of
from tests.mutation.record import Lines, Record, executed, lines_of_statement, recorder
from tests.mutation.results import Results
from tests.mutation.rooms import ROOT, Room

# Seconds of processor time for the tests of one mutant, as in the record.
MOST_SECONDS = 30.0


class Report(NamedTuple):
    """`outcomes`: of the mutants of functions. The others have none."""

    record: Record
    outcomes: Mapping[Mutant, str]


def seconds_for(record: Record, tests: Sequence[str]) -> float:
    """The time after which these tests hang: a broken loop need not end, and other work may slow them down."""
    return 15 + 4 * sum(record.durations[test] for test in tests)


class Collected:
    """Plugin of pytest: breaks the mutants instead of running the tests. `report` is None until then."""

    def __init__(self, room: Room, mutants: Sequence[Mutant], results: Results, deadline: float) -> None:
        self._room, self._mutants, self._results, self._deadline = room, mutants, results, deadline
        self._functions: dict[str, list[FunctionType]] = {}
        self._imports = recorder(room.files())
        self._imports.start()
        self.report: Report | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._imports.stop()
        # Else functions are hidden from gc.get_objects().
        gc.unfreeze()
        record = self._results.record()
        if record is None:
            record = _recorded(session, self._room, self._imports_of_lines())
            self._results.keep_record(record)
        self._functions = {path: swap.functions_of(str(ROOT / path)) for path in {each.path for each in self._mutants}}
        # Else the garbage collector of each fork would copy the memory of all that was collected.
        gc.freeze()
        self.report = Report(record, dict(self._outcomes(session, record)))
        return True

    def _imports_of_lines(self) -> dict[str, set[int]]:
        return {path: set(lines) for path, lines in executed(self._imports, ROOT).items()}

    def _outcomes(self, session: pytest.Session, record: Record) -> Iterator[tuple[Mutant, str]]:
        items = {item.nodeid: item for item in session.items}
        for mutant in self._mutants:
            if time.monotonic() > self._deadline:
                break
            lines = lines_of_statement((ROOT / mutant.path).read_text(), mutant.line)
            if record.runs_at_import(mutant, lines):
                continue
            near, others = self._room.near_and_others(mutant.path, record.tests_of(mutant, lines))
            tests = record.quickest(near, MOST_SECONDS) + record.quickest(others, MOST_SECONDS)
            outcome = self._outcome_of(mutant, [items[test] for test in tests], record)
            if outcome is not None:
                self._results.note(mutant, outcome)
                yield mutant, outcome

    def _outcome_of(self, mutant: Mutant, items: Sequence[pytest.Item], record: Record) -> str | None:
        """None if no function of this process has the code of the mutant."""
        if not items:
            return forks.PASSED
        file, functions = str(ROOT / mutant.path), self._functions[mutant.path]
        codes = swap.changed_codes(Path(file).read_text(), code_of(mutant, ROOT), file)
        if not any(function.__code__ in codes for function in functions):
            return None

        def work() -> int:
            swap.swap(functions, codes)
            for item in items:
                item.add_marker(pytest.mark.timeout(seconds_for(record, [item.nodeid])), append=False)
            return 0 if _passes(items) else 1

        return forks.end(forks.begin(work), seconds_for(record, [item.nodeid for item in items]))


def _passes(items: Sequence[pytest.Item]) -> bool:
    """Runs them up to the first that fails."""
    session = items[0].session
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return False
    return True


def _recorded(session: pytest.Session, room: Room, imports: Mapping[str, set[int]]) -> Record:
    """Runs all tests in a fork, whose record comes back in a file. A test that fails without any change is left out."""
    with tempfile.NamedTemporaryFile() as file:

        def work() -> int:
            Path(file.name).write_bytes(pickle.dumps(_run_of_all(session, room)))
            return 0

        if forks.end(forks.begin(work), 3600) != forks.PASSED:
            sys.exit("the tests do not end without any change")
        lines, seconds, durations = pickle.loads(file.read())
    return Record(imports, {path: _sound(tests, seconds) for path, tests in lines.items()}, seconds, durations)


def _run_of_all(
    session: pytest.Session, room: Room
) -> tuple[dict[str, dict[int, list[str]]], dict[str, float], dict[str, float]]:
    """The tests of each line, and of each test that passes the seconds of processor time and of any time."""
    recorded, seconds, durations = recorder(room.files()), {}, {}
    recorded.start()
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        failed, begun, used = session.testsfailed, time.monotonic(), time.process_time()
        recorded.switch_context(item.nodeid)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed == failed:
            seconds[item.nodeid] = time.process_time() - used
            durations[item.nodeid] = time.monotonic() - begun
    recorded.stop()
    return executed(recorded, ROOT), seconds, durations


def _sound(lines: Lines, seconds: Mapping[str, float]) -> dict[int, list[str]]:
    return {line: [test for test in tests if test in seconds] for line, tests in lines.items()}
