"""The rescue of a guest from a disk of its own."""

import logging
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import libvirt
import msgspec
from oslo_config import cfg

from minova.errors import MinovaError
from minova.objects.actions.rescue import RescueDevice, is_of_same_system, rescue_device
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.libvirt.driver.power import LibvirtPower
from minova.virt.libvirt.guest_state import jobs, saved_memory
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disk_owner import ROOT_DISK
from minova.virt.libvirt.storage.disks import DRIVE
from minova.virt.libvirt.xml import broken_disk
from minova.virt.libvirt.xml.disk_xml import Disk
from minova.virt.libvirt.xml.guest import guest_of
from minova.virt.libvirt.xml.mark import domain_name
from minova.virt.namespaces.host_routes import PROC_NET

LOG = logging.getLogger(__name__)
# Buses on which a guest can get a disk while it runs.
PLUGGABLE = frozenset({"virtio", "scsi", "usb"})


class LibvirtRescue(LibvirtPower):
    def __init__(self, conf: cfg.ConfigOpts, *, proc_net: Path = PROC_NET) -> None:
        super().__init__(conf, proc_net=proc_net)
        # When each guest was rescued, or was first seen so, in monotonic seconds.
        self._rescued_at: dict[str, float] = {}

    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        with self._host.connection("Rescuing", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None:
                jobs.require_free(domain)
                saved_memory.require_none(domain)
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host, instance)
            self._disks.make_rescue(instance, BaseImage.of(instance, image_path, image), image)

    def rescue(self, instance: Instance, image: Image | None = None) -> PowerState:
        disks: tuple[Disk, ...] = ()
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host, instance)
            rescue, (root, *others) = self._disks.rescue_disk(instance.uuid), self._disks.plan(instance)
            device = self._place_before(instance.uuid) if image is None else rescue_device(image.properties)
            if device is None:
                drives = [disk for disk in others if Path(disk.path).name == DRIVE]
                disks = (rescue, *(() if self._comes_later(instance, image) else (root,)), *drives)
            else:
                last = msgspec.structs.replace(rescue, bus=device.bus, is_cd=device.is_cd, boots=True)
                disks = (root, *others, last)
        self._define_anew(instance, disks, drop_memory=False)
        self._rescued_at[instance.uuid] = time.monotonic()
        state = self.power_on(instance)
        self._set_clock(instance.uuid)
        return state

    def _set_clock(self, instance_uuid: str) -> None:
        """The guest runs from its rescue disk already, so that no error of libvirt counts."""
        try:
            with self._host.connection("Setting the clock", domain_name(instance_uuid)) as connection:
                domain = lookup(connection, instance_uuid)
                if domain is not None:
                    self._clocks.set_when_booted(domain)
        except MinovaError as error:
            LOG.warning("The clock of instance %s is not set: %s", instance_uuid, error)

    def _comes_later(self, instance: Instance, image: Image | None) -> bool:
        """Whether the guest must not see the root disk while it boots, and can get it afterwards."""
        if guest_of(instance, self._ready()).hardware.disk_bus not in PLUGGABLE:
            return False
        if image is not None:
            return is_of_same_system(image, instance)
        # As the guest was before its host was started.
        with self._host.connection("Reading the disks", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            xml = None if domain is None else domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        return xml is None or self._lacks_root(instance.uuid, xml)

    def _lacks_root(self, instance_uuid: str, xml: str) -> bool:
        return not broken_disk.has_disk(xml, str(self._disks.folder(instance_uuid) / ROOT_DISK))

    def without_broken_disk(self) -> tuple[str, ...]:
        uuids = []
        for instance_uuid in self._disks.with_rescue_disk() if self._real else ():
            with self._host.connection("Reading the disks", domain_name(instance_uuid)) as connection:
                domain = lookup(connection, instance_uuid)
                if domain is None or self._our_mark(domain) is None or not domain.isActive():
                    continue
                if self._lacks_root(instance_uuid, domain.XMLDesc(0)):
                    uuids.append(instance_uuid)
        self._rescued_at = {uuid: at for uuid, at in self._rescued_at.items() if uuid in uuids}
        return tuple(uuids)

    def attach_broken_disk(self, instance_uuid: str) -> None:
        """The next start of the guest is without the disk again: only the domain that runs gets it."""
        began = self._rescued_at.setdefault(instance_uuid, time.monotonic())
        has_had_time = time.monotonic() >= began + self._conf.libvirt.rescue_disk_delay
        with self._host.connection("Attaching the disk to rescue", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            xml = domain.XMLDesc(0)
            if not domain.isActive() or not self._lacks_root(instance_uuid, xml):
                return
            if not has_had_time and not broken_disk.is_agent_connected(xml):
                return
            self._disks.require_owner(instance_uuid, self._ready().host)
            self._disks.share_base(instance_uuid)
            rescue, root = self._disks.rescue_disk(instance_uuid), self._disks.root_disk(instance_uuid)
            with self._secrets.defined_for_start(connection, instance_uuid, xml):
                domain.attachDeviceFlags(broken_disk.disk_beside(xml, rescue, root), libvirt.VIR_DOMAIN_AFFECT_LIVE)
            LOG.info("Instance %s has booted its rescue system, and has its own disk beside it now", instance_uuid)

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
