"""Bindings of a guest that migrates live, in a real Neutron: what minova asks of `binding-extended` is what Neutron does."""

from collections.abc import Iterator
from typing import Any

import pytest
from keystoneauth1 import loading

from minova import conf as configuration
from minova import errors
from minova.conductor.network.neutron.live_bindings import LiveBindings
from minova.neutron_client import GROUP, NeutronClient
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.vif import NEUTRON, Vif
from minova.objects.servers.instance import Instance
from tests.servers.neutron import Neutron

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=512, root_gb=1)
SERVER = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"


@pytest.fixture(scope="module")
def neutron() -> Iterator[Neutron]:
    with Neutron() as server:
        server.agent("h1")
        server.agent("h2")
        yield server


@pytest.fixture
def client(neutron: Neutron) -> NeutronClient:
    conf = configuration.load([], "test", files=[])
    loading.register_auth_conf_options(conf, GROUP)
    conf.set_override("auth_type", "none", group=GROUP)
    conf.set_override("endpoint_override", neutron.url, group=GROUP)
    return NeutronClient(conf)


def test_the_binding_of_the_destination_is_prepared_activated_and_dropped(
    neutron: Neutron, client: NeutronClient
) -> None:
    network = neutron.network("blue", "10.9.0.0/24")
    port_body = {
        "network_id": network["id"],
        "device_id": SERVER,
        "device_owner": "compute:nova",
        "binding:host_id": "h1",
    }
    port = client.create_port(port_body)
    vif = Vif(port_id=port["id"], mac_address=port["mac_address"], network_id=network["id"], network_type=NEUTRON)
    instance = Instance(uuid=SERVER, display_name="one", flavor=FLAVOR, network_info=(vif,))
    bindings = LiveBindings(client, "br-int")

    def shown() -> tuple[str, dict[str, str]]:
        port_view: dict[str, Any] = client.port(port["id"]) or {}
        return port_view["binding:host_id"], {
            binding["host"]: binding["status"] for binding in client.bindings(port["id"])
        }

    for _ in range(2):  # idempotent
        (prepared,) = bindings.prepare(instance, "h2").network_info
        assert (prepared.vif_type, prepared.vif_details["bridge_name"]) == ("ovs", "br-int")
        assert shown() == ("h1", {"h1": "ACTIVE", "h2": "INACTIVE"})
    bindings.drop(instance, "h2")
    bindings.drop(instance, "h2")
    assert shown() == ("h1", {"h1": "ACTIVE"})
    with pytest.raises(errors.PortBindingFailed, match="h3"):
        bindings.prepare(instance, "h3")  # no agent is alive there
    bindings.prepare(instance, "h2")
    for _ in range(2):
        moved = bindings.activated(client, client.port(port["id"]) or {}, "h2")
        assert (moved["binding:host_id"], moved["binding:vif_type"]) == ("h2", "ovs")
    assert shown() == ("h2", {"h2": "ACTIVE"})
    client.delete_port(port["id"])
    (unchanged,) = bindings.prepare(instance, "h1").network_info
    assert unchanged == vif, "a port that has gone has no bindings"
