"""The files of a config drive: which version has what."""

import base64
import json
from typing import Any

import msgspec
import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.network.vif import Vif, VifAddress, VifSubnet
from minova.objects.requests.build_extras import GuestFile
from minova.objects.servers.instance import Instance
from minova.virt.config_drive.contents import EC2_VERSIONS, OPENSTACK_VERSIONS, DriveValues, files

UUID = "0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11"
BASIC = Instance(
    uuid=UUID,
    display_name="Web 1",
    hostname="web-1",
    flavor=Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1),
    project_id="demo",
    image_ref="9c2f8a34-58a3-4a52-9e56-3a9a4f0f2f11",
    reservation_id="r-1",
    launch_index=2,
    config_drive=True,
)
VIF = Vif(
    port_id="aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
    mac_address="52:54:00:00:00:01",
    network_id="net",
    mtu=1450,
    addresses=(VifAddress(subnet_id="a", ip_address="10.0.0.7"), VifAddress(subnet_id="b", ip_address="192.0.2.9")),
    subnets=(
        VifSubnet(id="a", cidr="10.0.0.0/24", gateway_ip="10.0.0.1"),
        VifSubnet(
            id="b",
            cidr="192.0.2.0/24",
            gateway_ip="192.0.2.1",
            enable_dhcp=False,
            dns_nameservers=("192.0.2.53",),
        ),
    ),
)
USER_DATA = b"#!/bin/sh\n\xff"


def made(values: dict[str, Any] | None = None, **instance: Any) -> dict[str, bytes]:
    instance_of_drive = msgspec.structs.replace(BASIC, **instance)
    return files(
        DriveValues(instance=instance_of_drive, availability_zone="north", random_seed=b"seed", **(values or {}))
    )


def meta_data(found: dict[str, bytes], version: str = "latest") -> Any:
    return json.loads(found[f"openstack/{version}/meta_data.json"])


def test_each_version_has_the_files_that_nova_gives_it() -> None:
    drive_files = made(user_data=base64.b64encode(USER_DATA).decode())
    by_version = {
        version: sorted(path.rpartition("/")[2] for path in drive_files if path.startswith(f"openstack/{version}/"))
        for version in (*OPENSTACK_VERSIONS, "latest")
    }
    folsom = ["meta_data.json", "user_data"]
    havana = [*folsom, "vendor_data.json"]
    liberty = ["meta_data.json", "network_data.json", "user_data", "vendor_data.json"]
    newest = [*liberty, "vendor_data2.json"]
    assert by_version == {
        "2012-08-10": folsom,
        "2013-04-04": folsom,
        "2013-10-17": havana,
        "2015-10-15": liberty,
        "2016-06-30": liberty,
        "2016-10-06": newest,
        "2017-02-22": newest,
        "2018-08-27": newest,
        "2020-10-14": newest,
        "latest": newest,
    }
    assert {drive_files[path] for path in drive_files if path.endswith(("user_data", "user-data"))} == {USER_DATA}
    assert drive_files["openstack/latest/network_data.json"] == b"{}"
    assert drive_files["openstack/latest/vendor_data2.json"] == b'{"static":{}}'


def test_meta_data_say_who_the_guest_is_as_much_as_their_version_knew() -> None:
    numa = InstanceNUMATopology(cells=(InstanceNUMACell(id=0, pcpuset=frozenset({1, 0}), memory=64),))
    drive_files = made({"dhcp_domain": "novalocal"}, metadata={"a": "b"}, numa_topology=numa)
    first = {
        "uuid": UUID,
        "meta": {"a": "b"},
        "hostname": "web-1.novalocal",
        "name": "Web 1",
        "launch_index": 2,
        "availability_zone": "north",
    }
    seed = {"random_seed": base64.b64encode(b"seed").decode()}
    assert meta_data(drive_files, "2012-08-10") == first
    assert meta_data(drive_files, "2013-10-17") == first | seed
    assert meta_data(drive_files, "2015-10-15") == first | seed | {"project_id": "demo"}
    assert meta_data(drive_files, "2018-08-27") == first | seed | {"project_id": "demo", "devices": []}
    assert meta_data(drive_files) == first | seed | {"project_id": "demo", "devices": [], "dedicated_cpus": [0, 1]}


def test_key_password_and_files_are_there_if_given() -> None:
    file = GuestFile(path="/etc/motd", contents=base64.b64encode(b"hi").decode())
    drive_files = made(
        {"admin_password": "s3cret", "injected_files": (file, GuestFile(path="/x"))},
        key_name="mine",
        key_data="ssh-ed25519 AAAA",
        key_type="ssh",
    )
    for version in (*OPENSTACK_VERSIONS, "latest"):
        said = meta_data(drive_files, version)
        assert said["public_keys"] == {"mine": "ssh-ed25519 AAAA"}
        assert said["keys"] == [{"name": "mine", "type": "ssh", "data": "ssh-ed25519 AAAA"}]
        assert said["admin_pass"] == "s3cret"
        assert said["files"] == [
            {"path": "/etc/motd", "content_path": "/content/0000"},
            {"path": "/x", "content_path": "/content/0001"},
        ]
    assert (drive_files["openstack/content/0000"], drive_files["openstack/content/0001"]) == (b"hi", b"")
    without = meta_data(made())
    assert not without.keys() & {"public_keys", "keys", "admin_pass", "files", "meta"}


def test_ec2_has_the_versions_that_are_not_skipped() -> None:
    skipped = tuple(EC2_VERSIONS[:-1])
    drive_files = made(
        {"skip_versions": skipped, "devices": {"ami": "vda", "root": "/dev/vda"}}, key_name="mine", key_data="ssh-rsa A"
    )
    assert sorted(path for path in drive_files if path.startswith("ec2/")) == [
        "ec2/2009-04-04/meta-data.json",
        "ec2/latest/meta-data.json",
    ]
    assert json.loads(drive_files["ec2/latest/meta-data.json"]) == {
        "ami-id": "ami-9c2f8a34",
        "ami-launch-index": 2,
        "ami-manifest-path": "FIXME",
        "instance-id": "i-0b8a5c5e",
        "hostname": "web-1",
        "local-ipv4": None,
        "reservation-id": "r-1",
        "security-groups": ["default"],
        "public-keys": {"0": {"_name": "0=mine", "openssh-key": "ssh-rsa A"}},
        "local-hostname": "web-1",
        "public-hostname": "web-1",
        "public-ipv4": "",
        "instance-type": "m1",
        "block-device-mapping": {"ami": "vda", "root": "/dev/vda"},
        "placement": {"availability-zone": "north"},
        "instance-action": "none",
    }
    oldest = json.loads(made()["ec2/1.0/meta-data.json"])
    assert not oldest.keys() & {"local-hostname", "instance-type", "placement", "instance-action", "public-keys"}


def test_networks_are_those_of_the_interfaces() -> None:
    drive_files = made(network_info=(VIF,))
    assert json.loads(drive_files["openstack/latest/network_data.json"]) == {
        "links": [
            {
                "id": "tapaaaaaaaa-aa",
                "vif_id": VIF.port_id,
                "type": "bridge",
                "mtu": 1450,
                "ethernet_mac_address": VIF.mac_address,
            }
        ],
        "networks": [
            {"id": "network0", "link": "tapaaaaaaaa-aa", "network_id": "net", "type": "ipv4_dhcp"},
            {
                "id": "network1",
                "link": "tapaaaaaaaa-aa",
                "network_id": "net",
                "type": "ipv4",
                "ip_address": "192.0.2.9",
                "netmask": "255.255.255.0",
                "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}],
                "services": [{"type": "dns", "address": "192.0.2.53"}],
            },
        ],
        "services": [{"type": "dns", "address": "192.0.2.53"}],
    }
    assert json.loads(drive_files["ec2/latest/meta-data.json"])["local-ipv4"] == "10.0.0.7"


def test_vendor_data_are_the_operators_words() -> None:
    drive_files = made({"vendor_data": {"motd": "welcome"}})
    assert json.loads(drive_files["openstack/latest/vendor_data.json"]) == {"motd": "welcome"}
    assert json.loads(drive_files["openstack/latest/vendor_data2.json"]) == {"static": {"motd": "welcome"}}


@pytest.mark.parametrize("name", ["</name>\x00", "名前", '"\\'])
def test_any_name_is_written_so_that_json_is_read(name: str) -> None:
    assert meta_data(made(display_name=name, metadata={name: name}))["name"] == name


def test_devices_with_a_tag_are_listed_since_newton() -> None:
    tagged = msgspec.structs.replace(VIF, mac_address="52:54:00:00:00:02", tag="front")
    drive_files = made({"tagged_disks": {"/dev/vdb": "scratch"}}, network_info=(VIF, tagged))
    nic = {"type": "nic", "mac": "52:54:00:00:00:02", "bus": "none", "address": "none", "tags": ["front"]}
    disk = {"type": "disk", "path": "/dev/vdb", "bus": "none", "address": "none", "tags": ["scratch"]}
    assert (
        meta_data(drive_files)["devices"]
        == meta_data(drive_files, "2018-08-27")["devices"]
        == [nic | {"vf_trusted": False}, disk]
    )
    assert (
        meta_data(drive_files, "2017-02-22")["devices"]
        == meta_data(drive_files, "2016-06-30")["devices"]
        == [nic, disk]
    )
    assert "devices" not in meta_data(drive_files, "2015-10-15")
