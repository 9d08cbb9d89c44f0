"""Moves of guests that are off: their files go over, and the domain is defined anew."""

import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import libvirt
import msgspec
from oslo_config import cfg
from oslo_utils import units

from minova import errors
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from minova.private_files import replace_file
from minova.virt.driver.domains import NO_DATA, GuestData
from minova.virt.libvirt.driver.domains import LibvirtDomains
from minova.virt.libvirt.driver.secrets import tpm_version_now
from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.guest_state import jobs, saved_memory
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.migration import arrivals, file_fetch, libvirt_files
from minova.virt.libvirt.migration.export_server import ExportServers
from minova.virt.libvirt.migration.file_bounds import FileBounds
from minova.virt.libvirt.migration.libvirt_files import MEMORY, VARIABLES
from minova.virt.libvirt.migration.moving_disks import MovingDisks, ServedFile
from minova.virt.libvirt.settings import export_ports_of
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disk_owner import DiskOwner
from minova.virt.libvirt.xml.mark import domain_name
from minova.virt.libvirt.xml.secrets_xml import kinds_of
from minova.virt.libvirt.xml.system_xml import has_variables
from minova.virt.namespaces.host_routes import PROC_NET

LOG = logging.getLogger(__name__)


class ColdMigration(LibvirtDomains):
    def __init__(self, conf: cfg.ConfigOpts, *, proc_net: Path = PROC_NET) -> None:
        super().__init__(conf, proc_net=proc_net)
        self._moving = MovingDisks(self._disks)
        self._exports = ExportServers(str(conf.my_ip), export_ports_of(conf))
        # Files that are there only to be served, by migration.
        self._staged: dict[str, tuple[Path, ...]] = {}

    def require_movable(self, instance: Instance, *, images: Collection[str] = ()) -> None:
        if self._real:
            self._moving.require_movable(instance, self._ready().host)
            self._moving.require_images(instance, images)
            self._snapshots.require_none_kept(instance.uuid, self._ready().host)

    def export_disks(
        self, instance: Instance, migration_uuid: str, key: TransferKey, *, images: Collection[str] = ()
    ) -> DiskExport:
        host = self._ready().host
        self._disks.require_owner(instance.uuid, host, instance)
        with self._host.connection("Serving the disks", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            jobs.require_free(domain)
            if domain.isActive():
                raise errors.GuestStateUnexpected(f"Domain {domain.name()} is not off")
            self._snapshots.settle(instance.uuid, domain)
            self._snapshots.require_none_kept(instance.uuid, host)
            self._note_addresses(domain)
            xml = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            files_of_libvirt = self._kept_by_libvirt(connection, instance, domain, xml)
            self._staged[migration_uuid] = files_of_libvirt
        files, served = self._moving.files(instance, files_of_libvirt), self._moving.image_files(instance, images)
        export, owner = self._serve(instance, migration_uuid, key, files, served, xml)
        size = {"memory_mb": instance.flavor.memory_mb, "vcpus": instance.flavor.vcpus}
        return msgspec.structs.replace(export, addresses=owner.addresses, **size)

    def _serve(
        self,
        instance: Instance,
        migration_uuid: str,
        key: TransferKey,
        files: Sequence[ServedFile],
        images: Sequence[ServedFile],
        xml: str,
    ) -> tuple[DiskExport, DiskOwner]:
        """Serve the files of the guest and of its image, whether it runs or not. `xml`: of its domain. Without the images if they cannot be
        served: perhaps the destination has them.
        """
        try:
            port = self._start_export(migration_uuid, key, (*files, *images))
        except errors.HypervisorError as error:
            if not images:
                raise
            LOG.warning("The image of instance %s cannot be served: %s", instance.uuid, error)
            images = ()
            port = self._start_export(migration_uuid, key, files)
        owner = self._moving.mark_shown(instance.uuid, migration_uuid)
        base = self._disks.base_digest(instance.uuid)
        export = DiskExport(
            host=owner.host,
            attempt=owner.attempt,
            shown=owner.shown,
            address=str(self._conf.my_ip),
            port=port,
            files=tuple(file for file, _ in files),
            drive_is_cd=owner.drive_is_cd,
            base=base,
            based=base is not None,
            images=tuple(file for file, _ in images),
            secrets=self._secrets.marks(instance.uuid, kinds_of(xml)),
        )
        return export, owner

    def _start_export(self, migration_uuid: str, key: TransferKey, files: Sequence[ServedFile]) -> int:
        return self._exports.start(migration_uuid, key, [each for _, each in files], self._disks.program_group)

    def stop_export(self, migration_uuid: str) -> None:
        self._exports.stop(migration_uuid)
        for path in self._staged.pop(migration_uuid, ()):
            path.unlink(missing_ok=True)

    def import_disks(
        self,
        instance: Instance,
        attempt: int,
        export: DiskExport,
        key: TransferKey,
        image_path: Path | None,
        check: Callable[[], None],
        *,
        before: Flavor | None = None,
    ) -> None:
        # A host that cannot define the guest refuses before the first byte.
        self._xml_of(instance, instance.node or "", attempt, self._disks.plan(instance))
        now = instance.flavor
        # Pages of the memory are in the swap.
        has_same_swap = before is None or before.swap == now.swap
        fits = has_same_swap and (export.memory_mb, export.vcpus) == _size(instance)
        if any(file.name == MEMORY.beside for file in export.files) and not fits:
            raise errors.SavedMemoryKept.of_flavor(instance.uuid, now.name)
        if self._moving.shares(instance.uuid, export):
            bounds = FileBounds(instance, None, before)
            self._moving.fetch_beside(instance.uuid, attempt, export, key, bounds, check)
        else:
            base = BaseImage.if_there(instance, image_path)
            bounds = FileBounds(instance, base, before)
            self._moving.fetch(instance, self._ready().host, attempt, export, key, base, bounds, check)
            self._disks.make_boot_files(instance, image_path)
        self._require_own_memory(instance, attempt)

    def fetch_image(
        self, path: Path, export: DiskExport, file: ExportedFile, key: TransferKey, check: Callable[[], None]
    ) -> None:
        file_fetch.write(path, export, file, key, check)

    def _require_own_memory(self, instance: Instance, attempt: int) -> None:
        """Raises HypervisorError if what has come as saved memory belongs to another guest: while the move can still end at the source."""
        memory = arrivals.memory_file(self._disks.folder(instance.uuid), attempt)
        if not memory.exists():
            return
        xml = self._xml_of(instance, instance.node or "", attempt, self._disks.plan(instance))
        with self._host.connection("Reading saved memory", domain_name(instance.uuid)) as connection:
            arrivals.memory_xml(connection, memory, xml)

    def define_moved(
        self, instance: Instance, node: str, attempt: int, data: GuestData = NO_DATA, *, stayed_off: bool = False
    ) -> None:
        with self._host.connection("Defining after a move", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None:
                if self._runs_in(domain, attempt):
                    self._give_arrived(connection, domain, "", attempt)
                    return
                if not stayed_off and self._is_older_than_disks(domain, attempt):
                    saved_memory.forget_older(domain)
                if _size_of(domain) != _size(instance) or self._moving.makes_swap_anew(instance):
                    saved_memory.require_none(domain)
                self._snapshots.settle(instance.uuid, domain)
            self._moving.take_over(instance, self._ready().host, attempt, self._write_drive(instance, data))
            xml = self._xml_of(instance, node, attempt, self._disks.plan(instance))
            domain = self._with_addresses(connection, instance.uuid, xml) or connection.defineXML(xml)
            self._without_machine.discard(instance.uuid)
            self._plug(connection, instance)
            self._give_arrived(connection, domain, xml, attempt)

    def _runs_in(self, domain: Any, attempt: int) -> bool:
        """Whether the domain runs in this attempt. Raises GuestIsNewer for a later attempt, GuestStateUnexpected if it runs in
        an earlier one.
        """
        mark = self._our_mark(domain)
        if mark is None:
            raise errors.HypervisorError(f"Domain {domain.name()} has the UUID of an instance, but is not ours")
        if mark.attempt > attempt:
            raise errors.GuestIsNewer(f"Domain {domain.name()} is of attempt {mark.attempt}, not {attempt}")
        if domain.isActive() and mark.attempt != attempt:
            raise errors.GuestStateUnexpected(f"Domain {domain.name()} runs in attempt {mark.attempt}")
        return bool(domain.isActive())

    def _is_older_than_disks(self, domain: Any, attempt: int) -> bool:
        """Whether the disks, on shared storage, have been in use in an attempt between the domain's and this one."""
        mark, disks = self._our_mark(domain), self._moving.attempt_of(domain.UUIDString())
        return mark is not None and disks is not None and mark.attempt < disks < attempt

    def _kept_by_libvirt(self, connection: Any, instance: Instance, domain: Any, xml: str) -> tuple[Path, ...]:
        """Returns the files beside the disks with what libvirt keeps of the guest elsewhere."""
        kinds = []
        if has_variables(xml):
            kinds.append(VARIABLES)
        if domain.hasManagedSaveImage():
            kinds.append(MEMORY)
        folder = self._disks.folder(instance.uuid)
        files = [libvirt_files.read(connection, kind, domain.name(), folder) for kind in kinds]
        tpm = self._tpm_beside(connection, instance.uuid, tpm_version_now(instance, xml))
        return tuple(path for path in (*files, tpm) if path is not None)

    def _tpm_beside(self, connection: Any, instance_uuid: str, version: str | None) -> Path | None:
        """Returns the file beside the disks with the state of the guest's TPM; None if there is none."""
        state = None if version is None else tpm_files.read(connection, instance_uuid, version)
        if version is None or state is None:
            return None
        path = self._disks.folder(instance_uuid) / tpm_files.BESIDE[version]
        replace_file(path, state)
        return path

    def close(self) -> None:
        self._exports.close()
        self._host.close()


def _size(instance: Instance) -> tuple[int, int]:
    return instance.flavor.memory_mb, instance.flavor.vcpus


def _size_of(domain: Any) -> tuple[int, int]:
    _, memory_kib, _, vcpus, _ = domain.info()
    return memory_kib // units.Ki, vcpus
