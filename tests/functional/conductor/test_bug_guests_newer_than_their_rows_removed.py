"""After the restore of a backup, audits removed guests in use whose rows said building, scheduling, shelved or error."""

from sqlalchemy import update

from minova import errors
from minova.db import models
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness


def judged(harness: ConductorHarness, host: str, uuid: str, attempt: int, power_state: int = 1) -> tuple[bool, str]:
    """Returns whether the audit removes the domain, and what it says of it."""
    view = harness.view(host, uuid, attempt=attempt, power_state=power_state)
    inputs = harness.conductor.begin_audit(CTX, host=host, view=view)
    return uuid in inputs.unexpected_domains, " ".join(inputs.conflicts)


def test_a_guest_whose_row_was_restored_to_its_scheduling_stays(harness: ConductorHarness) -> None:
    harness.scheduler.mood = errors.ServiceUnavailable("no scheduler")
    (uuid,) = harness.create()
    removed, said = judged(harness, "a", uuid, attempt=1)
    assert not removed
    assert "newer than its row" in said


def test_a_guest_whose_row_was_restored_to_another_attempt_stays(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    assert judged(harness, "b", uuid, attempt=2)[0] is False


def test_a_guest_that_was_unshelved_since_stays(harness: ConductorHarness) -> None:
    uuid = harness.active()
    with harness.db.write() as session:
        values = {"vm_state": "shelved_offloaded", "host": None, "node": None}
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(values))
    assert judged(harness, "b", uuid, attempt=2)[0] is False
    assert judged(harness, "a", uuid, attempt=1)[0] is False, "a guest that runs is not what was offloaded"
    assert judged(harness, "a", uuid, attempt=1, power_state=4)[0] is True


def test_what_an_attempt_left_that_failed_is_removed(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    harness.fail("a", uuid)
    assert judged(harness, "a", uuid, attempt=1)[0] is True
