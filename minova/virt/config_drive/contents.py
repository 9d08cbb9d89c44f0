"""The files of a config drive in OpenStack's layout, as Nova writes them: values in, files out. Pure.

    openstack/VERSION/meta_data.json, user_data, vendor_data.json, vendor_data2.json, network_data.json
    openstack/content/0000                    injected files, which meta_data.json names
    ec2/VERSION/meta-data.json, user-data

Each version contains what it had when it was introduced; `latest` equals the newest version.
"""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from minova.objects.requests.build_extras import GuestFile
from minova.objects.servers.instance import Instance
from minova.virt.config_drive.network_data import first_address, network_data

FOLSOM, GRIZZLY, HAVANA, LIBERTY = "2012-08-10", "2013-04-04", "2013-10-17", "2015-10-15"
NEWTON, NEWTON_2, OCATA = "2016-06-30", "2016-10-06", "2017-02-22"
ROCKY, VICTORIA = "2018-08-27", "2020-10-14"
# In ascending order; the dates compare as strings.
OPENSTACK_VERSIONS = (FOLSOM, GRIZZLY, HAVANA, LIBERTY, NEWTON, NEWTON_2, OCATA, ROCKY, VICTORIA)
EC2_VERSIONS = (
    "1.0",
    "2007-01-19",
    "2007-03-01",
    "2007-08-29",
    "2007-10-10",
    "2007-12-15",
    "2008-02-01",
    "2008-09-01",
    "2009-04-04",
)
LATEST = "latest"
# Bytes of `random_seed`.
SEED_SIZE = 512
# Nova's value.
_NO_MANIFEST = "FIXME"


class DriveValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values from which the files are made.

    `devices`: the names of the guest's disks by EC2's names for them.
    `tagged_disks`: {name: tag}.
    `skip_versions`: versions of EC2's layout to leave out.
    `vendor_data2` None: only the static vendor data.
    """

    instance: Instance
    availability_zone: str
    random_seed: bytes
    dhcp_domain: str = ""
    admin_password: str | None = None
    injected_files: tuple[GuestFile, ...] = ()
    vendor_data: dict[str, Any] = {}
    vendor_data2: dict[str, Any] | None = None
    devices: dict[str, str] = {}
    tagged_disks: dict[str, str] = {}
    skip_versions: tuple[str, ...] = ()


def files(values: DriveValues) -> dict[str, bytes]:
    """Returns {path: content}. Raises ValueError if user data or an injected file is not base64."""
    return dict([*_ec2_files(values), *_openstack_files(values), *_contents(values)])


def _openstack_files(values: DriveValues) -> Iterator[tuple[str, bytes]]:
    user_data = _user_data(values)
    second = {"static": values.vendor_data} if values.vendor_data2 is None else values.vendor_data2
    for name in (*OPENSTACK_VERSIONS, LATEST):
        version = OPENSTACK_VERSIONS[-1] if name == LATEST else name
        folder = f"openstack/{name}"
        yield f"{folder}/meta_data.json", msgspec.json.encode(_meta_data(values, version))
        if user_data is not None:
            yield f"{folder}/user_data", user_data
        if version >= HAVANA:
            yield f"{folder}/vendor_data.json", msgspec.json.encode(values.vendor_data)
        if version >= NEWTON_2:
            yield f"{folder}/vendor_data2.json", msgspec.json.encode(second)
        if version >= LIBERTY:
            network = network_data(values.instance.network_info)
            yield f"{folder}/network_data.json", msgspec.json.encode(network)


def _meta_data(values: DriveValues, version: str) -> dict[str, Any]:
    instance = values.instance
    meta_data: dict[str, Any] = {"uuid": instance.uuid}
    if instance.metadata:
        meta_data["meta"] = instance.metadata
    if values.injected_files:
        meta_data["files"] = [
            {"path": file.path, "content_path": f"/content/{number:04}"}
            for number, file in enumerate(values.injected_files)
        ]
    if values.admin_password is not None:
        meta_data["admin_pass"] = values.admin_password
    if instance.key_name and instance.key_data:
        key_type = instance.key_type or "ssh"
        meta_data["public_keys"] = {instance.key_name: instance.key_data}
        meta_data["keys"] = [{"name": instance.key_name, "type": key_type, "data": instance.key_data}]
    meta_data |= {
        "hostname": _hostname(values),
        "name": instance.display_name,
        "launch_index": instance.launch_index,
        "availability_zone": values.availability_zone,
    }
    if version >= GRIZZLY:
        meta_data["random_seed"] = base64.b64encode(values.random_seed).decode()
    if version >= LIBERTY:
        meta_data["project_id"] = instance.project_id
    if version >= NEWTON:
        meta_data["devices"] = [*_tagged_devices(values, version)]
    if version >= VICTORIA:
        cells = instance.numa_topology.cells if instance.numa_topology is not None else ()
        meta_data["dedicated_cpus"] = sorted(cpu for cell in cells for cpu in cell.pcpuset)
    return meta_data


def _tagged_devices(values: DriveValues, version: str) -> Iterator[dict[str, Any]]:
    """Yields the devices that have a tag. As in Nova, an unknown bus or address is `none`. No interface is a trusted
    SR-IOV one.
    """
    unknown = {"bus": "none", "address": "none"}
    trusted = {"vf_trusted": False} if version >= ROCKY else {}
    for vif in values.instance.network_info:
        if vif.tag is not None:
            yield {"type": "nic", "mac": vif.mac_address, **unknown, **trusted, "tags": [vif.tag]}
    for name, tag in values.tagged_disks.items():
        yield {"type": "disk", "path": name, **unknown, "tags": [tag]}


def _contents(values: DriveValues) -> Iterator[tuple[str, bytes]]:
    for number, file in enumerate(values.injected_files):
        yield f"openstack/content/{number:04}", base64.b64decode(file.contents)


def _ec2_files(values: DriveValues) -> Iterator[tuple[str, bytes]]:
    user_data = _user_data(values)
    for name in (*EC2_VERSIONS, LATEST):
        if name in values.skip_versions:
            continue
        if user_data is not None:
            yield f"ec2/{name}/user-data", user_data
        version = EC2_VERSIONS[-1] if name == LATEST else name
        yield f"ec2/{name}/meta-data.json", msgspec.json.encode(_ec2_meta_data(values, EC2_VERSIONS.index(version)))


def _ec2_meta_data(values: DriveValues, version: int) -> dict[str, Any]:
    """`version` is the index in EC2_VERSIONS. Nova numbers instances and images for EC2; here the numbers are taken
    from their UUIDs.
    """
    instance, hostname = values.instance, _hostname(values)
    meta_data: dict[str, Any] = {
        "ami-id": f"ami-{instance.image_ref[:8] or '00000000'}",
        "ami-launch-index": instance.launch_index,
        "ami-manifest-path": _NO_MANIFEST,
        "instance-id": f"i-{instance.uuid[:8]}",
        "hostname": hostname,
        "local-ipv4": first_address(instance.network_info),
        "reservation-id": instance.reservation_id,
        "security-groups": ["default"],
    }
    if instance.key_name and instance.key_data:
        meta_data["public-keys"] = {"0": {"_name": f"0={instance.key_name}", "openssh-key": instance.key_data}}
    later: dict[str, dict[str, Any]] = {
        "2007-01-19": {"local-hostname": hostname, "public-hostname": hostname, "public-ipv4": ""},
        "2007-08-29": {"instance-type": instance.flavor.name},
        "2007-12-15": {"block-device-mapping": values.devices},
        "2008-02-01": {"placement": {"availability-zone": values.availability_zone}},
        "2008-09-01": {"instance-action": "none"},
    }
    for since, entries in later.items():
        if version >= EC2_VERSIONS.index(since):
            meta_data |= entries
    return meta_data


def _hostname(values: DriveValues) -> str:
    return full_hostname(values.instance, values.dhcp_domain)


def full_hostname(instance: Instance, domain: str) -> str:
    return f"{instance.hostname}.{domain}" if domain else instance.hostname


def _user_data(values: DriveValues) -> bytes | None:
    text = values.instance.user_data
    return None if text is None else base64.b64decode(text)
