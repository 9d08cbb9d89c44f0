"""A guest that runs on a host that an ended move has left is paused, unless the database may be older than the guest."""

import pytest

from minova.objects.servers.migration import Hold
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.hosts.test_bug_old_migration_proves_removal import set_row
from tests.functional.conductor.moves.test_bug_debts_starve import owed
from tests.functional.conductor.test_unexpected_guests import mark


@pytest.mark.parametrize(("is_safe", "paused"), [(False, True), (True, False)], ids=["sure", "in safe mode"])
def test_it_is_paused(harness: ConductorHarness, is_safe: bool, paused: bool) -> None:
    uuid = harness.active("a")
    owed(harness, uuid, hold=Hold.LAST)
    set_row(harness, uuid, host="b", node="b-node", attempt=2)
    if is_safe:
        harness.conductor.safe_mode.hold("test", "a restored database")
    answer = harness.conductor.report_guests(CTX, host="a", guests=(mark(uuid, attempt=1),))
    assert answer.pause == ((uuid,) if paused else ())
    assert harness.conductor.report_guests(CTX, host="b", guests=(mark(uuid, attempt=2),)).pause == ()
