"""The reason of a failed action: `server show` (the fault) and `server event show` (the record) say the same of it."""

import re

import pytest
from sqlalchemy import select

from minova.db import models
from minova.objects.actions.action import ServerAction
from minova.objects.actions.table import ACTIONS, RUN_BY_HOSTS
from minova.objects.servers.failures import TEXTS
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness

# A word that only a program uses: createImage, live-migration, change_password.
INTERNAL = re.compile(r"[a-z]+[A-Z]|[a-z][-_][a-z]")


def shown(harness: ConductorHarness, uuid: str, action_id: int) -> tuple[str | None, str | None]:
    """The texts for users: of the server's fault and of the action's record."""
    with harness.db.read() as session:
        model = models.InstanceFault
        faults = session.scalars(select(model.message).where(model.instance_uuid == uuid).order_by(model.id.desc()))
        return faults.first(), session.get_one(models.InstanceAction, action_id).message


@pytest.mark.parametrize("action", RUN_BY_HOSTS, ids=lambda action: action.kind)
def test_fault_and_record_of_a_failed_action_have_one_reason(harness: ConductorHarness, action: ServerAction) -> None:
    uuid = harness.active()
    harness.bring_to(uuid, min(action.vm_states))
    action_id = harness.act(uuid, action.kind)
    harness.conductor.action_failed(
        CTX, instance_uuid=uuid, action_id=action_id, host="a", reason="no space", kind="DiskFull", power_state=1
    )
    fault, recorded = shown(harness, uuid, action_id)
    assert fault == recorded == f"The server could not be {action.done}. {TEXTS['DiskFull']}"


def test_sentences_have_no_internal_name_of_an_action() -> None:
    assert [action.kind for action in ACTIONS if INTERNAL.search(action.done)] == []


def test_reason_of_the_agent_is_shown_to_users(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action_id = harness.act(uuid, "change_password")
    harness.conductor.action_failed(
        CTX,
        instance_uuid=uuid,
        action_id=action_id,
        host="a",
        reason="The guest's agent refuses the password: too short.",
        kind="GuestAgentRefused",
        power_state=1,
        agent_reason="too short.",
    )
    text = "The server could not be given another password. The agent in the guest refuses it. It says: too short."
    assert shown(harness, uuid, action_id) == (text, text)
