"""A request for an action that was delivered twice was executed twice: a stop that came again 15 s later stopped a guest
that had been started meanwhile, and a deletion deleted a server that had been restored.
"""

from typing import Any

import pytest

from minova.db import models
from minova.objects.actions.table import BY_KIND, RUN_BY_HOSTS
from minova.objects.servers.states import VmState
from tests.fakes import interfaces
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request

OF_ACTIVE = sorted(action.kind for action in RUN_BY_HOSTS if VmState.ACTIVE in action.vm_states)


def arguments_of(harness: ConductorHarness, uuid: str, kind: str) -> dict[str, Any]:
    with harness.db.write() as session:
        return interfaces.arguments(session, BY_KIND[kind], uuid)


def with_interface(harness: ConductorHarness) -> str:
    uuid = harness.active()
    harness.acted(uuid, "attach_interface")
    return uuid


@pytest.mark.parametrize("kind", OF_ACTIVE)
def test_both_deliveries_get_the_same_answer_and_the_host_one_message(harness: ConductorHarness, kind: str) -> None:
    """Either answer may arrive first, so the second one must be no error."""
    uuid, request = with_interface(harness), new_request()
    arguments = arguments_of(harness, uuid, kind)
    sent = len(harness.hosts["a"].actions)
    for _ in range(2):
        harness.conductor.start_action(request, instance_uuid=uuid, action=kind, arguments=arguments)
    assert len(harness.hosts["a"].actions) == sent + 1
    assert [name for name, _ in harness.actions(uuid)].count(BY_KIND[kind].name) == 1 + (kind == "attach_interface")


def test_a_stop_that_comes_again_leaves_the_started_server_alone(harness: ConductorHarness) -> None:
    uuid, stop = harness.active(), new_request()
    harness.conductor.start_action(stop, instance_uuid=uuid, action="stop")
    report: Any = {"instance_uuid": uuid, "action_id": harness.action_id(uuid), "host": "a"}
    harness.conductor.begin_action(CTX, **report)
    harness.conductor.action_succeeded(CTX, **report, power_state=4)
    harness.acted(uuid, "start")
    harness.conductor.start_action(stop, instance_uuid=uuid, action="stop")
    assert harness.state(uuid) == "active/None on a"


def test_a_deletion_that_comes_again_leaves_the_restored_server_alone(harness: ConductorHarness) -> None:
    harness.settings.set_override("reclaim_instance_interval", 3600)
    uuid, deletion = harness.active(), new_request()
    harness.conductor.delete_server(deletion, instance_uuid=uuid)
    report: Any = {"instance_uuid": uuid, "action_id": harness.action_id(uuid), "host": "a"}
    harness.conductor.begin_action(CTX, **report)
    harness.conductor.action_succeeded(CTX, **report, power_state=4)
    harness.acted(uuid, "restore")
    harness.conductor.delete_server(deletion, instance_uuid=uuid)
    assert harness.state(uuid) == "active/None on a"


def test_an_unshelve_that_comes_again_leaves_the_shelved_server_alone(harness: ConductorHarness) -> None:
    uuid, unshelve = harness.active(), new_request()
    harness.acted(uuid, "shelve")
    harness.acted(uuid, "shelve_offload")
    for _ in range(2):
        harness.conductor.start_action(unshelve, instance_uuid=uuid, action="unshelve")
        harness.settle()
    harness.build("a", uuid, harness.instance(uuid).attempt)
    harness.acted(uuid, "shelve")
    harness.acted(uuid, "shelve_offload")
    harness.conductor.start_action(unshelve, instance_uuid=uuid, action="unshelve")
    assert harness.state(uuid) == "shelved_offloaded/None on None"
    with harness.db.read() as session:
        assert session.query(models.Task).count() == 0
