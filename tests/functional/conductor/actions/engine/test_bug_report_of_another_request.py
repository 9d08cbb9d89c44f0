"""After a restore of the database the number of an action is another action's: a late report on the first one ended the second, which its
host had yet to begin.
"""

from typing import Any

import pytest

from minova import errors
from minova.db import models
from minova.objects.servers.states import PowerState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness

BEFORE = "req-of-the-database-that-was-lost"


def asked(harness: ConductorHarness, uuid: str, kind: str) -> tuple[dict[str, Any], str]:
    """Ask for the action. Returns what reports of its host name, and the id of its request."""
    named: dict[str, Any] = {"instance_uuid": uuid, "action_id": harness.act(uuid, kind), "host": "a"}
    with harness.db.read() as session:
        return named, str(session.get_one(models.InstanceAction, named["action_id"]).request_id)


@pytest.mark.parametrize("kind", ["stop", "rebuild"])
def test_report_on_an_action_of_another_request_changes_nothing(harness: ConductorHarness, kind: str) -> None:
    uuid = harness.active()
    named, own = asked(harness, uuid, kind)
    before = harness.state(uuid)
    conductor = harness.conductor
    for again in (False, True):
        with pytest.raises(errors.StaleAttempt):
            conductor.begin_action(CTX, **named, again=again, request_id=BEFORE)
    with pytest.raises(errors.StaleAttempt):
        conductor.action_progressed(CTX, **named, task_state="", request_id=BEFORE)
    conductor.action_succeeded(CTX, **named, power_state=int(PowerState.SHUTDOWN), request_id=BEFORE)
    conductor.action_failed(CTX, **named, reason="no", untouched=True, request_id=BEFORE)
    assert (harness.state(uuid), harness.actions(uuid)[-1]) == (before, (kind, None))
    conductor.begin_action(CTX, **named, request_id=own)
    conductor.action_progressed(CTX, **named, task_state="", request_id=own)
    conductor.action_succeeded(CTX, **named, power_state=int(PowerState.SHUTDOWN), request_id=own)
    assert harness.actions(uuid)[-1] == (kind, "Success")


def test_success_of_another_request_does_not_open_an_action_that_has_failed(harness: ConductorHarness) -> None:
    uuid = harness.active()
    named, own = asked(harness, uuid, "stop")
    harness.conductor.action_failed(CTX, **named, reason="no", request_id=own)
    failed = harness.state(uuid)
    harness.conductor.action_succeeded(CTX, **named, power_state=int(PowerState.SHUTDOWN), request_id=BEFORE)
    assert (harness.state(uuid), harness.actions(uuid)[-1]) == (failed, ("stop", "Error"))
    harness.conductor.action_succeeded(CTX, **named, power_state=int(PowerState.SHUTDOWN), request_id=own)
    assert harness.actions(uuid)[-1] == ("stop", "Success")


def test_host_of_an_earlier_release_names_no_request(harness: ConductorHarness) -> None:
    uuid = harness.active()
    named, _ = asked(harness, uuid, "stop")
    harness.conductor.begin_action(CTX, **named)
    harness.conductor.action_succeeded(CTX, **named, power_state=int(PowerState.SHUTDOWN))
    assert harness.actions(uuid)[-1] == ("stop", "Success")
