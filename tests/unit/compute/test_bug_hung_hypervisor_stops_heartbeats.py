"""A libvirtd that hung kept the call with which each heartbeat begins: the host fell silent for as long as it hung."""

import threading

import pytest

from minova.compute.instances.abandonment import Abandoned
from minova.compute.periodic.hypervisor_probe import HypervisorProbe
from minova.errors import HypervisorUnavailable


class Hypervisor:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.answered = threading.Event()
        self.calls = 0
        self.error: BaseException | None = None

    def ask(self) -> None:
        self.calls += 1
        self.may_answer.wait()
        self.answered.set()
        if self.error is not None:
            raise self.error


def test_probe_does_not_wait_longer_for_a_hypervisor_that_hangs_and_asks_once() -> None:
    hypervisor = Hypervisor()
    probe = HypervisorProbe(hypervisor.ask, within=0.01)
    for _ in range(3):
        with pytest.raises(HypervisorUnavailable, match="has not answered"):
            probe()
    assert hypervisor.calls == 1
    hypervisor.may_answer.set()
    assert hypervisor.answered.wait(60)
    # The late answer counts, and from then on it is asked anew.
    patient = HypervisorProbe(hypervisor.ask)
    patient()
    assert hypervisor.calls == 2


@pytest.mark.parametrize("error", [HypervisorUnavailable("libvirt is away"), Abandoned()])
def test_errors_of_the_hypervisor_are_those_of_the_probe(error: BaseException) -> None:
    hypervisor = Hypervisor()
    hypervisor.may_answer.set()
    hypervisor.error = error
    with pytest.raises(type(error)):
        HypervisorProbe(hypervisor.ask)()
