"""Moves of guests that are off: their files go over, and the domain is defined anew."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from oslo_config import cfg

from minova import errors
from minova.objects.catalogue.guest_hardware import guest_hardware
from minova.objects.servers.disk_export import DiskExport, TransferKey
from minova.objects.servers.instance import Instance
from minova.virt.driver.domains import NO_DATA, GuestData
from minova.virt.libvirt.driver.domains import LibvirtDomains
from minova.virt.libvirt.guest_state import jobs, saved_memory
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.migration import firmware_variables
from minova.virt.libvirt.migration.export_server import ExportServers
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.networking.host_routes import PROC_NET
from minova.virt.libvirt.settings import export_ports_of
from minova.virt.libvirt.storage.disk_images import Base
from minova.virt.libvirt.xml.guest_xml import domain_name


class ColdMigration(LibvirtDomains):
    def __init__(self, conf: cfg.ConfigOpts, *, proc_net: Path = PROC_NET) -> None:
        super().__init__(conf, proc_net=proc_net)
        self._moving = MovingDisks(self._disks)
        self._exports = ExportServers(str(conf.my_ip), export_ports_of(conf))

    def export_disks(self, instance: Instance, migration_uuid: str, key: TransferKey) -> DiskExport:
        host = self._ready().host
        self._disks.require_owner(instance.uuid, host)
        with self._host.connection("Serving the disks", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            jobs.require_free(domain)
            if domain.isActive():
                raise errors.GuestStateUnexpected(f"Domain {domain.name()} is not off")
            saved_memory.require_none(domain)
            self._snapshots.settle(instance.uuid, domain)
            kept = self._save_variables(connection, instance)
        files = self._moving.files(instance, kept)
        served = [each for _, each in files]
        port = self._exports.start(migration_uuid, key, served, self._disks.program_group)
        owner = self._moving.owner(instance.uuid)
        return DiskExport(
            host=owner.host,
            attempt=owner.attempt,
            root_inode=owner.disk,
            address=str(self._conf.my_ip),
            port=port,
            files=tuple(file for file, _ in files),
            drive_is_cd=owner.drive_is_cd,
        )

    def stop_export(self, migration_uuid: str) -> None:
        self._exports.stop(migration_uuid)

    def import_disks(
        self,
        instance: Instance,
        attempt: int,
        export: DiskExport,
        key: TransferKey,
        image_path: Path | None,
        check: Callable[[], None],
    ) -> None:
        # A host that cannot define the guest refuses before the first byte.
        self._xml_of(instance, instance.node or "", attempt, self._disks.plan(instance))
        if self._moving.shares(instance.uuid, export):
            return
        base = None if image_path is None else Base.of(instance, image_path)
        self._moving.fetch(instance, self._ready().host, attempt, export, key, base, check)

    def define_moved(self, instance: Instance, node: str, attempt: int, data: GuestData = NO_DATA) -> None:
        with self._host.connection("Defining after a move", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            mark = None if domain is None else self._our_mark(domain)
            if domain is not None:
                if mark is None:
                    raise errors.HypervisorError(f"Domain {domain.name()} has the UUID of an instance, but is not ours")
                if mark.attempt > attempt:
                    raise errors.GuestIsNewer(f"Domain {domain.name()} is of attempt {mark.attempt}, not {attempt}")
                if domain.isActive() and mark.attempt == attempt:
                    return
                if domain.isActive():
                    raise errors.GuestStateUnexpected(f"Domain {domain.name()} runs in attempt {mark.attempt}")
                saved_memory.require_none(domain)
                self._snapshots.settle(instance.uuid, domain)
            self._moving.take_over(instance, self._ready().host, attempt, self._write_drive(instance, data))
            defined = connection.defineXML(self._xml_of(instance, node, attempt, self._disks.plan(instance)))
            self._plug(connection, instance)
            kept = self._disks.folder(instance.uuid) / firmware_variables.NAME
            if kept.exists():
                firmware_variables.restore(connection, defined.name(), kept)
                kept.unlink()

    def _save_variables(self, connection: Any, instance: Instance) -> tuple[Path, ...]:
        if not (instance.image and guest_hardware(instance.image.properties, instance.flavor.extra_specs).uefi):
            return ()
        path = self._disks.folder(instance.uuid) / firmware_variables.NAME
        return (path,) if firmware_variables.save(connection, domain_name(instance.uuid), path) else ()

    def close(self) -> None:
        self._exports.close()
        self._host.close()
