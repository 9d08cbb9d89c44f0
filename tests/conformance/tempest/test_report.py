"""What becomes of a test, from what Tempest said of it."""

import pytest

from tests.conformance.tempest.report import FAILED, PASSED, SKIPPED, Outcome, outcomes, passed_in, table, unexplained

TEST = "tempest.api.compute.servers.test_x.XTest.test_y"


def outcome(ended: str, said: str = "", test: str = TEST) -> Outcome:
    (outcome,) = outcomes([{"test": test, "ended": ended, "reason": said}])
    return outcome


@pytest.mark.parametrize(
    ("ended", "said", "explained"),
    [
        (PASSED, "", True),
        (SKIPPED, "Volume-backed live migration not available", True),
        (SKIPPED, "for an unknown reason", False),
        (FAILED, "Volume-backed live migration not available", False),
    ],
)
def test_what_did_not_pass_needs_a_reason(ended: str, said: str, explained: bool) -> None:
    new_outcome = outcome(ended, said)
    assert new_outcome.kind == ended
    assert unexplained([new_outcome]) == ([] if explained else [new_outcome])


def test_reason_of_a_failure_is_of_this_test_and_of_these_words() -> None:
    quotas = "tempest.api.compute.admin.test_quotas.QuotasAdminTestJSON.test_delete_quota"
    said = "Quotas of users are not served"
    assert outcome(FAILED, said, quotas).reason
    assert outcome(FAILED, "404 Not Found", quotas).reason is None
    assert outcome(FAILED, said).reason is None


def test_table_counts_by_module_and_is_read_again() -> None:
    test_outcomes = [
        outcome(PASSED),
        outcome(SKIPPED, "Volume-backed live migration not available"),
        outcome(FAILED, test=TEST.replace("_x", "_z")),
    ]
    new_table = table(test_outcomes)
    assert "| api.compute.servers.test_x | 1 | 0 | 1 | there is no volume service |" in new_table
    assert "| api.compute.servers.test_z | 0 | 1 | 0 |  |" in new_table
    assert "| **all 3** | 1 | 1 | 1 | |" in new_table
    assert (passed_in(new_table), passed_in("")) == (1, 0)
