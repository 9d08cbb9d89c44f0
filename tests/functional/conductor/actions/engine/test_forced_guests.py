"""The record of an action says that its guest did not shut itself down in time, and what was done then."""

from typing import Any

import pytest
from sqlalchemy import select

from minova.db import models
from minova.objects.actions.power import REBOOT_SOFT, STOP
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness


def said(harness: ConductorHarness, action_id: int) -> tuple[str | None, str | None, str | None]:
    """The result, the text for users and the event's text for administrators."""
    with harness.db.read() as session:
        record = session.get_one(models.InstanceAction, action_id)
        event = select(models.InstanceActionEvent.details).where(models.InstanceActionEvent.action_id == action_id)
        return record.result, record.message, session.scalar(event)


@pytest.mark.parametrize(
    ("kind", "power_state", "text"), [("reboot_soft", 1, REBOOT_SOFT.forced), ("stop", 4, STOP.forced)]
)
def test_the_record_of_a_forced_guest_says_so(
    harness: ConductorHarness, kind: str, power_state: int, text: str
) -> None:
    uuid = harness.active()
    action = harness.act(uuid, kind)
    report: dict[str, Any] = {"instance_uuid": uuid, "action_id": action, "host": "a", "power_state": power_state}
    harness.conductor.action_succeeded(CTX, **report, forced=True)
    assert said(harness, action) == ("Success", text, text)


def test_the_record_of_a_guest_that_shuts_itself_down_says_nothing(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action = harness.act(uuid, "reboot_soft")
    harness.conductor.action_succeeded(CTX, instance_uuid=uuid, action_id=action, host="a", power_state=1)
    assert said(harness, action) == ("Success", None, None)


def test_a_stale_report_of_a_forced_guest_changes_no_record(harness: ConductorHarness) -> None:
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    harness.conductor.action_succeeded(CTX, instance_uuid=uuid, action_id=stop, host="a", power_state=4)
    harness.conductor.action_succeeded(CTX, instance_uuid=uuid, action_id=stop, host="a", power_state=4, forced=True)
    assert said(harness, stop) == ("Success", None, None)
