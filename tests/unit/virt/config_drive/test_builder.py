"""The tags of disks, and what a user has given and no config drive can hold."""

import json
from pathlib import Path

import pytest

from minova import conf as configuration
from minova.errors import GuestDataUnacceptable
from minova.objects.catalogue.flavor import Flavor, LocalDisk
from minova.objects.guests.local_disks import to_metadata
from minova.objects.servers.instance import Instance
from minova.virt.config_drive.builder import ConfigDrives, GuestFiles
from minova.virt.config_drive.file_systems import VFAT, VFAT_ROOM, write
from minova.virt.driver.domains import NO_DATA

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1)


def test_user_data_that_is_no_base64_is_the_requests_own_fault(tmp_path: Path) -> None:
    drives = ConfigDrives(configuration.load([], "test", files=[]))
    instance = Instance(uuid="i", display_name="vm", flavor=FLAVOR, user_data="a")
    with pytest.raises(GuestDataUnacceptable, match="Config drive of instance i"):
        drives.write(tmp_path / "drive", instance, NO_DATA)


def test_more_files_than_a_vfat_drive_holds_are_the_requests_own_fault(tmp_path: Path) -> None:
    with pytest.raises(GuestDataUnacceptable, match="vfat config drive holds"):
        write(tmp_path / "drive", VFAT, {"a": bytes(VFAT_ROOM), "b": b"x"})


def test_tags_of_disks_stand_beside_the_names_that_the_guest_has_for_them() -> None:
    disks = (LocalDisk(size_mb=1, bus="scsi", tag="cold"), LocalDisk(size_mb=1), LocalDisk(size_mb=1, tag="hot"))
    instance = Instance(uuid="i", display_name="vm", flavor=FLAVOR, system_metadata=to_metadata(disks, "system"))
    guest_files = GuestFiles(configuration.load([], "test", files=[])).of(instance, NO_DATA)
    devices = json.loads(guest_files["openstack/latest/meta_data.json"])["devices"]
    assert {device["path"]: device["tags"] for device in devices} == {
        "/dev/vda": ["system"],
        "/dev/sda": ["cold"],
        "/dev/vdc": ["hot"],
    }
