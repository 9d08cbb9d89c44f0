"""The attempts that explain shows: every host that a build was tried on, in their order."""

import pytest

from minova.db import models
from minova.db.api_queries import instances
from minova.objects.servers.failures import CAUSED_BY_REQUEST
from tests.functional.conductor.conductor_harness import ConductorHarness


def attempts(harness: ConductorHarness, uuid: str) -> list[tuple[str, str | None, str | None]]:
    with harness.db.read() as session:
        attempts = instances.attempts(session, uuid)
    return [(attempt.host, attempt.result, attempt.reason) for attempt in attempts]


def test_a_retry_on_an_alternate_is_told_with_its_reason(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    assert attempts(harness, uuid) == [("a", None, None)]
    harness.fail("a", uuid, reason="no disk on a-node")
    assert attempts(harness, uuid) == [("a", "Error", "no disk on a-node"), ("b", None, None)]
    harness.build("b", uuid, attempt=2)
    assert attempts(harness, uuid) == [("a", "Error", "no disk on a-node"), ("b", "Success", None)]


def test_a_fault_has_fixed_texts_for_people_and_all_for_administrators(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    for number, (host, kind) in enumerate(
        {"a": "DiskFull", "b": "HypervisorUnavailable", "c": "DiskFull"}.items(), start=1
    ):
        harness.fail(host, uuid, attempt=number, reason=f"no disk in /var on {host}-node", kind=kind)
    with harness.db.read() as session:
        fault = instances.last_faults(session, [uuid])[uuid]
        (action,) = session.query(models.InstanceAction)
        kinds = [
            event.kind for event in session.query(models.InstanceActionEvent).order_by(models.InstanceActionEvent.id)
        ]
    text = (
        "Exceeded maximum number of retries. Build failed in 3 attempts. There is no disk space left on the host. "
        "The hypervisor of the host could not do it."
    )
    assert (fault.kind, fault.message, action.message) == ("MaxRetriesExceeded", text, text)
    assert fault.details.startswith(
        "MaxRetriesExceeded: Exceeded maximum number of retries. Build failed in 3 attempts. a: no disk in "
    )
    assert "b: no disk in /var on b-node; c: no disk in /var on c-node" in fault.details
    assert kinds == ["DiskFull", "HypervisorUnavailable", "DiskFull"]


@pytest.mark.parametrize("kind", sorted(CAUSED_BY_REQUEST))
def test_what_the_request_has_caused_is_tried_on_no_other_host(harness: ConductorHarness, kind: str) -> None:
    (uuid,) = harness.create()
    harness.fail("a", uuid, kind=kind, reason="bad", retriable=True)
    assert harness.state(uuid).startswith("error")
    assert attempts(harness, uuid) == [("a", "Error", "bad")]


def test_who_was_never_built_has_no_attempts(harness: ConductorHarness) -> None:
    harness.scheduler.order = []
    (uuid,) = harness.create()
    assert attempts(harness, uuid) == []
