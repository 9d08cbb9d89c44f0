"""What became of each test, and the table of it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.conformance.tempest.reasons import FAILURES, SKIPS

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
KINDS = (PASSED, FAILED, SKIPPED)
_SUM = re.compile(r"\| \*\*all \d+\*\* \| (\d+) \| ")


class Outcome(NamedTuple):
    """`reason`: why it did not pass, as reasons.py has it; None: it is not there."""

    test: str
    kind: str
    said: str
    reason: str | None

    @property
    def module(self) -> str:
        """Without the package of Tempest: api.compute.servers.test_servers."""
        return self.test.rpartition(".")[0].rpartition(".")[0].removeprefix("tempest.")


def outcomes(tests: Iterable[Mapping[str, Any]]) -> list[Outcome]:
    return [
        _outcome(test["test"], test["ended"], test["reason"]) for test in sorted(tests, key=lambda test: test["test"])
    ]


def _outcome(test: str, kind: str, said: str) -> Outcome:
    if kind == PASSED:
        return Outcome(test, kind, "", "")
    if kind == SKIPPED:
        return Outcome(test, kind, said, next((reason for text, reason in SKIPS.items() if text in said), None))
    known_reasons = (reason for name, text, reason in FAILURES if name in test and text in said)
    return Outcome(test, kind, said, next(known_reasons, None))


def unexplained(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.reason is None]


def table(outcomes: Iterable[Outcome]) -> str:
    """In Markdown: a row of each module, and the sums."""
    outcomes = list(outcomes)
    rows = ["| tests of | passed | failed | skipped | why |", "| --- | --- | --- | --- | --- |"]
    for module in sorted({outcome.module for outcome in outcomes}):
        of_module = [outcome for outcome in outcomes if outcome.module == module]
        why = "; ".join(sorted({outcome.reason for outcome in of_module if outcome.reason}))
        rows.append(f"| {module} | {_counts(of_module)} | {why} |")
    rows.append(f"| **all {len(outcomes)}** | {_counts(outcomes)} | |")
    return "\n".join(rows) + "\n"


def _counts(outcomes: Iterable[Outcome]) -> str:
    kinds = [outcome.kind for outcome in outcomes]
    return " | ".join(str(kinds.count(kind)) for kind in KINDS)


def passed_in(text: str) -> int:
    """How many tests passed when the table in this text was written; 0 without a table."""
    sum_match = _SUM.search(text)
    return int(sum_match[1]) if sum_match else 0
