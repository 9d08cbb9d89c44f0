"""Two minovas of one machine and one network namespace keep their records in one folder: that of `tools/demo` took DHCP, zones of connections
and the metadata service from guests of the machine's own cloud.
"""

import dataclasses
import json
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from minova import conf as configuration
from minova.contracts.conductor import ConductorApi
from minova.metadata import service
from minova.objects.guests.guest_metadata import ADDRESS
from minova.objects.network.vif import network_name
from minova.virt.libvirt.networking.networks import LocalNetworks
from minova.virt.namespaces import calls
from minova.virt.namespaces.helper import Helper
from minova.virt.namespaces.kernel import NAMED
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import GuestInterface, HostSubnet, LocalNetwork
from tests.integration.virt.host_socket import Conductor
from tests.integration.virt.test_guest import instance
from tests.security.test_network_helper import COMPUTE, GROUP, ask, served
from tests.servers.veth_host import VethGuest, VethHost
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(180)
BRIDGE, OTHER_BRIDGE = "brlan", "brdemo"
OURS, DEMO = "qemu:///system", "qemu+unix:///system?socket=/demo/libvirt-sock"
GUEST = GuestInterface(mac="fa:16:3e:00:00:01", address="192.0.2.50", name="web")
LAN = LocalNetwork(
    network_id=str(uuid.uuid4()), over=BRIDGE, subnets=(HostSubnet(cidr="192.0.2.0/24", gateway="192.0.2.1"),)
)
INNER = LocalNetwork(
    network_id=str(uuid.uuid4()), subnets=(HostSubnet(cidr="10.9.0.0/24", gateway="10.9.0.1", dhcp=False),)
)
GET = """
import sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(f"http://{sys.argv[1]}/openstack/latest/meta_data.json", timeout=5) as answer:
        print(answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    pass
"""


@dataclasses.dataclass
class Machine:
    host: VethHost
    run: Path

    def of(self, owner: str) -> NetworkNamespaces:
        """What a process of this owner works with."""
        return NetworkNamespaces(
            self.run, self.host.path, f"@{self.host.name}", lambda: {BRIDGE, OTHER_BRIDGE}, owner=owner
        )

    def zones(self) -> set[str]:
        """The bridges whose connections the kernel tracks for themselves."""
        listed = json.loads(self.host.run("nft", "--json", "list", "map", "inet", "minova", "zones"))
        return {pair[0] for each in listed["nftables"] if "map" in each for pair in each["map"]["elem"]}


@pytest.fixture
def machine() -> Iterator[Machine]:
    # Not in pytest's folders, which dnsmasq's user may not read.
    with tempfile.TemporaryDirectory(prefix="minova-two-") as folder, VethHost() as host:
        Path(folder).chmod(0o755)
        machine = Machine(host, Path(folder) / "run")
        for name in (BRIDGE, OTHER_BRIDGE):
            host.bridge("", name)
        host.bridge(INNER.network_id)
        yield machine
        for record in machine.of("").all_records().values():
            machine.of(record.owner).remove(record.network.network_id)


class Libvirt:
    """That of the other minova: it has no guests."""

    def listAllNetworks(self) -> list[Any]:  # noqa: N802
        return []

    def listAllDomains(self, flags: int = 0) -> list[Any]:  # noqa: N802
        return []


def repair(networks: NetworkNamespaces, **mappings: str) -> None:
    """What a minova-compute without guests does twice a minute."""
    LocalNetworks(networks, lambda: (), mappings=mappings, interfaces=lambda: ()).repair(Libvirt(), {})


def test_bug_sweep_removes_networks_of_another_minova(machine: Machine) -> None:
    ours, demo = machine.of(OURS), machine.of(DEMO)
    for network in (LAN, INNER):
        ours.ensure(network)
    ours.enter(LAN.network_id, GUEST)
    records, namespaces = ours.records(), ours.namespaces()
    assert records[LAN.network_id].hosts == (GUEST,)
    own = msgspec.structs.replace(LAN, network_id=str(uuid.uuid4()))
    demo.ensure(own)
    assert [*demo.records()] == [own.network_id]
    repair(demo, lan=BRIDGE)
    assert demo.records() == {}
    assert (ours.records(), ours.namespaces(), ours.broken()) == (records, namespaces, {})
    # The rules of the host are those for all.
    assert f'"{INNER.bridge}"' in machine.host.run("nft", "list", "chain", "inet", "minova", "input")
    repair(ours, lan=BRIDGE)
    assert ours.records() == {}


def test_bug_look_at_bridges_takes_the_zones_of_another_minova(machine: Machine) -> None:
    ours, demo = machine.of(OURS), machine.of(DEMO)
    ours.track([BRIDGE])
    assert machine.zones() == {BRIDGE}
    repair(demo)
    assert machine.zones() == {BRIDGE}
    repair(demo, lan=BRIDGE, demo=OTHER_BRIDGE)
    assert machine.zones() == {BRIDGE, OTHER_BRIDGE}
    # Of a bridge that both use, the zone stays for the other one.
    ours.track([])
    assert machine.zones() == {BRIDGE, OTHER_BRIDGE}
    demo.track([OTHER_BRIDGE])
    assert machine.zones() == {OTHER_BRIDGE}


def test_bridges_that_a_release_without_owners_has_noted_keep_their_zones(machine: Machine) -> None:
    machine.run.mkdir()
    (machine.run / "bridges.json").write_text(json.dumps([BRIDGE]))
    repair(machine.of(DEMO), demo=OTHER_BRIDGE)
    assert machine.zones() == {BRIDGE, OTHER_BRIDGE}


def test_bug_metadata_service_takes_the_sockets_of_another_minova(machine: Machine) -> None:
    """The one that looked first served guests of both, whom it did not know: they got 404 for ever."""
    guests: dict[str, VethGuest] = {}
    conf = configuration.load([], "test", files=[])
    with ExitStack() as stack:
        for number, owner in enumerate((OURS, DEMO), 1):
            network = msgspec.structs.replace(INNER, network_id=str(uuid.uuid4()))
            machine.host.bridge(network.network_id)
            machine.of(owner).ensure(network)
            mac = f"fa:16:3e:00:00:0{number}"
            guests[owner] = machine.host.guest(network.network_id, mac, f"10.9.0.{number}5/24", "10.9.0.1")
        for number, owner in enumerate((OURS, DEMO), 1):
            conductor = Conductor({f"10.9.0.{number}5": instance(uuid=owner)})
            running = service.local(conf, cast(ConductorApi, conductor), machine.of(owner))
            running.start()
            stack.callback(running.stop)
            # The first one has looked when it answers; it is to leave the other's networks alone.
            read = wait_for("an answer", lambda owner=owner: guests[owner].python(GET, ADDRESS).strip(), 60)  # type: ignore[misc]
            assert json.loads(read)["uuid"] == owner


def test_network_without_an_owner_is_adopted_by_the_minova_that_makes_it_and_swept_by_none(machine: Machine) -> None:
    former, ours, demo = machine.of(""), machine.of(OURS), machine.of(DEMO)
    former.ensure(LAN)
    former.enter(LAN.network_id, GUEST)
    namespaces, (record,) = former.namespaces(), former.records().values()
    repair(demo, lan=BRIDGE)
    assert former.namespaces() == namespaces
    ours.ensure(LAN)
    assert (former.records(), ours.namespaces()) == ({}, namespaces)
    assert ours.records() == {LAN.network_id: msgspec.structs.replace(record, owner=OURS)}


def test_networks_of_a_libvirtd_that_is_gone_are_removed_on_demand(machine: Machine) -> None:
    ours, demo = machine.of(OURS), machine.of(DEMO)
    for networks, network, bridge in ((ours, INNER, BRIDGE), (demo, LAN, OTHER_BRIDGE)):
        networks.ensure(network)
        networks.track([bridge])
    before, left = ours.namespaces(), NAMED / f"{network_name(LAN.network_id)}@{machine.host.name}"
    assert left.exists()
    machine.of(DEMO).remove_all()
    assert (demo.records(), left.exists()) == ({}, False)
    assert (ours.namespaces(), ours.broken(), machine.zones()) == (before, {}, {BRIDGE, INNER.bridge})


def same_names(network_id: str) -> str:
    """Another ID, with the same first digits, of which the names of interfaces are made."""
    return network_id[:-1] + ("0" if network_id[-1] != "0" else "1")


def test_bug_id_with_the_same_first_digits_takes_interfaces_of_another_minova(machine: Machine) -> None:
    """Only the whole ID was compared with those of other owners."""
    ours, demo = machine.of(OURS), machine.of(DEMO)
    for network in (LAN, INNER):
        ours.ensure(network)
    before = ours.records(), ours.namespaces()
    for network in (LAN, INNER):
        twin = msgspec.structs.replace(network, network_id=same_names(network.network_id), over=OTHER_BRIDGE)
        for wanted in (twin, msgspec.structs.replace(twin, subnets=())):
            with pytest.raises(ValueError, match="interfaces with the names of those"):
                demo.ensure(wanted)
        demo.remove(twin.network_id)
        assert ours.broken() == {}
    assert (ours.records(), ours.namespaces(), demo.all_records()) == (*before, ours.records())


def test_bug_interfaces_of_a_record_that_cannot_be_read_are_removed_for_another_network(machine: Machine) -> None:
    ours = machine.of(OURS)
    ours.ensure(LAN)
    file = machine.run / "networks" / f"{network_name(LAN.network_id)}@{machine.host.name}" / "network.json"
    written = file.read_text()
    file.write_text("of a later release")
    machine.of(DEMO).remove(same_names(LAN.network_id))
    file.write_text(written)
    assert ours.broken() == {}
    # The network itself is removed also without its record.
    file.unlink()
    ours.remove(LAN.network_id)
    assert LAN.port not in machine.host.run("ip", "link", "show")


def test_bug_network_of_a_host_in_a_namespace_is_removed_by_an_id_with_its_suffix(machine: Machine) -> None:
    ours = machine.of(OURS)
    ours.ensure(LAN)
    # The folder and the names of a host in the machine's own network namespace.
    other = NetworkNamespaces(machine.run / "own", machine.host.path, owner=DEMO)
    with pytest.raises(ValueError, match="is no id of a network"):
        other.remove(f"{LAN.network_id}@{machine.host.name}")
    assert ours.broken() == {}


def test_bug_interface_of_a_guest_of_another_minova_is_entered(machine: Machine) -> None:
    """The rules of bridges then dropped the guest's requests for DHCP and metadata: they are for a device, whichever network names it."""
    ours, demo = machine.of(OURS), machine.of(DEMO)
    guest = msgspec.structs.replace(GUEST, tap="tap0123abcd-01")
    beside, apart = (
        msgspec.structs.replace(LAN, network_id=str(uuid.uuid4()), over=bridge) for bridge in (BRIDGE, OTHER_BRIDGE)
    )
    ours.ensure(LAN)
    ours.enter(LAN.network_id, guest)
    ours.ensure(INNER)
    without_record = machine.host.guest(INNER.network_id, "fa:16:3e:00:00:03")  # DHCP gives it no address
    for network in (beside, apart):
        demo.ensure(network)
    rules = machine.host.run("nft", "list", "table", "bridge", "minova")
    new_mac, new_tap = "fa:16:3e:00:00:02", "tap0123abcd-02"
    for network, mac, tap, reason in (
        (beside, new_mac, guest.tap, "on another network"),
        (apart, new_mac, guest.tap, "on another network"),
        (beside, guest.mac, new_tap, "on another network"),
        (beside, guest.mac, "", "on another network"),
        (apart, new_mac, without_record.tap, f"on bridge {INNER.bridge}"),
    ):
        with pytest.raises(ValueError, match=reason):
            demo.enter(network.network_id, GuestInterface(mac=mac, address="192.0.2.60", tap=tap))
    assert machine.host.run("nft", "list", "table", "bridge", "minova") == rules
    # Two clouds may give the same MAC address.
    demo.enter(apart.network_id, GuestInterface(mac=guest.mac, address="192.0.2.60", tap=new_tap))
    ours.enter(LAN.network_id, msgspec.structs.replace(guest, address="192.0.2.51"))
    assert (len(demo.records()[apart.network_id].hosts), len(ours.records()[LAN.network_id].hosts)) == (1, 1)


def test_helper_lets_no_process_without_rights_touch_networks_of_another_owner(machine: Machine) -> None:
    """Such as those of a minova that runs as root. The helper's owner is that of its own configuration."""
    ours, path = machine.of(OURS), machine.run / "socket" / "network.sock"
    ours.ensure(LAN)
    ours.enter(LAN.network_id, GUEST)
    ours.track([BRIDGE])
    before = ours.records(), ours.namespaces()
    network_id, other_guest = LAN.network_id, msgspec.structs.replace(GUEST, mac="fa:16:3e:00:00:09")
    with served(Helper(path, machine.of(DEMO), COMPUTE, GROUP)):
        for call in (
            calls.Ensure(msgspec.structs.replace(LAN, metadata=False), ""),
            calls.Enter(network_id, other_guest),
            calls.Forget(network_id, [GUEST.mac]),
            calls.Remove(network_id),
            calls.Track([]),
            calls.Listener(network_id),
            calls.Records(),
            calls.Namespaces(),
        ):
            # No message names an owner: the helper knows it.
            named = msgspec.to_builtins(call) | {"owner": OURS}
            answer = json.loads(ask(path, named, COMPUTE, COMPUTE))
            is_refused = isinstance(call, calls.Ensure | calls.Listener)
            reason = f"network {network_id} is on this host for the guests of libvirt at {OURS}"
            assert answer["refused"] == (reason if is_refused else "")
            assert (answer["failed"], answer["records"], answer["namespaces"]) == ("", {}, {})
    assert (ours.records(), ours.namespaces()) == before
    assert machine.zones() == {BRIDGE}
