"""The disks of guests on this host."""

import logging
from collections.abc import Container, Iterable
from functools import partial
from pathlib import Path

import libvirt

from minova import errors
from minova.objects.servers.instance import Instance
from minova.virt.driver.disks import LeftDisks
from minova.virt.libvirt.driver.base import LibvirtBase
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.xml.disk_xml import disk_formats_of
from minova.virt.libvirt.xml.mark import domain_name

LOG = logging.getLogger(__name__)


class LibvirtDisks(LibvirtBase):
    def shares_disks(self) -> bool:
        return self._real and bool(disk_owner.other_hosts(self._disks.path, self._ready().host))

    def left_disks(self, with_domain: Container[str]) -> tuple[LeftDisks, ...]:
        return self._disks.left_disks(self._ready().host, with_domain) if self._real else ()

    def has_disks(self, instance: Instance) -> bool:
        return not self._real or self._disks.are_there(instance)

    def take_over(self, instance_uuid: str, attempt: int, old_attempt: int = 0) -> bool:
        if not self._real or not self._disks.take_over(instance_uuid, self._ready().host, attempt, old_attempt):
            return False
        # The guest may have died in the middle of a snapshot.
        self._snapshots.settle(instance_uuid, None)
        return True

    def own_renamed(self, instances: Iterable[Instance]) -> None:
        for instance in instances if self._real else ():
            try:
                self._disks.own_renamed(instance, self._ready().host)
            except (OSError, errors.HypervisorError) as error:  # the other guests of the host go on
                LOG.error("The owner of the disks of instance %s cannot be recorded: %s", instance.uuid, error)

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        for instance_uuid in instance_uuids if self._real else ():
            try:
                self._disks.own(instance_uuid, self._ready().host, partial(self._disk_formats, instance_uuid))
            except errors.HypervisorUnavailable:
                raise
            except (OSError, errors.HypervisorError) as error:  # the other guests of the host go on
                LOG.error("The owner of the disks of instance %s cannot be recorded: %s", instance_uuid, error)

    def lost_base(self, instance_uuid: str) -> Path | None:
        return self._disks.lost_base(instance_uuid) if self._real else None

    def bases_in_use(self) -> frozenset[str]:
        return self._disks.bases_in_use()

    def _disk_formats(self, instance_uuid: str) -> dict[str, str]:
        """Returns the formats of disks as an earlier release recorded them, only in the domain."""
        with self._host.connection("Reading the disks", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None or self._our_mark(domain) is None:
                return {}
            return disk_formats_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), instance_uuid)
