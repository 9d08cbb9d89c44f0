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
    (made,) = outcomes([template], [{"templates": each} for each in said])
    return made


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
    made = outcome(template, *({template: each} for each in said))
    assert (made.kind, made.known) == (kind, kind != FAILED)
    assert bool(made.reason) == (kind != PASSED)


def test_reasons_of_several_failures_are_all_named() -> None:
    failures = [VALUE, "POST x: 400 Unavailable console type spice-html5"]
    made = outcome(
        "os-remote-consoles/x-resp.json.tpl", *({"os-remote-consoles/x-resp.json.tpl": each} for each in failures)
    )
    assert made.kind == EXPLAINED_KIND
    assert len(made.reason.split("; ")) == 2


def test_table_counts_each_kind() -> None:
    made = table([Outcome("a/1", PASSED), Outcome("a/2", FAILED, "why", known=False), Outcome("b/1", PASSED)])
    assert "| a | 1 | 1 | 0 | 0 |  |" in made
    assert "| **all 3** | 2 | 1 | 0 | 0 | |" in made
