"""A compute that runs on after its service was deleted can write its node again as soon as it has registered anew."""

from pathlib import Path

from tests.fakes.identified import Machine
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.hosts.test_bug_node_renamed import service


def test_audit_between_delete_and_registration_does_not_lock_the_compute_out(
    harness: ConductorHarness, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, harness.conductor)
    for _ in range(3):
        machine.boot("hv").die()
    living = machine.boot("hv").manager
    harness.conductor.delete_service(CTX, service_uuid=service(harness, "hv").uuid)
    assert living._auditor.update_available_resource(CTX) == ()
    living.heartbeat()
    assert service(harness, "hv").process is not None
    assert living._auditor.update_available_resource(CTX) == ()
