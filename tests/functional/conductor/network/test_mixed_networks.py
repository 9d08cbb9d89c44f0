"""A server that was made on minova's own networks gets an interface on a network of Neutron, and keeps the others."""

from pathlib import Path

from minova.db.networks import neutron_ports, vifs
from minova.objects.network.vif import NEUTRON
from minova.objects.requests.build_extras import RequestedNic
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, request
from tests.functional.conductor.network_cases import network, on, subnet
from tests.tables import make_tables


def test_interfaces_of_both_services_are_there_in_order(tmp_path: Path) -> None:
    make_tables(url := f"sqlite:///{tmp_path}/minova.sqlite")
    harness = ConductorHarness(url)
    try:
        blue, red = network(harness), network(harness)
        subnet(harness, blue, "10.1.0.0/24")
        subnet(harness, red, "10.2.0.0/24")
        (server,) = harness.conductor.create_servers(CTX, request=request(1, **on(blue, red))).instance_uuids
        nic = RequestedNic(network_id="net-1", service=NEUTRON)
        harness.conductor.worker.run(
            lambda session: neutron_ports.add(session, server, "demo", "compute:nova", {2: nic})
        )
        with harness.db.read() as session:
            vif_list = vifs.of_instances(session, [server])[server]
        assert [vif.network_id for vif in vif_list] == [blue.id, red.id, "net-1"]
        assert [len(vif.addresses) for vif in vif_list] == [1, 1, 0]
    finally:
        harness.close()
