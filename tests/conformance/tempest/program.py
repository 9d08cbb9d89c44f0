"""Run by an interpreter that has Tempest: tells which classes of tests there are, then runs those that it is told to.

TEMPEST_CONFIG_DIR=FOLDER python program.py --list       a JSON object: {class: number of its tests}
TEMPEST_CONFIG_DIR=FOLDER python program.py              each line of input is a class; answers a JSON object for each of
                                                         its tests, and {"class": ...} at the end of the class
"""

import json
import os
import pkgutil
import sys
import traceback
import unittest
from collections.abc import Iterator
from importlib import import_module
from types import TracebackType
from typing import Any

PACKAGES = ("tempest.api.compute", "tempest.scenario")
# What is printed by tests must not come between the answers.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
# unittest gives what was raised, testtools a dictionary of texts.
Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None] | None
Details = dict[str, Any] | None


def say(**message: Any) -> None:
    print(json.dumps(message), file=answers, flush=True)


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests_of(each)
        else:
            yield each


def classes() -> dict[str, list[unittest.TestCase]]:
    """{its full name: its tests}, of all modules."""
    tests_by_class: dict[str, list[unittest.TestCase]] = {}
    for package in PACKAGES:
        for module in pkgutil.walk_packages(import_module(package).__path__, package + "."):
            if not module.ispkg:
                for test in tests_of(unittest.TestLoader().loadTestsFromModule(import_module(module.name))):
                    name = f"{type(test).__module__}.{type(test).__name__}"
                    # A base class that another module has imported belongs to its own module.
                    if type(test).__module__ == module.name:
                        tests_by_class.setdefault(name, []).append(test)
    return tests_by_class


def name_of(test: unittest.TestCase) -> str:
    """Without the ids and tags that decorators add."""
    return test.id().partition("[")[0]


class Result(unittest.TestResult):
    """What a class itself says before its first test, or after its last one, counts for each of its tests."""

    def __init__(self, tests: list[unittest.TestCase]) -> None:
        super().__init__()
        self.endings: dict[str, tuple[str, str, str] | None] = {name_of(test): None for test in tests}

    def addSuccess(self, test: unittest.TestCase, details: Details = None) -> None:  # noqa: N802  - unittest's
        self.end(test, "passed", "")

    def addError(self, test: unittest.TestCase, err: Raised, details: Details = None) -> None:  # noqa: N802  - unittest's
        self.end(test, "failed", *described(err, details))

    def addFailure(self, test: unittest.TestCase, err: Raised, details: Details = None) -> None:  # noqa: N802  - unittest's
        self.end(test, "failed", *described(err, details))

    def addSkip(self, test: unittest.TestCase, reason: str | None = None, details: Details = None) -> None:  # noqa: N802  - unittest's
        if reason is None and details and "reason" in details:
            reason = details["reason"].as_text()
        self.end(test, "skipped", str(reason))

    def addExpectedFailure(self, test: unittest.TestCase, err: Raised, details: Details = None) -> None:  # noqa: N802  - unittest's
        self.end(test, "failed", *described(err, details))

    def addUnexpectedSuccess(self, test: unittest.TestCase, details: Details = None) -> None:  # noqa: N802  - unittest's
        self.end(test, "failed", "an unexpected success")

    def end(self, test: unittest.TestCase, kind: str, reason: str, whole: str = "") -> None:
        mine = name_of(test) in self.endings
        for name in [name_of(test)] if mine else list(self.endings):
            former_ending = self.endings[name]
            if former_ending is None or (kind == "failed" and former_ending[0] == "passed"):
                self.endings[name] = (kind, reason, whole)


def described(err: Raised, details: Details) -> tuple[str, str]:
    """What was raised, and the end of all that was said: testtools puts logs before the traceback, into the text of what it raises."""
    if err is not None and err[0] is not None:
        whole = "".join(traceback.format_exception(*err))
    else:
        whole = "\n".join(content.as_text() for name, content in (details or {}).items() if "traceback" in name)
    lines = whole.rpartition("Traceback (most recent call last):\n")[2].splitlines()
    raised = next((number for number, line in enumerate(lines) if line and not line.startswith(" ")), 0)
    return "\n".join(lines[raised:]).strip()[:2000], whole[-6000:]


def run(name: str, tests: list[unittest.TestCase]) -> None:
    result = Result(tests)
    unittest.TestSuite(tests).run(result)
    for test, ending in result.endings.items():
        kind, reason, whole = ending or ("failed", "it did not run", "")
        say(test=test, ended=kind, reason=reason, traceback=whole)
    say(**{"class": name})


def main() -> None:
    tests_by_class = classes()
    if "--list" in sys.argv:
        say(**{name: len(tests) for name, tests in tests_by_class.items()})
        return
    for line in sys.stdin:
        name = line.strip()
        run(name, tests_by_class[name])


if __name__ == "__main__":
    main()
