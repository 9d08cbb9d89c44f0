"""What became of each template, and the table of it."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tests.conformance.api_samples.reasons import ALWAYS, EXPLAINED, NOT_REACHED, NOT_SERVED

PASSED, FAILED, EXPLAINED_KIND, NOT_SERVED_KIND = "passed", "failed", "differs", "not served"
KINDS = (PASSED, FAILED, EXPLAINED_KIND, NOT_SERVED_KIND)

UNUSED = "no test has come so far"


class Outcome(NamedTuple):
    """`reason`: why it did not pass. `known`: the reason stands in a table."""

    template: str
    kind: str
    reason: str = ""
    known: bool = True

    @property
    def folder(self) -> str:
        return self.template.partition("/")[0]


def outcomes(templates: Iterable[str], tests: Iterable[Mapping[str, Any]]) -> list[Outcome]:
    """A template passes if each use of it by each test does."""
    uses: dict[str, list[str]] = {}
    for test in tests:
        for template, reason in test["templates"].items():
            uses.setdefault(template, []).append(reason)
    return [_outcome(template, uses.get(template)) for template in sorted(templates)]


def _outcome(template: str, reasons: list[str] | None) -> Outcome:
    folder = template.partition("/")[0]
    if folder in NOT_SERVED:
        return Outcome(template, NOT_SERVED_KIND, NOT_SERVED[folder])
    if reasons is None:
        known_reason = next(
            (reason for beginning, reason in NOT_REACHED.items() if template.startswith(beginning)), None
        )
        return (
            Outcome(template, EXPLAINED_KIND, known_reason)
            if known_reason
            else Outcome(template, FAILED, UNUSED, known=False)
        )
    failures = [reason for reason in reasons if reason]
    if not failures:
        return Outcome(template, PASSED)
    known_reason = explanation(template, failures)
    if known_reason is not None:
        return Outcome(template, EXPLAINED_KIND, known_reason)
    return Outcome(template, FAILED, failures[0], known=False)


def explanation(template: str, failures: list[str]) -> str | None:
    """Of all failures, or None if one of them has no reason."""
    reasons = [_reason(template, failure) for failure in failures]
    return None if None in reasons else "; ".join(sorted({reason for reason in reasons if reason}))


def _reason(template: str, failure: str) -> str | None:
    for pattern, text, reason in EXPLAINED:
        if fnmatchcase(template, pattern) and text in failure:
            return reason
    return next((reason for text, reason in ALWAYS.items() if text in failure), None)


def table(outcomes: Iterable[Outcome]) -> str:
    """In Markdown: a row of each folder, the sums, and a line for what is not served for its own reason."""
    outcomes = list(outcomes)
    rows = ["| samples of | passed | failed | differs | not served | why |", "| --- | --- | --- | --- | --- | --- |"]
    for folder in sorted({outcome.folder for outcome in outcomes}):
        of_folder = [outcome for outcome in outcomes if outcome.folder == folder]
        why = "; ".join(sorted({outcome.reason for outcome in of_folder if outcome.known and outcome.reason}))
        rows.append(f"| {folder.removesuffix('.json.tpl')} | {' | '.join(map(str, _counts(of_folder)))} | {why} |")
    rows.append(f"| **all {len(outcomes)}** | {' | '.join(map(str, _counts(outcomes)))} | |")
    return "\n".join(rows) + "\n"


def _counts(outcomes: Iterable[Outcome]) -> list[int]:
    kinds = [outcome.kind for outcome in outcomes]
    return [kinds.count(kind) for kind in KINDS]
