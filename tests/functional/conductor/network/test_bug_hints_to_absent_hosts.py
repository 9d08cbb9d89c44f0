"""The queue of a host that was off grew without bound: by one message for each change of its groups' members."""

import pytest

from minova.conductor.tasks.worker import TaskWorker
from minova.objects.network.network import Network
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import network, on, port, subnet

CHANGES = 20


@pytest.fixture
def flat(harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch) -> Network:
    """A network with a server on host `a`."""
    monkeypatch.setattr(TaskWorker, "pause", lambda worker, seconds: False)
    flat = network(harness, network_type="flat", physical_network="dc1")
    subnet(harness, flat, "10.1.0.0/24")
    harness.active(**on(flat))
    harness.settle()
    return flat


def change_members(harness: ConductorHarness, flat: Network) -> int:
    """Returns how many messages the host got."""
    before = len(harness.hosts["a"].members)
    for _ in range(CHANGES):
        port(harness, flat)
        harness.settle()
    return len(harness.hosts["a"].members) - before


def test_a_host_that_is_off_gets_no_hints(harness: ConductorHarness, flat: Network) -> None:
    assert change_members(harness, flat) > 0
    harness.silence("a")
    assert change_members(harness, flat) == 0
    harness.register("a")
    harness.beat("a")
    harness.tick(harness.conductor, 3.0)
    assert change_members(harness, flat) > 0


def test_a_host_that_cannot_work_for_now_still_gets_hints(harness: ConductorHarness, flat: Network) -> None:
    """Its compute lives, and applies them to the guests that run."""
    harness.cannot_work("a")
    harness.tick(harness.conductor, 3.0)
    assert change_members(harness, flat) > 0


def test_events_of_neutron_are_not_sent_to_a_host_that_is_off(harness: ConductorHarness, flat: Network) -> None:
    told = harness.hosts["a"].network_changes
    harness.conductor.network_changed(CTX, instance_uuid="1", host="a")
    assert len(told) == 1
    harness.silence("a")
    harness.conductor.network_changed(CTX, instance_uuid="1", host="a")
    assert len(told) == 1
