"""What a metadata service is told of guests, and the passwords that they leave."""

import pytest

from minova import errors
from minova.conductor.network.local_ranges import NAMESPACES
from minova.db.networks import vifs
from minova.db.servers import instances
from minova.objects.requests.build_extras import RequestedNic
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request, request
from tests.functional.conductor.network_cases import network, on, port, subnet

ADDRESS = "10.1.0.2"


def guest(harness: ConductorHarness, **values: object) -> str:
    """On host `a`, with the first address of its network."""
    local = network(harness, **values)
    subnet(harness, local, "10.1.0.0/24")
    new_request = request(1, **on(local), user_data="dXNlcg==")
    (uuid,) = harness.conductor.create_servers(CTX, request=new_request).instance_uuids
    harness.settle()
    harness.claim("a", uuid)
    harness.succeed("a", uuid)
    return uuid


def network_of(harness: ConductorHarness, uuid: str) -> str:
    with harness.db.read() as session:
        return vifs.of_instances(session, [uuid])[uuid][0].network_id


class GuestMetadataCases:
    def test_host_is_told_of_its_own_guests_alone(self, harness: ConductorHarness) -> None:
        uuid = guest(harness)
        on_network = {"network_id": network_of(harness, uuid)}
        metadata = harness.conductor.metadata_of_address(CTX, host="a", address=ADDRESS, **on_network)
        assert (metadata.instance.uuid, metadata.instance.user_data) == (uuid, "dXNlcg==")
        assert [vif.addresses[0].ip_address for vif in metadata.instance.network_info] == [ADDRESS]
        for host, address in (("b", ADDRESS), ("a", "10.1.0.3"), ("a", "10.1.0.1"), ("a", ""), ("", ADDRESS)):
            with pytest.raises(errors.NotFound):
                harness.conductor.metadata_of_address(CTX, host=host, address=address, **on_network)
            with pytest.raises(errors.NotFound):
                harness.conductor.leave_password_of_address(CTX, host=host, address=address, password="x", **on_network)

    def test_guests_with_the_same_address_are_told_apart_by_their_networks(self, harness: ConductorHarness) -> None:
        """Also if only one of them is on this host: the other network's guests may send from its address."""
        harness.levels["compute"] = NAMESPACES
        new_guest, other, empty = guest(harness), guest(harness), network(harness)
        networks = {uuid: network_of(harness, uuid) for uuid in (new_guest, other)}
        conductor = harness.conductor
        for uuid, network_id in networks.items():
            address_fields = {"host": "a", "address": ADDRESS, "network_id": network_id}
            assert conductor.metadata_of_address(CTX, **address_fields).instance.uuid == uuid
            conductor.leave_password_of_address(CTX, **address_fields, password=uuid)
            assert conductor.metadata_of_address(CTX, **address_fields).password == uuid
        for unknown in (empty.id, ""):
            with pytest.raises(errors.NotFound):
                conductor.metadata_of_address(CTX, host="a", address=ADDRESS, network_id=unknown)

    def test_guest_is_told_the_tags_of_its_interfaces(self, harness: ConductorHarness) -> None:
        """Of a port that was made for it, and of one that was there."""
        local = network(harness)
        subnet(harness, local, "10.1.0.0/24")
        mine = port(harness, local)
        nics = (
            RequestedNic(network_id=local.id, tag="new"),
            RequestedNic(network_id=local.id, port_id=mine.id, tag="mine"),
        )
        uuid = harness.active(requested_networks=nics)
        metadata = harness.conductor.metadata_of_instance(CTX, instance_uuid=uuid, project_id=CTX.project_id)
        assert [vif.tag for vif in metadata.instance.network_info] == ["new", "mine"]

    def test_bug_guest_of_a_flat_network_is_shown_a_service_that_does_not_know_it(
        self, harness: ConductorHarness
    ) -> None:
        """Its request comes from its network's namespace on its host, as on a local network."""
        uuid = guest(harness, network_type="flat", physical_network="dc1")
        flat = network_of(harness, uuid)
        address_fields = {"address": ADDRESS, "network_id": flat}
        assert harness.conductor.metadata_of_address(CTX, host="a", **address_fields).instance.uuid == uuid
        with pytest.raises(errors.NotFound):
            harness.conductor.metadata_of_address(CTX, host="b", **address_fields)

    def test_deleted_guest_reads_nothing(self, harness: ConductorHarness) -> None:
        uuid = guest(harness)
        local = network_of(harness, uuid)
        harness.conductor.delete_server(new_request(), instance_uuid=uuid)
        harness.settle()
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
        harness.settle()
        with pytest.raises(errors.NotFound):
            harness.conductor.metadata_of_address(CTX, host="a", address=ADDRESS, network_id=local)
        with pytest.raises(errors.NotFound):
            harness.conductor.metadata_of_instance(CTX, instance_uuid=uuid, project_id=CTX.project_id)
        with pytest.raises(errors.NotFound):
            harness.conductor.clear_server_password(CTX, instance_uuid=uuid)

    def test_proxy_is_told_of_servers_of_the_project_that_it_names(self, harness: ConductorHarness) -> None:
        uuid = guest(harness)
        metadata = harness.conductor.metadata_of_instance(CTX, instance_uuid=uuid, project_id=CTX.project_id)
        assert metadata.instance.uuid == uuid
        for wrong, project_id in ((uuid, "other"), (uuid, ""), ("absent", CTX.project_id), ("x" * 99, CTX.project_id)):
            with pytest.raises(errors.NotFound):
                harness.conductor.metadata_of_instance(CTX, instance_uuid=wrong, project_id=project_id)

    def test_password_is_left_once_until_it_is_cleared(self, harness: ConductorHarness) -> None:
        uuid = guest(harness)
        conductor = harness.conductor
        address_fields = {"host": "a", "address": ADDRESS, "network_id": network_of(harness, uuid)}
        with pytest.raises(errors.BadRequest):
            conductor.leave_password_of_address(CTX, **address_fields, password="x" * 1021)
        conductor.leave_password_of_address(CTX, **address_fields, password="first")
        # It would take the password away, so that any process of the guest could leave another.
        with pytest.raises(errors.BadRequest):
            conductor.leave_password_of_address(CTX, **address_fields, password="")
        with pytest.raises(errors.Conflict):
            conductor.leave_password(CTX, instance_uuid=uuid, project_id=CTX.project_id, password="second")
        assert conductor.metadata_of_address(CTX, **address_fields).password == "first"
        for _ in range(2):
            conductor.clear_server_password(CTX, instance_uuid=uuid)
        assert conductor.metadata_of_address(CTX, **address_fields).password == ""
        conductor.leave_password(CTX, instance_uuid=uuid, project_id=CTX.project_id, password="second")
        with harness.db.read() as session:
            assert instances.system_metadata_of(session, uuid)["password"] == "second"
