"""Runs failed tests again: `python -m pytest -p tests.reruns --flaky-to FILE`; tools/check does so.

When all other tests have ended, each failed test is run again in a process of its own, at most twice. A test that passes then is flaky:

    green: it counts as passed, and each of its failures as `rerun` in the closing line
    red:   more than MOST_FLAKY tests are flaky, a test fails three times, or more than MOST_FAILED tests fail

FILE has `FLAKY nodeid` and the first traceback of each flaky test. A run that was cut short stays red, and none of its tests runs again.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from tempfile import TemporaryFile
from textwrap import indent

import pytest

RERUNS = 2
MOST_FLAKY = 5
# A run with more failures than this is no matter of luck, and would take long.
MOST_FAILED = 10
# Seconds for one run of one test, beyond the time-outs of all tests that CI runs.
_AT_MOST = 1200
_PASSED = re.compile(r"\b1 passed\b")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--flaky-to", default="", help="run failed tests again, alone, and write those that pass then to this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    # The workers of pytest-xdist report to the process that started them.
    if config.option.flaky_to and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reruns(config), "minova-reruns")


class Failure:
    """A test that failed in this run: its reports, and what later runs of it printed."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.reports: list[pytest.TestReport] = []
        self.later: list[str] = []
        self.passed = False

    @property
    def traceback(self) -> str:
        first = self.reports[0]
        captured = [f"--- {title}\n{text}" for title, text in first.sections]
        return "\n".join([first.longreprtext, *captured]).rstrip()


class Reruns:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file = config.invocation_params.dir / config.option.flaky_to
        self._flaky: list[Failure] = []
        self._remark = ""

    def pytest_sessionstart(self) -> None:
        self._write()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Other tests and their fixtures have ended. The terminal's summary follows."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED or terminal is None:
            return
        failures = _failures(terminal)
        self._remark = _reason_not_to(session, terminal, failures)
        if self._remark:
            return
        terminal.write_line("")
        for _ in range(RERUNS):
            for failure in [each for each in failures if not each.passed]:
                terminal.write_line(f"again, alone: {failure.nodeid}")
                terminal.flush()
                self._run(failure)
        self._flaky = [each for each in failures if each.passed]
        self._write()
        for failure in failures:
            if not failure.passed:
                _show_later_runs(failure)
        if len(self._flaky) > MOST_FLAKY:
            self._remark = f"{len(self._flaky)} tests are flaky: more than {MOST_FLAKY} are a failure"
            return
        for failure in self._flaky:
            _count_as_passed(terminal, failure)
        if not terminal.stats.get("failed") and not terminal.stats.get("error"):
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._flaky:
            terminalreporter.section(f"flaky tests, with tracebacks in {self._file}")
        for failure in self._flaky:
            terminalreporter.write_line(f"FLAKY {failure.nodeid}", yellow=True)
        if self._remark:
            terminalreporter.ensure_newline()
            terminalreporter.write_line(self._remark, red=True)

    def _run(self, failure: Failure) -> None:
        # A file, not a pipe: a server that outlives its test would keep a pipe open, and this process waiting.
        with TemporaryFile("w+", errors="replace") as output:
            try:
                code = subprocess.run(
                    self._command(failure.nodeid),
                    cwd=self._config.invocation_params.dir,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=_AT_MOST,
                ).returncode
            except subprocess.TimeoutExpired as error:
                failure.later.append(str(error))
                return
            output.seek(0)
            printed = output.read()
        failure.later.append(printed)
        # A test that is skipped now has not passed, and one that is not found under its name has not either.
        failure.passed = code == 0 and _PASSED.search(printed.rpartition("\n=")[2]) is not None

    def _command(self, nodeid: str) -> list[str]:
        """Repeats the options of this run, with one test in the place of all."""
        option = self._config.option
        words = [word for word in self._config.invocation_params.args if str(word) not in option.file_or_dir]
        own = ["--flaky-to=", f"--rootdir={self._config.rootpath}"]
        if self._config.pluginmanager.hasplugin("xdist"):
            own.append("--numprocesses=0")
        if isinstance(getattr(option, "randomly_seed", None), int):
            # A failure that comes from the seed is no luck.
            own.append(f"--randomly-seed={option.randomly_seed}")
        return [sys.executable, "-m", "pytest", *map(str, words), *own, f"{self._config.rootpath}/{nodeid}"]

    def _write(self) -> None:
        """In a new file: the last one may be another user's."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        written = self._file.with_name(f"{self._file.name}.new")
        written.unlink(missing_ok=True)
        written.write_text("".join(f"FLAKY {each.nodeid}\n{each.traceback}\n\n" for each in self._flaky))
        written.replace(self._file)


def _failures(terminal: pytest.TerminalReporter) -> list[Failure]:
    """Returns the failed tests. Errors in fixtures are failures, too."""
    failure_by_test: dict[str, Failure] = {}
    for report in _reports(terminal, "failed", "error"):
        failure_by_test.setdefault(report.nodeid, Failure(report.nodeid)).reports.append(report)
    return list(failure_by_test.values())


def _reports(terminal: pytest.TerminalReporter, *categories: str) -> Iterator[pytest.TestReport]:
    for category in categories:
        yield from (report for report in terminal.stats.get(category, ()) if isinstance(report, pytest.TestReport))


def _reason_not_to(session: pytest.Session, terminal: pytest.TerminalReporter, failures: list[Failure]) -> str:
    """Returns why no test of this run is run again, or nothing."""
    ran = {report.nodeid for report in _reports(terminal, *terminal.stats)}
    if any(not isinstance(report, pytest.TestReport) for report in terminal.stats.get("error", ())):
        return "not run again: a file of tests cannot be read"
    if session.shouldfail or session.shouldstop or len(ran) < session.testscollected:
        return f"not run again: only {len(ran)} of {session.testscollected} tests were run"
    if len(failures) > MOST_FAILED:
        return f"not run again: {len(failures)} tests have failed, which is more than {MOST_FAILED}"
    return ""


def _show_later_runs(failure: Failure) -> None:
    """The terminal prints them below the first traceback, indented: their closing lines are not those of this run."""
    for number, printed in enumerate(failure.later, start=2):
        failure.reports[0].sections.append((f"Run {number}, alone", indent(printed, "| ")))


def _count_as_passed(terminal: pytest.TerminalReporter, failure: Failure) -> None:
    for category in ("failed", "error"):
        left = [report for report in terminal.stats.pop(category, ()) if report not in failure.reports]
        if left:
            terminal.stats[category] = left
    first = failure.reports[0]
    if first.nodeid not in {report.nodeid for report in _reports(terminal, "passed")}:
        terminal._add_stats("passed", [pytest.TestReport(first.nodeid, first.location, {}, "passed", None, "call")])
    # As pytest-rerunfailures has it: a test that passes counts once, and each of its failures beside it.
    again = pytest.TestReport(first.nodeid, first.location, {}, "failed", first.longrepr, "call")
    terminal._add_stats("rerun", [again] * len(failure.later))
