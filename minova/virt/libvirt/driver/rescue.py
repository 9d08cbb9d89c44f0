"""The rescue of a guest from a disk of its own."""

from pathlib import Path
from xml.etree import ElementTree as ET

import libvirt
import msgspec

from minova.objects.actions.rescue import RescueDevice, rescue_device
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.libvirt.driver.power import LibvirtPower
from minova.virt.libvirt.guest_state import jobs, saved_memory
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.storage.disk_images import Base
from minova.virt.libvirt.storage.disks import DRIVE
from minova.virt.libvirt.xml.disk_xml import Disk
from minova.virt.libvirt.xml.mark import domain_name


class LibvirtRescue(LibvirtPower):
    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        with self._host.connection("Rescuing", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None:
                jobs.require_free(domain)
                saved_memory.require_none(domain)
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host)
            self._disks.make_rescue(instance.uuid, Base.of(instance, image_path, image), image)

    def rescue(self, instance: Instance, image: Image | None = None) -> PowerState:
        disks: tuple[Disk, ...] = ()
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host)
            rescue, (root, *others) = self._disks.rescue_disk(instance.uuid), self._disks.plan(instance)
            device = self._place_before(instance.uuid) if image is None else rescue_device(image.properties)
            if device is None:
                drives = [disk for disk in others if Path(disk.path).name == DRIVE]
                disks = (rescue, root, *drives)
            else:
                last = msgspec.structs.replace(rescue, bus=device.bus, is_cd=device.is_cd, boots=True)
                disks = (root, *others, last)
        self._define_anew(instance, disks, drop_memory=False)
        return self.power_on(instance)

    def _place_before(self, instance_uuid: str) -> RescueDevice | None:
        """Returns where the rescue disk is in the domain that there is."""
        with self._host.connection("Reading the disks", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None:
                return None
            root = ET.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        path = self._disks.rescue_disk(instance_uuid).path
        for disk in root.findall("devices/disk[boot]"):
            source, target = disk.find("source"), disk.find("target")
            if source is not None and target is not None and source.get("file") == path:
                return RescueDevice(bus=target.get("bus"), is_cd=disk.get("device") == "cdrom")
        return None
