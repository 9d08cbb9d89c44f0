"""openstacksdk, unchanged, which finds minova in the catalog of a real Keystone: proxies of Compute and Image, and the `cloud` layer."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openstack
import pytest
from openstack.exceptions import BadRequestException, ConflictException, NotFoundException

from tests.cluster import Cluster
from tests.servers.keystone import PASSWORD, REGION, Keystone

# The SDK warns of itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackWarning"),
    # It leaves files that it has read to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning"),
]
# A whole image of its own for each test: they share the cloud with those of other files.
DATA = bytes(range(256)) * 16
# A Connection, whose types are those of all versions of the APIs.
Sdk = Any
FLAVOR, IMAGE, NETWORK = "sdk-tiny", "sdk-guest", "sdk-private"


@contextmanager
def connected(keystone: Keystone, user: str, project: str) -> Iterator[Sdk]:
    auth = {"auth_url": keystone.url, "username": user, "password": PASSWORD, "project_name": project}
    domains = {"user_domain_name": "Default", "project_domain_name": "Default"}
    connection = openstack.connect(
        load_yaml_config=False, load_envvars=False, auth={**auth, **domains}, region_name=REGION
    )
    try:
        yield connection
    finally:
        connection.close()
        # What it leaves open.
        connection.session.session.close()


@pytest.fixture(scope="module")
def admin(cloud: Cluster, keystone: Keystone) -> Iterator[Sdk]:
    with connected(keystone, "admin", "admin") as connection:
        connection.create_flavor(FLAVOR, ram=64, vcpus=1, disk=1)
        yield connection
        connection.delete_flavor(FLAVOR)


@pytest.fixture(scope="module")
def own(admin: Sdk, keystone: Keystone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sdk]:
    """Of a member of a project of its own, with an image and a network."""
    keystone.add_project("sdk")
    keystone.add_user("sam", sdk="member")
    with connected(keystone, "sam", "sdk") as connection:
        file = tmp_path_factory.mktemp("sdk") / "disk.raw"
        file.write_bytes(DATA)
        connection.create_image(IMAGE, filename=str(file), disk_format="raw", container_format="bare", wait=True)
        connection.create_network(NETWORK)
        connection.create_subnet(NETWORK, cidr="10.77.0.0/24")
        yield connection
        connection.delete_network(NETWORK)
        connection.delete_image(IMAGE, wait=True)


@pytest.fixture
def server(own: Sdk) -> Iterator[Any]:
    server = own.create_server("vm", image=IMAGE, flavor=FLAVOR, network=NETWORK, wait=True, timeout=120)
    yield server
    own.delete_server(server.id, wait=True, timeout=120)


# -- the cloud layer -----------------------------------------------------------------------------------------------------


def test_a_server_is_made_with_its_address_key_and_group_and_deleted(own: Sdk) -> None:
    key = own.create_keypair("sdk-key")
    assert "PRIVATE KEY" in key.private_key
    own.create_security_group("sdk-web", "opens 80")
    own.create_security_group_rule("sdk-web", port_range_min=80, port_range_max=80, protocol="tcp")
    server = own.create_server(
        "web",
        image=IMAGE,
        flavor=FLAVOR,
        network=NETWORK,
        key_name="sdk-key",
        security_groups=["sdk-web"],
        meta={"role": "front"},
        userdata="#!/bin/sh\n",
        wait=True,
        timeout=120,
    )
    assert server.status == "ACTIVE"
    (address,) = server.addresses[NETWORK]
    assert address["addr"] == own.get_server_private_ip(server)
    assert address["addr"].startswith("10.77.0.")
    assert (server.key_name, server.metadata, server.flavor.name) == ("sdk-key", {"role": "front"}, FLAVOR)
    assert [group["name"] for group in own.list_server_security_groups(server)] == ["sdk-web"]
    assert own.get_server("web").id == own.get_server_by_id(server.id).id == own.get_server_id("web") == server.id
    assert own.remove_server_security_groups(server, ["sdk-web"])
    assert own.add_server_security_groups(server, ["default"])
    assert own.delete_server("web", wait=True, timeout=120)
    assert own.get_server("web") is None
    assert not own.delete_server("web", wait=True)
    assert own.delete_security_group("sdk-web")
    assert own.delete_keypair("sdk-key")
    assert own.get_keypair("sdk-key") is None


def test_servers_are_listed_by_filters(own: Sdk, server: Any) -> None:
    ids = {"image_id": own.get_image_id(IMAGE), "flavor_id": own.get_flavor(FLAVOR).id}
    other = own.compute.create_server(name="elsewhere", networks="none", **ids)
    own.compute.wait_for_server(other, wait=120)

    def names(**filters: str) -> list[str]:
        return sorted(each.name for each in own.list_servers(filters=filters))

    assert names() == ["elsewhere", "vm"]
    assert names(name="vm") == names(status="ACTIVE", name="^vm$") == ["vm"]
    assert names(status="SHUTOFF") == names(ip="10.99.") == []
    assert names(ip=server.addresses[NETWORK][0]["addr"]) == ["vm"]
    assert [each.name for each in own.search_servers(filters={"name": "elsewhere"})] == ["elsewhere"]
    assert [each.id for each in own.list_servers(detailed=True, bare=True) if each.name == "vm"] == [server.id]
    own.delete_server(other.id, wait=True, timeout=120)


def test_a_server_is_changed_rebuilt_and_imaged(own: Sdk, server: Any) -> None:
    assert own.update_server(server.id, name="renamed").name == "renamed"
    own.set_server_metadata(server.id, {"a": "1", "b": "2"})
    own.delete_server_metadata(server.id, ["a"])
    assert own.get_server_by_id(server.id).metadata == {"b": "2"}
    assert own.rebuild_server(server.id, own.get_image_id(IMAGE), wait=True, timeout=120).status == "ACTIVE"
    shot = own.create_image_snapshot("sdk-shot", server.id, wait=True, timeout=120)
    assert (shot.status, shot.properties["image_type"]) == ("active", "snapshot")
    assert own.delete_image("sdk-shot", wait=True)
    own.get_server_console(server.id)


def test_images_are_made_shown_changed_loaded_and_deleted(own: Sdk, tmp_path: Path) -> None:
    file = tmp_path / "disk.raw"
    file.write_bytes(DATA)
    options = {"filename": str(file), "disk_format": "raw", "container_format": "bare", "validate_checksum": True}
    new_image = own.create_image("sdk-image", wait=True, color="blue", **options)
    assert (new_image.status, new_image.size, new_image.properties["color"]) == ("active", len(DATA), "blue")
    assert own.get_image("sdk-image").id == own.get_image_by_id(new_image.id).id == new_image.id
    assert [image.id for image in own.search_images(filters={"name": "sdk-image"})] == [new_image.id]
    assert new_image.id in [image.id for image in own.list_images()]
    assert own.update_image_properties(new_image, min_ram=64, color="green")
    changed = own.get_image("sdk-image")
    assert (changed.min_ram, changed.properties["color"]) == (64, "green")
    own.download_image(new_image.id, output_path=str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == DATA
    # The same bytes under the same name are not sent again.
    assert own.create_image("sdk-image", wait=True, **options).id == new_image.id
    assert own.delete_image(new_image.id, wait=True)
    assert own.get_image("sdk-image") is None


def test_limits_quotas_usages_flavors_groups_and_zones(own: Sdk, admin: Sdk, server: Any) -> None:
    assert own.get_compute_limits().total_instances_used == 1
    admin.set_compute_quotas("sdk", cores=7)
    assert admin.get_compute_quotas("sdk").cores == 7
    admin.delete_compute_quotas("sdk")
    assert admin.get_compute_quotas("sdk").cores != 7
    admin.set_network_quotas("sdk", port=33)
    assert admin.get_network_quotas("sdk")["ports"] == 33
    admin.delete_network_quotas("sdk")
    assert admin.get_network_quotas("sdk")["ports"] != 33
    usage = admin.get_compute_usage("sdk")
    assert usage.total_vcpus_usage >= 0
    assert [hypervisor.name for hypervisor in admin.list_hypervisors()] == ["h1"]
    assert own.get_flavor_by_ram(64).name == own.get_flavor(FLAVOR).name == FLAVOR
    assert own.list_availability_zone_names() == ["nova"]
    group = own.create_server_group("sdk-group", ["anti-affinity"])
    assert own.get_server_group("sdk-group").id == group.id
    assert own.delete_server_group("sdk-group")


def test_flavors_and_aggregates_of_administrators(admin: Sdk) -> None:
    flavor = admin.create_flavor("sdk-private-flavor", ram=128, vcpus=1, disk=1, is_public=False)
    admin.set_flavor_specs(flavor.id, {"a": "b"})
    assert admin.get_flavor_by_id(flavor.id, get_extra=True).extra_specs == {"a": "b"}
    admin.unset_flavor_specs(flavor.id, ["a"])
    project = admin.get_project("sdk-access") or admin.create_project("sdk-access", domain_id="default")
    admin.add_flavor_access(flavor.id, project.id)
    assert [access["tenant_id"] for access in admin.list_flavor_access(flavor.id)] == [project.id]
    admin.remove_flavor_access(flavor.id, project.id)
    assert admin.delete_flavor("sdk-private-flavor")
    aggregate = admin.create_aggregate("sdk-rack")
    admin.add_host_to_aggregate(aggregate.id, "h1")
    admin.set_aggregate_metadata(aggregate.id, {"disk": "fast"})
    assert admin.get_aggregate("sdk-rack").metadata["disk"] == "fast"
    admin.update_aggregate(aggregate.id, name="sdk-rack-2")
    admin.remove_host_from_aggregate(aggregate.id, "h1")
    assert admin.delete_aggregate(aggregate.id)
    admin.delete_project(project.id)


# -- the proxies -----------------------------------------------------------------------------------------------------------


def test_the_compute_proxy_acts_on_servers(own: Sdk, server: Any) -> None:
    compute = own.compute
    found_server = compute.find_server("vm", ignore_missing=False)
    for act, undo, status in (
        (compute.pause_server, compute.unpause_server, "PAUSED"),
        (compute.suspend_server, compute.resume_server, "SUSPENDED"),
        (compute.stop_server, compute.start_server, "SHUTOFF"),
        (compute.rescue_server, compute.unrescue_server, "RESCUE"),
        (compute.shelve_server, compute.unshelve_server, "SHELVED_OFFLOADED"),
    ):
        act(found_server)
        compute.wait_for_server(found_server, status=status, wait=120)
        undo(found_server)
        compute.wait_for_server(found_server, status="ACTIVE", wait=120)
    compute.reboot_server(found_server, "HARD")
    compute.wait_for_server(found_server, status="ACTIVE", wait=120)
    compute.lock_server(found_server, locked_reason="why")
    assert compute.get_server(found_server).is_locked
    compute.unlock_server(found_server)
    actions = {action.action for action in compute.server_actions(found_server)}
    assert {"create", "pause", "stop", "reboot", "shelve"} <= actions
    created = next(action for action in compute.server_actions(found_server) if action.action == "create")
    assert compute.get_server_action(created.request_id, found_server).request_id == created.request_id
    assert "output" in compute.get_server_console_output(found_server, length=10)


def test_the_compute_proxy_shows_what_belongs_to_a_server(own: Sdk, server: Any) -> None:
    compute = own.compute
    (interface,) = compute.server_interfaces(server.id)
    assert compute.get_server_interface(interface.port_id, server=server.id).net_id == interface.net_id
    more = compute.create_server_interface(server.id, net_id=interface.net_id)
    assert len(list(compute.server_interfaces(server.id))) == 2
    compute.delete_server_interface(more.port_id, server=server.id)
    assert [ip.network_label for ip in compute.server_ips(server.id)][:1] == [NETWORK]
    found_server = compute.get_server(server.id)
    compute.add_tag_to_server(found_server, "blue")
    assert [each.id for each in compute.servers(tags="blue")] == [found_server.id]
    compute.remove_tags_from_server(found_server)
    compute.set_server_metadata(found_server, a="1")
    assert compute.fetch_server_metadata(found_server).metadata == {"a": "1"}
    assert [group["name"] for group in compute.fetch_server_security_groups(found_server).security_groups] == [
        "default"
    ]
    assert compute.get_server_password(found_server) == ""


def test_the_compute_proxy_lists_what_administrators_see(own: Sdk, admin: Sdk, server: Any) -> None:
    compute = admin.compute
    assert server.id in [each.id for each in compute.servers(all_projects=True)]
    assert {service.binary for service in compute.services()} >= {"nova-compute", "nova-conductor", "nova-scheduler"}
    (hypervisor,) = compute.hypervisors(details=True)
    assert compute.get_hypervisor(hypervisor.id).name == hypervisor.name == "h1"
    service = compute.find_service("nova-compute", ignore_missing=False)
    assert compute.disable_service(service, disabled_reason="sdk").status == "disabled"
    assert compute.enable_service(service).status == "enabled"
    # Other files of this folder move servers of the same cloud.
    assert server.id not in [migration.server_id for migration in compute.migrations()]
    assert compute.get_quota_set_defaults(admin.get_project("sdk").id).instances
    assert compute.get_server_diagnostics(server.id) is not None
    assert [usage.project_id for usage in compute.usages()]
    assert [zone.name for zone in compute.availability_zones(details=True)]
    assert "os-keypairs" in [extension.alias for extension in compute.extensions()]


def test_the_image_proxy_uploads_tags_shares_and_imports(own: Sdk, admin: Sdk) -> None:
    image = own.image.create_image(name="sdk-queued", disk_format="raw", container_format="bare")
    assert image.status == "queued"
    image.data = DATA
    image.upload(own.image)
    image = own.image.get_image(image.id)
    assert (image.status, image.hash_algo, image.hash_value) == ("active", "sha256", hashlib.sha256(DATA).hexdigest())
    own.image.add_tag(image, "blue")
    assert [each.id for each in own.image.images(tag="blue")] == [image.id]
    own.image.remove_tag(image, "blue")
    other = admin.get_project("other").id
    own.image.add_member(image, member_id=other)
    assert [member.status for member in own.image.members(image)] == ["pending"]
    own.image.remove_member(other, image)
    own.image.deactivate_image(image)
    own.image.reactivate_image(image)
    assert own.image.get_image_schema().properties["min_ram"]
    assert "glance-direct" in own.image.get_import_info().import_methods["value"]
    own.image.delete_image(image)
    staged = own.image.create_image(name="sdk-staged", disk_format="raw", container_format="bare")
    own.image.stage_image(staged, data=DATA)
    own.image.import_image(staged, method="glance-direct")
    assert own.image.wait_for_status(own.image.get_image(staged.id), "active", wait=120).size == len(DATA)
    own.image.delete_image(staged.id)


def test_refusals_are_the_sdks_exceptions(own: Sdk, server: Any) -> None:
    with pytest.raises(NotFoundException):
        own.compute.get_server("8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00")
    with pytest.raises(ConflictException):
        own.compute.start_server(server.id)
    with pytest.raises(BadRequestException):
        own.compute.create_server(name="x", image_id=own.get_image_id(IMAGE), flavor_id="no-such", networks="none")
    with pytest.raises(NotFoundException):
        own.image.get_image("8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00")
