"""Hosts learn at once how the networks of their guests have changed."""

from collections.abc import Callable

import msgspec
import pytest

from minova.objects.network.network import Network, Subnet
from minova.objects.network.vif import Vif
from minova.objects.requests.build_extras import RequestedNic
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import network, on, port, subnet


def set_mtu(harness: ConductorHarness, changed: Network, spare: Subnet) -> None:
    harness.conductor.update_network(CTX, network=msgspec.structs.replace(changed, mtu=1400, reachable=True))


def add(harness: ConductorHarness, changed: Network, spare: Subnet) -> None:
    subnet(harness, changed, "10.3.0.0/24")


def change(harness: ConductorHarness, changed: Network, spare: Subnet) -> None:
    harness.conductor.update_subnet(CTX, subnet=msgspec.structs.replace(spare, gateway_ip="10.2.0.254"))


def delete(harness: ConductorHarness, changed: Network, spare: Subnet) -> None:
    harness.conductor.delete_subnet(CTX, subnet_id=spare.id)


def seen(harness: ConductorHarness, host: str = "a") -> Vif:
    (vifs,) = harness.conductor.interfaces_of_host(CTX, host=host).values()
    return vifs[0]


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (set_mtu, (1400, True, ["10.1.0.0/24", "10.2.0.0/24"], ["10.1.0.1", "10.2.0.1"])),
        (add, (1500, False, ["10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24"], ["10.1.0.1", "10.2.0.1", "10.3.0.1"])),
        (change, (1500, False, ["10.1.0.0/24", "10.2.0.0/24"], ["10.1.0.1", "10.2.0.254"])),
        (delete, (1500, False, ["10.1.0.0/24"], ["10.1.0.1"])),
    ],
)
def test_hosts_of_a_network_are_told_of_its_changes(
    harness: ConductorHarness,
    work: Callable[[ConductorHarness, Network, Subnet], None],
    expected: tuple[int, bool, list[str], list[str]],
) -> None:
    mine, others = network(harness), network(harness)
    subnet(harness, mine, "10.1.0.0/24")
    spare = subnet(harness, mine, "10.2.0.0/24")
    subnet(harness, others, "10.9.0.0/24")
    fixed = port(harness, mine, "10.1.0.9")
    harness.active(requested_networks=(RequestedNic(network_id=mine.id, port_id=fixed.id),))
    harness.scheduler.order = ["b"]
    harness.active("b", **on(others))
    harness.settle()
    told = {name: host.refreshed for name, host in harness.hosts.items()}
    work(harness, mine, spare)
    harness.settle()
    now = {name: host.refreshed - told[name] for name, host in harness.hosts.items()}
    assert now == {"a": 1, "b": 0, "c": 0}
    vif = seen(harness)
    sent_fields = (
        vif.mtu,
        vif.reachable,
        [subnet.cidr for subnet in vif.subnets],
        [subnet.gateway_ip for subnet in vif.subnets],
    )
    assert sent_fields == expected


def test_host_that_missed_the_message_reads_the_change_at_its_return(harness: ConductorHarness) -> None:
    """Its service asks at its start, and each minute."""
    mine = network(harness)
    subnet(harness, mine, "10.1.0.0/24")
    spare = subnet(harness, mine, "10.2.0.0/24")
    fixed = port(harness, mine, "10.1.0.9")
    harness.active(requested_networks=(RequestedNic(network_id=mine.id, port_id=fixed.id),))
    harness.settle()
    told = harness.hosts["a"].refreshed
    delete(harness, mine, spare)
    harness.kill("one")  # the message is lost
    harness.start("two")
    harness.settle()
    assert harness.hosts["a"].refreshed == told
    assert [subnet.cidr for subnet in seen(harness).subnets] == ["10.1.0.0/24"]
