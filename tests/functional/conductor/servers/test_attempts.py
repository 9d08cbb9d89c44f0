"""The attempts that explain shows: every host that a build was tried on, in their order."""

from minova.db.api_queries import instances
from minova.objects.redact import redact_hosts
from tests.functional.conductor.conductor_harness import ConductorHarness


def attempts(harness: ConductorHarness, uuid: str) -> list[tuple[str, str | None, str | None]]:
    with harness.db.read() as session:
        found = instances.attempts(session, [uuid]).get(uuid, [])
    return [(one.host, one.result, one.reason) for one in found]


def test_a_retry_on_an_alternate_is_told_with_its_reason(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    assert attempts(harness, uuid) == [("a", None, None)]
    harness.fail("a", uuid, reason="no disk on a-node")
    assert attempts(harness, uuid) == [("a", "Error", "no disk on a-node"), ("b", None, None)]
    harness.build("b", uuid, attempt=2)
    assert attempts(harness, uuid) == [("a", "Error", "no disk on a-node"), ("b", "Success", None)]


def test_a_fault_can_be_told_without_its_hosts(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    for number, host in enumerate("abc", start=1):
        harness.fail(host, uuid, attempt=number, reason=f"no disk on {host}-node")
    with harness.db.read() as session:
        fault = instances.last_faults(session, [uuid])[uuid].message
        names = {name for one in instances.attempts(session, [uuid])[uuid] for name in one.names}
    assert "a: no disk on a-node; b: no disk on b-node; c: no disk on c-node" in fault
    assert redact_hosts(fault, names).endswith("no disk on the host; no disk on the host; no disk on the host")


def test_who_was_never_built_has_no_attempts(harness: ConductorHarness) -> None:
    harness.scheduler.order = []
    (uuid,) = harness.create()
    assert attempts(harness, uuid) == []
