"""What becomes of a template, from what tests said of it."""

from collections.abc import Mapping

import pytest

from tests.conformance.api_samples.report import (
    EXPLAINED_KIND,
    FAILED,
    NOT_SERVED_KIND,
    PASSED,
    Outcome,
    outcomes,
    table,
)

VALUE = "Values do not match:\nTemplate: a\nResponse: b"


def outcome(template: str, *said: Mapping[str, str]) -> Outcome:
    (outcome,) = outcomes([template], [{"templates": each} for each in said])
    return outcome


@pytest.mark.parametrize(
    ("template", "said", "kind"),
    [
        ("flavors/x", ["", ""], PASSED),
        ("flavors/x", ["", VALUE], FAILED),
        ("flavors/x", [], FAILED),
        ("os-console-output/x", [VALUE], EXPLAINED_KIND),
        ("os-console-output/x", ["404 instead of 200"], FAILED),
        ("os-console-output/x", [VALUE, "404 instead of 200"], FAILED),
        ("os-migrations/x", [], EXPLAINED_KIND),
        ("os-volumes/x", [], NOT_SERVED_KIND),
    ],
)
def test_template_passes_if_each_use_does_and_else_needs_a_reason_for_each(
    template: str, said: list[str], kind: str
) -> None:
    new_outcome = outcome(template, *({template: each} for each in said))
    assert (new_outcome.kind, new_outcome.known) == (kind, kind != FAILED)
    assert bool(new_outcome.reason) == (kind != PASSED)


def test_reasons_of_several_failures_are_all_named() -> None:
    failures = [VALUE, "POST x: 400 Unavailable console type spice-html5"]
    new_outcome = outcome(
        "os-remote-consoles/x-resp.json.tpl", *({"os-remote-consoles/x-resp.json.tpl": each} for each in failures)
    )
    assert new_outcome.kind == EXPLAINED_KIND
    assert len(new_outcome.reason.split("; ")) == 2


def test_table_counts_each_kind() -> None:
    new_table = table([Outcome("a/1", PASSED), Outcome("a/2", FAILED, "why", known=False), Outcome("b/1", PASSED)])
    assert "| a | 1 | 1 | 0 | 0 |  |" in new_table
    assert "| **all 3** | 2 | 1 | 0 | 0 | |" in new_table
