"""Copies of root disks while their guests run."""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from oslo_utils import units

from minova import errors
from minova.objects.servers.instance import Instance
from minova.virt.libvirt import guest_agent
from minova.virt.libvirt.driver.base import LibvirtBase
from minova.virt.libvirt.guest_state import jobs, power, saved_memory
from minova.virt.libvirt.storage.disk_snapshots import write_empty
from minova.virt.libvirt.xml.mark import domain_name

LOG = logging.getLogger(__name__)


class LibvirtSnapshots(LibvirtBase):
    def snapshot(self, instance: Instance, path: Path, check: Callable[[], None]) -> None:
        """Meanwhile a running or paused guest writes into an overlay beside its disk, which is committed to the disk at
        the end.
        """
        uuid, name = instance.uuid, domain_name(instance.uuid)
        if not self._real:
            with self._host.connection("Snapshot", name) as connection:
                self._own(connection, uuid)
            check()
            write_empty(path, max(instance.flavor.root_gb, 1) * units.Gi)
            return
        self._disks.require_owner(uuid, self._ready().host, instance)
        if any(disk.is_encrypted for disk in self._disks.plan(instance)):
            raise errors.HypervisorError("An image of an encrypted disk would not be encrypted")
        with self._host.connection("Snapshot", name) as connection:
            domain = self._own(connection, uuid)
            jobs.require_free(domain)
            self._snapshots.settle(uuid, domain, check)
            if self._snapshots.is_open(uuid):
                # The overlay has the guest's last writes, and stays because saved memory belongs to it.
                saved_memory.require_none(domain)
            self._snapshots.require_room(uuid, path)
        try:
            self._set_aside(instance)
            self._snapshots.copy(uuid, path, check)
        except BaseException:
            # If the action is not wanted any more, `check` ends the commit as well: a deletion may wait until this has ended.
            with suppress(Exception):
                self._end_snapshot(uuid, check)
            raise
        # The copy is good, however the commit ends. The commit may take long; `check` reports to the conductor that the
        # action goes on.
        self._end_snapshot(uuid, check)

    def has_open_snapshot(self, instance_uuid: str) -> bool:
        return self._real and (self._snapshots.is_open(instance_uuid) or self._snapshots.has_kept(instance_uuid))

    def open_snapshots(self) -> tuple[str, ...]:
        overlays = self._snapshots.open_ones() if self._real else ()
        if not overlays:
            return ()
        with self._host.connection("Listing domains") as connection:
            own = {view.uuid for view in self._views(connection) if view.ours}
        # Hosts may share the folder.
        return tuple(uuid for uuid in overlays if uuid in own)

    def end_snapshot(self, instance_uuid: str, check: Callable[[], None] = lambda: None) -> None:
        self._end_snapshot(instance_uuid, check)

    def _set_aside(self, instance: Instance) -> None:
        with self._host.connection("Snapshot", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            if domain.isActive():
                power.wake(domain)
                self._snapshots.set_aside(
                    domain, lambda xml, flags: guest_agent.take_snapshot(domain, xml, flags, instance.image)
                )

    def _end_snapshot(self, instance_uuid: str, check: Callable[[], None]) -> None:
        """Commit the overlay, if there is one. Raises the errors of `check`; other errors are logged."""
        if not self._snapshots.is_open(instance_uuid):
            return
        try:
            with self._host.connection("Commit of the snapshot", domain_name(instance_uuid)) as connection:
                self._snapshots.settle(instance_uuid, self._own(connection, instance_uuid), check)
        except (errors.MinovaError, OSError) as error:
            LOG.warning("The snapshot of instance %s is not committed to its disk yet: %s", instance_uuid, error)
