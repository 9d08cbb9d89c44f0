"""Makes the metadata files for guests of a host, and config drives that contain them, as the options say."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from oslo_config import cfg

from minova.errors import GuestDataUnacceptable
from minova.objects.catalogue.guest_hardware import DISK_BUSES, guest_hardware
from minova.objects.guests.local_disks import local_disks, root_tag_of
from minova.objects.servers.instance import Instance
from minova.virt import programs
from minova.virt.config_drive import contents, file_systems
from minova.virt.config_drive.contents import SEED_SIZE, DriveValues
from minova.virt.config_drive.file_systems import ISO9660, VFAT, VFAT_PROGRAMS
from minova.virt.config_drive.vendor_data import VendorData
from minova.virt.driver.domains import GuestData


class GuestFiles:
    """The files that guests of this host read, from a config drive or the metadata service. Call `check` first."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._vendor_data = VendorData(conf)

    def check(self) -> None:
        """Raises InvalidConfiguration if the vendor data cannot be used."""
        self._vendor_data.check()

    def of(self, instance: Instance, data: GuestData, skip_versions: Sequence[str] = ()) -> dict[str, bytes]:
        """Returns {path: content}. Raises ValueError if user data or an injected file is not base64, ServiceUnavailable
        as `VendorData.second`.

        `skip_versions` are versions of EC2's layout to leave out.
        """
        domain, disks = self._conf.api.dhcp_domain, _disks(instance)
        values = DriveValues(
            instance=instance,
            availability_zone=data.availability_zone or self._conf.scheduler.default_availability_zone,
            random_seed=os.urandom(SEED_SIZE),
            dhcp_domain=domain,
            admin_password=data.admin_password,
            injected_files=data.files,
            vendor_data=self._vendor_data.first(),
            vendor_data2=self._vendor_data.second(instance, contents.full_hostname(instance, domain)),
            devices=disks.ec2,
            tagged_disks=disks.tagged,
            skip_versions=tuple(skip_versions),
        )
        return contents.files(values)


class ConfigDrives:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.format: str = conf.config_drive_format
        self._conf = conf
        self._files = GuestFiles(conf)

    @property
    def is_cd(self) -> bool:
        return self.format == ISO9660

    def check(self) -> None:
        """Raises InvalidConfiguration if the vendor data or a program cannot be used."""
        if self.format == VFAT:
            programs.require(VFAT_PROGRAMS)
        self._files.check()

    def write(self, path: Path, instance: Instance, data: GuestData) -> None:
        """Write the config drive. Raises as `file_systems.write`, and GuestDataUnacceptable if the user's data cannot
        be put on a drive.
        """
        try:
            files = self._files.of(instance, data, self._conf.api.config_drive_skip_versions.split())
        except ValueError as error:
            raise GuestDataUnacceptable(f"Config drive of instance {instance.uuid}: {error}") from error
        file_systems.write(path, self.format, files)


class _Disks(NamedTuple):
    """The guest's disks. `ec2`: their device names by EC2's names for them. `tagged`: {device name: tag}."""

    ec2: dict[str, str]
    tagged: dict[str, str]


def _disks(instance: Instance) -> _Disks:
    """The root disk appears as `ami`, without its folder, and as `root`."""
    bus = guest_hardware(instance.image.properties if instance.image else {}, instance.flavor.extra_specs).disk_bus
    letters = {prefix: iter(ascii_lowercase) for prefix in DISK_BUSES.values()}
    root, root_tag = _device(bus, letters), root_tag_of(instance)
    ec2 = {"ami": root, "root": f"/dev/{root}"}
    tagged = {} if root_tag is None else {ec2["root"]: root_tag}
    ephemeral = 0
    for disk in local_disks(instance):
        device = f"/dev/{_device(disk.bus or bus, letters)}"
        if disk.tag is not None:
            tagged[device] = disk.tag
        if disk.is_swap:
            ec2["swap"] = device
        else:
            ec2[f"ephemeral{ephemeral}"] = device
            ephemeral += 1
    return _Disks(ec2, tagged)


def _device(bus: str, letters: dict[str, Iterator[str]]) -> str:
    prefix = DISK_BUSES[bus]
    return f"{prefix}{next(letters[prefix])}"
