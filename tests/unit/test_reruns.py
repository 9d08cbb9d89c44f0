"""Suites of their own, of which `tests.reruns` runs failed tests again."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.reruns import MOST_FAILED, MOST_FLAKY

ROOT = Path(__file__).resolve().parents[2]
# `times(name)`: how often it was called with this name, in all runs.
COUNT = """
import os
from pathlib import Path
import pytest

def times(name):
    file = Path(__file__).with_name(f"{name}.count")
    file.write_text(file.read_text() + "x" if file.exists() else "x")
    return len(file.read_text())
"""
FLAKY_CALL = """
def test_call():
    print("said " + "before")
    assert times("call") > 1, "first trouble"
"""
FAILS_ALWAYS = """
def test_always():
    assert times("always") > 3
"""
SCHEDULER = """
from tests.distribution import Distribution

def pytest_xdist_make_scheduler(config, log):
    return Distribution(config, log)
"""


class Run(NamedTuple):
    code: int
    said: str
    # Of `build/flaky.txt`.
    flaky: str

    @property
    def closing_line(self) -> str:
        return self.said.splitlines()[-1]

    @property
    def names(self) -> list[str]:
        return re.findall(r"^FLAKY test_suite.py::(\w+)$", self.flaky, re.MULTILINE)


def run(folder: Path, tests: str, *words: str) -> Run:
    """Of a suite in one file. Without the plugins that it does not need, which take seconds to import."""
    (folder / "test_suite.py").write_text(COUNT + tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.reruns", "--flaky-to", "build/flaky.txt", *words],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return Run(done.returncode, done.stdout, (folder / "build" / "flaky.txt").read_text())


def count(folder: Path, name: str) -> int:
    return len((folder / f"{name}.count").read_text())


@pytest.mark.parametrize(
    "words", [(), ("--numprocesses=2", "--dist=loadfile", "test_suite.py")], ids=["one process", "workers"]
)
def test_what_passes_alone_is_flaky_and_the_run_is_green(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Failures, errors before and after a test, what an earlier test left behind, and a fixture of the module."""
    tests = """
@pytest.fixture
def before():
    assert times("before") > 2, "in the fixture"

@pytest.fixture
def after():
    yield
    assert times("after") > 1, "behind the test"

@pytest.fixture(scope="module")
def broken():
    return times("module") == 1

LEFT = []

def test_before(before): pass
def test_after(after): pass
def test_module(broken): assert not broken
def test_module_again(broken): LEFT.append(1)
def test_alone(): assert not LEFT
@pytest.mark.parametrize("value", ["a::b [c]"])
def test_parameter(value): assert times("parameter") > 1
def test_good(): assert times("good") == 1
"""
    outcome = run(tmp_path, tests, *words)
    assert outcome.code == 0, outcome.said
    assert sorted(outcome.names) == ["test_after", "test_alone", "test_before", "test_module"], outcome.said
    assert "FLAKY test_suite.py::test_parameter[a::b [c]]\n" in outcome.flaky
    assert re.fullmatch(r"=+ 7 passed, 6 rerun in .*", outcome.closing_line), outcome.said
    assert "FLAKY test_suite.py::test_before\n" in outcome.said
    assert "AssertionError: in the fixture" in outcome.flaky
    assert (count(tmp_path, "before"), count(tmp_path, "good")) == (3, 1)


def test_first_traceback_is_kept_and_a_new_run_begins_a_new_file(tmp_path: Path) -> None:
    first = run(tmp_path, FLAKY_CALL)
    assert first.code == 0, first.said
    assert re.match(
        r"FLAKY test_suite\.py::test_call\n(.*\n)+.*AssertionError: first trouble\n(.*\n)+said before\n", first.flaky
    )
    assert first.flaky.count("FLAKY") == first.flaky.count("said before") == 1
    second = run(tmp_path, FLAKY_CALL)
    assert (second.code, second.flaky) == (0, ""), second.said
    assert re.fullmatch(r"=+ 1 passed in .*", second.closing_line)


def test_what_fails_three_times_is_red(tmp_path: Path) -> None:
    outcome = run(tmp_path, FAILS_ALWAYS + FLAKY_CALL)
    assert (outcome.code, outcome.names) == (1, ["test_call"]), outcome.said
    assert count(tmp_path, "always") == 3
    assert re.fullmatch(r"=+ 1 failed, 1 passed, 1 rerun in .*", outcome.closing_line)
    assert "- Run 3, alone -" in outcome.said
    # Whatever reads the output finds one closing line.
    assert len(re.findall(r"^=+ .* in [\d.]+s =+$", outcome.said, re.MULTILINE)) == 1


def test_skipped_or_unknown_the_second_time_has_not_passed(tmp_path: Path) -> None:
    tests = """
@pytest.mark.parametrize("number", [times("unknown")])
def test_unknown(number): assert False

def test_skipped():
    if times("skipped") > 1: pytest.skip()
    assert False
"""
    outcome = run(tmp_path, tests)
    assert (outcome.code, outcome.flaky) == (1, ""), outcome.said
    assert re.fullmatch(r"=+ 2 failed in .*", outcome.closing_line)


def test_more_flaky_tests_than_the_limit_are_red(tmp_path: Path) -> None:
    numbers = ",".join(map(str, range(MOST_FLAKY + 1)))
    tests = f"""
@pytest.mark.parametrize("number", [{numbers}])
def test_number(number): assert times(number) > 1
"""
    outcome = run(tmp_path, tests)
    assert outcome.code == 1, outcome.said
    assert outcome.flaky.count("FLAKY test_suite.py::test_number[") == MOST_FLAKY + 1
    assert f"{MOST_FLAKY + 1} tests are flaky" in outcome.said
    assert re.fullmatch(rf"=+ {MOST_FLAKY + 1} failed in .*", outcome.closing_line)


MANY = f"""
@pytest.mark.parametrize("number", range({MOST_FAILED + 1}))
def test_number(number): assert not times("number")
"""
CRASH = f"""{FLAKY_CALL}
def test_crash(): os._exit(1)
def test_last(): pass
"""


@pytest.mark.parametrize(
    ("tests", "words", "reason"),
    [
        (MANY, (), f"{MOST_FAILED + 1} tests have failed, which is more than {MOST_FAILED}"),
        (FLAKY_CALL + "def test_last(): pass", ("-x",), "only 1 of 2 tests were run"),
        (CRASH, ("--numprocesses=1", "--max-worker-restart=0"), "only 2 of 3 tests were run"),
        (FLAKY_CALL + "assert times('file') > 2", ("--numprocesses=1",), "ERROR test_suite.py"),
    ],
    ids=["many", "cut short", "workers lost", "unreadable"],
)
def test_a_run_that_cannot_become_green_runs_nothing_again(
    tmp_path: Path, tests: str, words: tuple[str, ...], reason: str
) -> None:
    outcome = run(tmp_path, tests, *words)
    assert (outcome.code != 0, outcome.flaky) == (True, ""), outcome.said
    assert reason in outcome.said
    assert "again, alone" not in outcome.said


def test_a_worker_that_crashes_once_is_replaced_and_its_test_is_flaky(tmp_path: Path) -> None:
    """With the distribution of our own tests, which goes on with those that the worker has not run."""
    (tmp_path / "conftest.py").write_text(SCHEDULER)
    tests = """
def test_one(): times("one")
def test_crash():
    if times("crash") == 1: os._exit(1)
def test_two(): times("two")
"""
    outcome = run(tmp_path, tests, "--numprocesses=2")
    assert (outcome.code, outcome.names) == (0, ["test_crash"]), outcome.said
    assert "crashed while running" in outcome.flaky
    assert re.fullmatch(r"=+ 3 passed, 1 rerun in .*", outcome.closing_line)
    assert [count(tmp_path, name) for name in ("one", "crash", "two")] == [1, 2, 1]
