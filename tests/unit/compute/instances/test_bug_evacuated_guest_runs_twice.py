"""A host could neither build an evacuated server nor remove what it had made, and reported that the attempt had failed: the next host
ran the guest while the first one might run it, too.
"""

import msgspec
import pytest

from minova import errors
from minova.objects.requests.evacuation import Evacuation
from minova.objects.servers.build import BuildMessage
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute

AWAY = errors.HypervisorUnavailable("libvirtd has ended")


@pytest.fixture
def compute() -> Compute:
    return Compute().start()


def build(compute: Compute, evacuation: Evacuation | None) -> BuildMessage:
    message = msgspec.structs.replace(compute.conductor.commit_build("i", HOST, NODE, FLAVOR), evacuation=evacuation)
    compute.conductor.open["i"] = msgspec.structs.replace(compute.conductor.open["i"], message=message)
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    return message


def audit(compute: Compute) -> None:
    compute.manager.update_available_resource()
    compute.run()


def test_an_evacuation_has_failed_once_nothing_of_it_is_left(compute: Compute) -> None:
    with compute.hypervisor_fails("power_on", "destroy", error=AWAY):
        build(compute, Evacuation(old_attempt=0))
        audit(compute)
    assert (compute.conductor.failures, len(compute.domains())) == ([], 1)
    audit(compute)
    assert (len(compute.conductor.failures), compute.domains(), compute.used()) == (1, {}, (0, 0, 0))
    audit(compute)
    assert len(compute.conductor.failures) == 1


def test_a_new_server_does_not_wait(compute: Compute) -> None:
    """Nobody has used it yet, and an audit removes what is left."""
    with compute.hypervisor_fails("power_on", "destroy", error=AWAY):
        build(compute, None)
    assert len(compute.conductor.failures) == 1
