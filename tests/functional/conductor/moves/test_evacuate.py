"""What an evacuation ends, and what keeps it from beginning."""

import pytest
from sqlalchemy import select, update

from minova import errors
from minova.db import models
from minova.objects.requests.evacuation import EvacuationRequest
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request


def evacuate(harness: ConductorHarness, uuid: str, *, override_lock: bool = False) -> None:
    harness.conductor.evacuate_server(
        new_request(), instance_uuid=uuid, request=EvacuationRequest(), override_lock=override_lock
    )


def preview(harness: ConductorHarness, uuid: str, *, override_lock: bool = False) -> None:
    harness.conductor.preview_evacuation(
        new_request(), instance_uuid=uuid, request=EvacuationRequest(), override_lock=override_lock
    )


def fence(harness: ConductorHarness, host: str) -> None:
    """As an operator says it, before a conductor has looked at what waits for the host."""
    with harness.db.read() as session:
        service = session.scalars(select(models.Service).where(models.Service.host == host)).one()
    harness.conductor.update_service(CTX, service_uuid=service.uuid, forced_down=True)


def test_an_action_in_progress_is_ended(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    action_id = harness.act(uuid, "reboot_hard")
    fence(harness, "a")
    harness.scheduler.order = ["b"]
    evacuate(harness, uuid)
    harness.settle()
    # A report that comes late changes nothing.
    harness.conductor.action_succeeded(CTX, instance_uuid=uuid, action_id=action_id, host="a", power_state=1)
    assert harness.state(uuid) == "active/rebuilding on a"
    harness.build("b", uuid, attempt=2)
    assert harness.state(uuid) == "active/None on b"
    with harness.db.read() as session:
        ended = session.get_one(models.InstanceAction, action_id)
        assert (ended.result, ended.finish_time is not None) == ("Error", True)


def test_a_locked_server_needs_the_override(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    with harness.db.write() as session:
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(locked_by="admin"))
    fence(harness, "a")
    with pytest.raises(errors.Conflict, match="is locked"):
        evacuate(harness, uuid)
    with pytest.raises(errors.Conflict, match="is locked"):
        preview(harness, uuid)
    preview(harness, uuid, override_lock=True)
    evacuate(harness, uuid, override_lock=True)
    with pytest.raises(errors.Conflict, match=r"while its evacuation .* is in status accepted"):
        preview(harness, uuid, override_lock=True)


def test_bug_preview_waited_for_other_changes_of_the_server(harness: ConductorHarness) -> None:
    """It decides nothing, so it holds nothing."""
    uuid = harness.active("a")
    fence(harness, "a")
    with harness.db.write() as session:
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(display_name="changing"))
        session.execute(update(models.Service).where(models.Service.host == "a").values(disabled_reason="changing"))
        session.flush()
        preview(harness, uuid)


def test_a_paused_server_stays(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    harness.acted(uuid, "pause")
    fence(harness, "a")
    with pytest.raises(errors.Conflict, match="while it is in vm_state paused"):
        evacuate(harness, uuid)
