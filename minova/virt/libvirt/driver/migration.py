"""Moves of guests between hosts, while they are off or while they run."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import libvirt
from oslo_config import cfg

from minova import errors
from minova.concurrency.side_work import beside
from minova.objects.network.vif import Vif, filter_name
from minova.objects.servers.disk_export import TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import (
    GuestReport,
    GuestSide,
    LiveDestination,
    LiveMode,
    LiveOutcome,
    LiveProgress,
    LiveSource,
)
from minova.objects.servers.states import PowerState, VmState
from minova.virt.driver.domains import NO_ROW, RowHost
from minova.virt.libvirt.driver.as_built import lacks_of
from minova.virt.libvirt.driver.cold_migration import ColdMigration
from minova.virt.libvirt.guest_files.image_locks import ImageHold
from minova.virt.libvirt.guest_state import jobs, power, sides
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.migration import live_run, paused_disks
from minova.virt.libvirt.migration.live_options import LiveOptions, uri_of_peer
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.xml.disk_xml import disk_formats_of
from minova.virt.libvirt.xml.mark import domain_name, mark_of
from minova.virt.libvirt.xml.migration_xml import cpu_of, migrated_xml, targets_of
from minova.virt.libvirt.xml.secrets_xml import kinds_of
from minova.virt.namespaces.host_routes import PROC_NET

LOG = logging.getLogger(__name__)
# Seconds between two looks at a guest that is about to come, and for which an ended migration is waited for.
_TLS_DIFFERS = "Source and destination differ in [libvirt] live_migration_with_native_tls, or in certificates of QEMU in /etc/pki/qemu"
_LOOKS, _SETTLES = 0.02, 60.0
_MIGRATABLE = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE


class LibvirtMigration(ColdMigration):
    def __init__(self, conf: cfg.ConfigOpts, *, proc_net: Path = PROC_NET) -> None:
        super().__init__(conf, proc_net=proc_net)
        self._live = LiveOptions.of(conf)
        self._address = str(conf.libvirt.live_migration_inbound_addr or conf.my_ip)
        self._destinations: dict[str, LiveDestination] = {}
        # Of guests that have left, but that libvirt may try to continue here, by instance.
        self._holds: dict[str, ImageHold] = {}
        self._ending: dict[str, Future[None]] = {}
        # Interfaces of guests that are about to arrive here, by instance.
        self._awaited: dict[str, tuple[Vif, ...]] = {}

    @property
    def moves_guests(self) -> bool:
        """Guests of libvirt's test hypervisor have no disks."""
        return self._real

    def live_source(self, instance: Instance, migration_uuid: str, key: TransferKey) -> LiveSource:
        host = self._ready().host
        self._disks.require_owner(instance.uuid, host, instance)
        with self._host.connection("Live migration", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            jobs.require_free(domain)
            if not domain.isActive():
                raise errors.GuestNotRunning(f"Domain {domain.name()} does not run")
            self._snapshots.settle(instance.uuid, domain)
            self._snapshots.require_none_kept(instance.uuid, host)
            xml = domain.XMLDesc(_MIGRATABLE)
            inactive = domain.XMLDesc(_MIGRATABLE | libvirt.VIR_DOMAIN_XML_INACTIVE)
            sizes = {Path(path).name: domain.blockInfo(target)[0] for path, target in targets_of(xml).items()}
        files, images = self._moving.files_beside(instance), self._moving.image_files(instance)
        export, _ = self._serve(instance, migration_uuid, key, files, images, xml)
        return LiveSource(
            xml=xml,
            inactive_xml=inactive,
            cpu_xml=cpu_of(xml),
            sizes=sizes,
            export=export,
            with_tls=self._live.with_tls,
        )

    def check_live(self, instance: Instance, source: LiveSource, *, block: bool | None) -> None:
        if source.with_tls is not None and source.with_tls is not self._live.with_tls:
            raise errors.HardwareNotOffered(_TLS_DIFFERS)
        # Raises if this host cannot define the guest.
        self._xml_of(instance, instance.node or "", instance.attempt, self._disks.plan(instance))
        shared = self._moving.shares(instance.uuid, source.export)
        if block is not None and block is shared:
            storage = "both hosts have the same disks" if shared else "the hosts do not share the disks"
            raise errors.Conflict(f"Instance {instance.uuid} cannot migrate in this mode: {storage}")
        self._require_cpu(instance, source)

    def _require_cpu(self, instance: Instance, source: LiveSource) -> None:
        if source.cpu_xml is None:
            return
        with self._host.connection("Comparing the CPU", domain_name(instance.uuid)) as connection:
            settings = self._ready()
            answer = connection.compareHypervisorCPU(None, settings.arch, None, settings.virt_type, source.cpu_xml, 0)
        if answer not in {libvirt.VIR_CPU_COMPARE_IDENTICAL, libvirt.VIR_CPU_COMPARE_SUPERSET}:
            raise errors.HardwareNotOffered(f"The CPU of instance {instance.uuid}: this host does not offer it")

    def prepare_live(
        self,
        instance: Instance,
        node: str,
        attempt: int,
        source: LiveSource,
        key: TransferKey,
        image_path: Path | None,
        check: Callable[[], None],
    ) -> LiveDestination:
        host = self._ready().host
        with self._host.connection("Preparing for a live migration", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None and domain.isActive():
                raise errors.GuestBusy(f"Domain {domain.name()} runs here or is about to arrive")
            tls_name = str(connection.getHostname()) if self._live.with_tls else None
        vifs = tuple(vif for vif in instance.network_info if not vif.from_neutron)
        self._awaited[instance.uuid] = vifs
        self._filters.await_guest(vif.port_id for vif in vifs)
        shared = self._moving.shares(instance.uuid, source.export)
        unlocked = shared and not self._moving.sees_locks(instance.uuid, source.sizes)
        if unlocked:
            LOG.warning(
                "No lock of the QEMU at %s is seen on the shared disks of instance %s: the guest arrives paused",
                source.export.host,
                instance.uuid,
            )
        copied: tuple[str, ...] = ()
        with beside("networks of a guest that moves", partial(self._plug_awaited, instance)):
            if not shared:
                targets = {Path(path).name: target for path, target in targets_of(source.xml).items()}
                formats = disk_formats_of(source.xml, instance.uuid)
                base = BaseImage.if_there(instance, image_path)
                self._moving.make_targets(instance, host, attempt, source, formats, key, base, check)
                copied = tuple(targets[name] for name in source.sizes)
                self._disks.make_boot_files(instance, image_path)
            mark = mark_of(source.inactive_xml)
            lacks = () if mark is None else lacks_of(instance, source.inactive_xml, mark)
            own = self._xml_of(instance, node, attempt, self._disks.plan(instance), lacks=lacks)
        with self._host.connection("Preparing for a live migration", domain_name(instance.uuid)) as connection:
            # Until the guest has arrived: libvirt makes its domain from the source's.
            self._secrets.give(connection, instance.uuid, kinds_of(own))
        return LiveDestination(
            mode=LiveMode.SHARED if shared else LiveMode.BLOCK,
            uri=uri_of_peer(self._live.scheme, self._address),
            address=self._address,
            tls_name=tls_name,
            xml=migrated_xml(source.xml, own),
            persistent_xml=migrated_xml(source.inactive_xml, own),
            copied=copied,
            unlocked=unlocked,
        )

    def _plug_awaited(self, instance: Instance) -> None:
        with self._host.connection("Preparing for a live migration", domain_name(instance.uuid)) as connection:
            self._plug(connection, instance)

    def live_migrate(
        self, instance: Instance, destination: LiveDestination, progress: Callable[[LiveProgress], None]
    ) -> LiveOutcome:
        if self._live.with_tls is not (destination.tls_name is not None):
            raise errors.HypervisorError(_TLS_DIFFERS)
        size = instance.flavor.memory_mb << 20
        if destination.copied:
            size += instance.flavor.disk_gb << 30
        uuid, stays_paused = instance.uuid, instance.vm_state is VmState.PAUSED
        hold = None if stays_paused else self._hold_of(uuid, destination)
        run = live_run.LiveRun(
            self._host, self._live, uuid, destination, size=size, stays_paused=stays_paused, hold=hold
        )
        self._destinations[uuid] = destination
        try:
            outcome = run.run(progress)
        except BaseException:
            self._release(uuid)
            raise
        finally:
            self._destinations.pop(uuid, None)
        if not outcome.handing_over:
            self._release(uuid)
        elif run.begun is not None:
            self._ending[uuid] = run.begun
            run.begun.add_done_callback(lambda ended: None if ended.exception() else self._release(uuid))
        return outcome

    def _hold_of(self, instance_uuid: str, destination: LiveDestination) -> ImageHold | None:
        """Returns the hold of the disks that are copied to this destination."""
        if destination.mode is not LiveMode.BLOCK or not destination.copied:
            return None
        with self._host.connection("Live migration", domain_name(instance_uuid)) as connection:
            targets = targets_of(self._own(connection, instance_uuid).XMLDesc())
        paths = [Path(path) for path, target in targets.items() if target in destination.copied]
        return self._holds.setdefault(instance_uuid, ImageHold(paths))

    def hold_disks(self, instance: Instance, destination: LiveDestination) -> None:
        """While libvirt ends the guest that it hands over, it answers no question about it, and the guest stands still. So it is asked only
        if the disks cannot be held. The destination has the guest whole by now, so QEMU can continue it here only after it has its disks
        again.
        """
        handed_over = self._holds.get(instance.uuid)
        if handed_over is not None and handed_over.take():
            return
        hold = self._hold_of(instance.uuid, destination)
        is_held = hold is not None and hold.take()
        side = self.guest_side(instance.uuid).side
        if side is GuestSide.LEFT or (is_held and side is GuestSide.PAUSED_BY_MIGRATION):
            return
        self._release(instance.uuid)
        raise errors.GuestStateUnexpected(f"The guest of instance {instance.uuid} has not left: {side}")

    def _release(self, instance_uuid: str) -> None:
        hold = self._holds.pop(instance_uuid, None)
        if hold is not None:
            hold.release()

    def settle_live(self, instance_uuid: str) -> None:
        ending = self._ending.pop(instance_uuid, None)
        if ending is not None:
            wait([ending], _SETTLES)

    def abort_live(self, instance_uuid: str) -> None:
        live_run.abort(self._host, instance_uuid)

    def force_complete_live(self, instance_uuid: str) -> None:
        destination = self._destinations.get(instance_uuid)
        if destination is None:
            raise errors.GuestStateUnexpected(f"No live migration of instance {instance_uuid} runs")
        live_run.force_complete(self._host, self._live, destination, instance_uuid)

    def guest_side(self, instance_uuid: str) -> GuestReport:
        with self._host.connection("Reading the state", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None:
                return GuestReport(side=GuestSide.ABSENT)
            hold = self._holds.get(instance_uuid)
            is_held = hold is not None and hold.taken
            mark, side = self._our_mark(domain), sides.side_of(domain, held=is_held)
            if hold is not None and is_held and side is not GuestSide.PAUSED_BY_MIGRATION:
                hold.release()
            return GuestReport(
                side=side,
                attempt=None if mark is None else mark.attempt,
                moving=sides.migrates(domain),
            )

    def await_guest(self, instance_uuid: str, attempt: int, check: Callable[[], None]) -> None:
        until = time.monotonic() + _SETTLES
        while not self._has_come(instance_uuid, attempt):
            if time.monotonic() > until:
                raise errors.GuestBusy(f"libvirt still works on the migration of instance {instance_uuid}")
            check()
            time.sleep(_LOOKS)

    def _has_come(self, instance_uuid: str, attempt: int) -> bool:
        """Raises GuestMissing if the guest does not come any more."""
        missing = errors.GuestMissing(f"The guest of instance {instance_uuid} has not come")
        try:
            with self._host.connection("Arrival", domain_name(instance_uuid)) as connection:
                domain = lookup(connection, instance_uuid)
                mark = None if domain is None else self._our_mark(domain)
                if mark is None or mark.attempt != attempt or not domain.isActive():
                    raise missing
                return not sides.migrates(domain) and sides.side_of(domain) is GuestSide.PAUSED
        except errors.NotFound as error:  # libvirt has removed it meanwhile
            raise missing from error

    def arrive(self, instance: Instance, attempt: int) -> PowerState:
        # The server is here already, whatever has become of its guest: an evacuation to the source must not find disks
        # that the source seems to have made itself.
        self._moving.own(instance.uuid, self._ready().host, attempt)
        with self._host.connection("Arrival", domain_name(instance.uuid)) as connection:
            domain = self._arrived(connection, instance.uuid, attempt)
            jobs.require_free(domain)
            if not domain.isActive():
                raise errors.GuestStateUnexpected(f"Domain {domain.name()} does not run")
            self._forget_awaited(instance.uuid)
            self._secrets.take(connection, instance.uuid, kinds_of(domain.XMLDesc()))
            if instance.vm_state is not VmState.PAUSED:
                _resume(domain)
                self._clocks.set_soon(domain)
            else:
                paused_disks.activate(domain)
            self._note_addresses(domain)
            return power.state_of(domain)

    def _arrived(self, connection: Any, instance_uuid: str, attempt: int) -> Any:
        domain = self._own(connection, instance_uuid)
        mark = self._our_mark(domain)
        if mark is None or mark.attempt != attempt:
            raise errors.NotFound(f"Domain {domain.name()} is not of attempt {attempt}")
        return domain

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        """Also what was made for a guest that has not arrived. A deletion in the middle of a move is the end of its export, too."""
        self._exports.stop_folder(self._disks.folder(instance_uuid))
        super().destroy(instance_uuid, row)
        self._release(instance_uuid)
        with self._host.connection("Destroying", domain_name(instance_uuid)) as connection:
            self._secrets.take(connection, instance_uuid)
        vifs = self._forget_awaited(instance_uuid)
        if not vifs:
            return
        with self._host.connection("Destroying", domain_name(instance_uuid)) as connection:
            if lookup(connection, instance_uuid) is None:
                names = [(self._networks.source_of(vif), vif.mac_address) for vif in vifs if not vif.from_neutron]
                self._networks.unplug(connection, instance_uuid, names, lambda: None)
                self._filters.remove(connection, [filter_name(vif.port_id) for vif in vifs])

    def _forget_awaited(self, instance_uuid: str) -> tuple[Vif, ...]:
        vifs = self._awaited.pop(instance_uuid, ())
        self._filters.forget_guest(vif.port_id for vif in vifs)
        return vifs

    def stay(self, instance_uuid: str) -> PowerState:
        self._release(instance_uuid)
        with self._host.connection("Resuming", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            jobs.require_free(domain)
            _resume(domain)
            return power.state_of(domain)


def _resume(domain: Any) -> None:
    if power.state_of(domain) is PowerState.PAUSED:
        domain.resume()
