"""A real Debian guest with cloud-init has its addresses of both IP versions without help, on a VLAN's bridge of its host and on a `local` network.

MINOVA_DEBIAN: its image, which tools/debian-guest makes (tools/check nightly). A boot takes minutes under emulation.
"""

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.network import LOCAL, STATEFUL, VLAN
from minova.objects.network.vif import Vif, VifAddress, VifRule, VifSubnet
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import GuestData
from tests.integration.virt.test_guest import instance, load, remove_all
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

IMAGE = os.environ.get("MINOVA_DEBIAN", "")
BOOT = 2400.0
pytestmark = [pytest.mark.timeout(2 * BOOT), pytest.mark.skipif(not IMAGE, reason="nightly: MINOVA_DEBIAN")]
MAC = "fa:16:3e:00:00:01"
SUBNETS = (
    VifSubnet(id="4", cidr="192.0.2.0/24", gateway_ip="192.0.2.1", dns_nameservers=("9.9.9.9",)),
    VifSubnet(id="6", cidr="2001:db8:1::/64", gateway_ip="2001:db8:1::1", ipv6_mode="slaac"),
    VifSubnet(id="6b", cidr="2001:db8:2::/64", ipv6_mode=STATEFUL),
)
ADDRESSES = {"4": "192.0.2.50", "6": "2001:db8:1:0:f816:3eff:fe00:1", "6b": "2001:db8:2::50"}
# Says what the guest has, again and again: cloud-init may run before the last address is there.
SCRIPT = """#!/bin/sh
while true; do
  a=$(ip -json address show scope global | tr -d '\\n'); r=$(ip -json route | tr -d '\\n'); s=$(ip -json -6 route | tr -d '\\n')
  echo "DEBIAN {\\"addresses\\": $a, \\"four\\": $r, \\"six\\": $s}" > /dev/ttyS0
  sleep 10
done &
"""


@pytest.fixture
def server() -> Iterator[Libvirtd]:
    with Libvirtd(networks=True) as started:
        yield started


@pytest.fixture
def driver(tmp_path: Path, server: Libvirtd) -> Iterator[ComputeDriver]:
    pid = (server.directory / "server.pid").read_text().strip()
    for words in (("add", "brvlan", "type", "bridge", "forward_delay", "0"), ("set", "brvlan", "up")):
        subprocess.run(["nsenter", "-t", pid, "-n", "ip", "link", *words], check=True)
    mappings = {"dc1.100": "brvlan"}
    driver = load(tmp_path, server.uri, proc_net=server.proc_net, networks__bridge_mappings=mappings)
    yield driver
    remove_all(driver)
    driver.close()


def said(driver: ComputeDriver, uuid: str) -> dict[str, Any]:
    lines = [line for line in driver.console_output(uuid, None).splitlines() if "DEBIAN {" in line]
    try:
        return dict(json.loads(lines[-1].partition("DEBIAN ")[2])) if lines else {}
    except json.JSONDecodeError:  # another line came between
        return {}


@pytest.mark.parametrize("kind", [VLAN, LOCAL])
def test_debian_guest_has_both_addresses_and_routes(driver: ComputeDriver, kind: str) -> None:
    rules = tuple(VifRule(direction="egress", ip_version=version) for version in (4, 6))
    vif = Vif(
        port_id=str(uuid.uuid4()),
        mac_address=MAC,
        network_id=str(uuid.uuid4()),
        network_type=kind,
        physical_network="dc1" if kind == VLAN else None,
        segmentation_id=100 if kind == VLAN else None,
        mtu=1400,
        subnets=SUBNETS,
        addresses=tuple(VifAddress(subnet_id=each, ip_address=address) for each, address in ADDRESSES.items()),
        rules=rules,
    )
    new_instance = instance(
        display_name="debian",
        hostname="debian",
        flavor=Flavor(flavorid="d", name="debian", vcpus=2, memory_mb=768, root_gb=3),
        user_data=base64.b64encode(SCRIPT.encode()).decode(),
        config_drive=True,
        network_info=(vif,),
    )
    driver.prepare(new_instance, driver.available_nodes()[0], 1, Path(IMAGE), GuestData())
    driver.power_on(new_instance)

    def addresses() -> set[str]:
        links = said(driver, new_instance.uuid).get("addresses", [])
        return {each.get("local", "") for link in links for each in link.get("addr_info", [])}

    wait_for("the addresses", lambda: addresses() >= {*ADDRESSES.values()}, timeout=BOOT)
    has = said(driver, new_instance.uuid)
    four = {(route["dst"], route.get("gateway", "")) for route in has["four"]}
    gateways = {route.get("gateway", "") for route in has["six"] if route["dst"] == "default"}
    assert ("default", "192.0.2.1") in four
    if kind == VLAN:
        assert ("169.254.169.254", "") in four
        assert "2001:db8:1::1" in gateways
    else:  # the host advertises itself
        assert any(gateway.startswith("fe80::") for gateway in gateways), gateways
