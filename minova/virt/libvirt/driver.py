"""The driver for libvirt, with QEMU, KVM or libvirt's own test hypervisor.

The domain is defined before its disks are made and undefined after they are removed. So after a crash at any point a
domain shows what exists, and the compute can finish or undo the work.
"""

import logging
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import libvirt
import msgspec
from oslo_config import cfg

from minova import errors
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.catalogue.image import Image
from minova.objects.hosts.compute_node import DomainView, HypervisorView, clamped
from minova.objects.hosts.cpu_times import CpuTimes
from minova.objects.network.network import LOCAL
from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.console import ConsoleAddress, ConsoleType
from minova.objects.servers.diagnostics import GuestDiagnostics
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.config_drive.builder import ConfigDrives
from minova.virt.driver import NO_DATA, NO_ROW, GuestData, LeftDisks, RowHost, last_lines
from minova.virt.libvirt import diagnostics, guest_agent
from minova.virt.libvirt.consoles import SerialPorts, port_of
from minova.virt.libvirt.error_codes import meaning
from minova.virt.libvirt.guest_state import jobs, power, saved_memory
from minova.virt.libvirt.host import Host, exists, lookup, require
from minova.virt.libvirt.host_view import HostReader, cpus_of
from minova.virt.libvirt.networking.bridges import Bridges
from minova.virt.libvirt.networking.filters import PortFilters
from minova.virt.libvirt.networking.host_routes import PROC_NET, addresses_of_host, routes_of_host
from minova.virt.libvirt.networking.hotplug import Hotplug, interfaces_of_ports
from minova.virt.libvirt.networking.networks import LocalNetworks, interfaces_of
from minova.virt.libvirt.settings import SYSTEM_URI, settings_from, uri_of
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_images import Base
from minova.virt.libvirt.storage.disk_snapshots import DiskSnapshots, write_empty
from minova.virt.libvirt.storage.disks import DRIVE, Disks, DiskSettings, WriteDrive
from minova.virt.libvirt.xml.filter_xml import filters_of
from minova.virt.libvirt.xml.guest_xml import (
    NAMESPACE,
    Disk,
    HostSettings,
    Mark,
    disk_formats_of,
    domain_name,
    guest_xml,
    interface_xml,
    mark_of,
)

LOG = logging.getLogger(__name__)
KIB_IN_MB = 1024
KB, GB = 1 << 10, 1 << 30
# Seconds between checks whether a guest has shut itself down, and between signals to it (Nova's
# shutdown_retry_interval).
SHUTDOWN_POLL, SHUTDOWN_RETRY_INTERVAL = 0.5, 10.0
# Seconds between checks of the networks of guests: less than the compute's interval.
REPAIR_INTERVAL = 30.0
_UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)


class LibvirtDriver:
    """Implements `virt.driver.Driver`. Safe for threads."""

    reports_resources: ClassVar[bool] = True

    def __init__(self, conf: cfg.ConfigOpts, *, proc_net: Path = PROC_NET) -> None:
        """`proc_net`: /proc/PID/net of libvirtd, if it has a network namespace of its own."""
        self._conf = conf
        self._host = Host(uri_of(conf))
        self._disks = Disks(Path(conf.instances_path), DiskSettings.of(conf))
        self._drives = ConfigDrives(conf)
        self._real: bool = conf.libvirt.virt_type != "test"
        self._snapshots = DiskSnapshots(self._disks, lambda: int(conf.free_space_reserve_mb) << 20)
        self._networks = LocalNetworks(partial(routes_of_host, proc_net), metadata=conf.networks.metadata_service)
        self._filters = PortFilters(partial(addresses_of_host, proc_net))
        mappings = conf.networks.bridge_mappings
        # Another libvirtd may be on another host or in another namespace, whose bridges cannot be seen from here.
        sees_bridges = self._real and uri_of(conf) == SYSTEM_URI
        self._bridges = Bridges(mappings) if sees_bridges else Bridges(mappings, lambda bridge: True)
        self._hotplug = Hotplug(
            lambda purpose, uuid: self._host.asked(purpose, domain_name(uuid)),
            self._networks,
            self._filters,
            attempts=conf.libvirt.device_detach_attempts,
            timeout=float(conf.libvirt.device_detach_timeout),
        )
        self._next_repair = 0.0
        self._reader = HostReader(conf)
        self._settings: HostSettings | None = None
        self._serial_ports: SerialPorts | None = None
        self._node: str | None = None
        self._former_hosts: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    # -- the host --------------------------------------------------------------------------------------------------

    def init_host(self, host: str) -> None:
        self._disks.check()
        self._drives.check()
        with self._host.asked("Reading the capabilities") as connection:
            self._reader.check(connection)
            offered = self._reader.capabilities(connection)
            cpus = cpus_of(connection, offered)
            offer = self._reader.offer(connection, offered.arch)
        direct_io = self._disks.direct_io()
        self._settings = settings_from(self._conf, host, offered, cpus, direct_io=direct_io, offer=offer)
        if self._settings.serial is not None:
            self._serial_ports = SerialPorts(self._settings.serial, self._ports_of_domains)
        if self._real:
            self._disks.let_in(offered.qemu_user, Path(self._conf.state_path))
            disk_owner.register_host(self._disks.path, host)

    def recognise(self, former_hosts: tuple[str, ...]) -> None:
        self._former_hosts = frozenset(former_hosts)

    def available_nodes(self) -> tuple[str, ...]:
        # Not cached: the call also checks that the hypervisor answers.
        with self._host.asked("Reading the host name") as connection:
            name = str(connection.getHostname())
        with self._lock:
            if self._node is None:
                self._node = name
            elif self._node != name:
                LOG.error(
                    "The hypervisor's host name is now %s, not %s: a restart is needed to take it", name, self._node
                )
            return (self._node,)

    def host_view(self, node: str) -> HypervisorView:
        """Raises NotFound if there is no such node."""
        if node not in self.available_nodes():
            raise errors.NotFound(f"Node {node} is not one of {', '.join(self.available_nodes())}")
        with self._host.asked("Reading the host's resources") as connection:
            domains = self._views(connection)
            facts = self._reader.read(connection, domains)
        vcpus, pcpus = facts.sets.counted
        space = self._disks.usage()
        return HypervisorView(
            node=node,
            vcpus=vcpus,
            pcpus=pcpus,
            gpus=facts.gpus,
            traits=facts.traits,
            bridges=self._bridges.there(),
            memory_mb=facts.memory_mb,
            memory_mb_used=facts.memory_mb_used,
            local_gb=space.total // GB,
            local_gb_used=space.used // GB,
            disk_available_least=clamped((space.free - self._disks.growth()) // GB),
            hypervisor_type=facts.hypervisor_type,
            hypervisor_version=facts.hypervisor_version,
            hypervisor_hostname=node,
            cpu_info=facts.capabilities.cpu_info,
            supported_instances=facts.capabilities.supported_instances,
            numa_topology=facts.numa_topology,
            pci_devices=facts.pci_devices,
            domains=domains,
        )

    def bridges(self) -> dict[str, str]:
        return self._bridges.there()

    def domains(self) -> tuple[DomainView, ...]:
        with self._host.asked("Listing domains") as connection:
            return self._views(connection)

    def cpu_times(self, node: str) -> CpuTimes | None:
        with self._host.asked("Reading the CPU times") as connection:
            try:
                nanoseconds = connection.getCPUStats(libvirt.VIR_NODE_CPU_STATS_ALL_CPUS)
            except libvirt.libvirtError as error:
                if error.get_error_code() in {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_INVALID_ARG}:
                    return None
                raise
            times = {name: int(nanoseconds.get(name, 0)) for name in ("user", "kernel", "idle", "iowait")}
            return CpuTimes(frequency=int(connection.getInfo()[3]), **times)

    def overhead(self, flavor: Flavor) -> Overhead:
        """As Nova estimates it: separate emulator threads take one more CPU."""
        return Overhead(vcpus=int(flavor.extra_specs.get("hw:emulator_threads_policy") == "isolate"))

    def needs_image(self) -> bool:
        return self._real

    # -- one instance ----------------------------------------------------------------------------------------------

    def prepare(
        self, instance: Instance, node: str, attempt: int, image_path: Path | None, data: GuestData = NO_DATA
    ) -> None:
        name = domain_name(instance.uuid)
        disks = self._disks.plan(instance, drive_is_cd=self._drives.is_cd) if self._real else ()
        xml = self._xml_of(instance, node, attempt, disks)
        base = Base.of(instance, image_path) if self._real else None
        with self._host.asked("Preparing", name) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None:
                mark = self._our_mark(domain)
                if mark is None:
                    raise errors.HypervisorError(f"Domain {domain.name()} has the UUID of {name}, but is not ours")
                if domain.isActive() and mark.attempt == attempt:
                    return
                if mark.attempt > attempt:
                    raise errors.GuestIsNewer(f"Domain {domain.name()} is of attempt {mark.attempt}, not {attempt}")
                self._destroy(domain, instance.uuid, NO_ROW)
            connection.defineXML(xml)
            self._plug(connection, instance)
        if base is not None:
            self._disks.make(instance, base, self._ready().host, attempt, self._write_drive(instance, data))

    def power_on(self, instance: Instance, *, paused: bool = False) -> PowerState:
        """Raises NotFound if there is no domain, StaleAttempt if another host has made its disks since."""
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host)
            self._disks.share_base(instance.uuid)
        with self._host.asked("Starting", domain_name(instance.uuid)) as connection:
            domain = require(connection, instance.uuid)
            jobs.require_free(domain)
            self._snapshots.settle(instance.uuid, domain)
            self._plug(connection, instance)
            try:
                domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED if paused else 0)
            except libvirt.libvirtError:
                if not domain.isActive():
                    raise
            saved_memory.forget_used(domain)
            return power.state_of(domain.state()[0])

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        with self._host.asked("Destroying", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None:
                self._remove_disks(instance_uuid, row)
                self._release_ports(instance_uuid)
            elif self._our_mark(domain) is None:
                LOG.warning("Domain %s has the UUID of instance %s, but is not ours", domain.name(), instance_uuid)
            else:
                self._destroy(domain, instance_uuid, row)
                self._release_ports(instance_uuid)

    def _release_ports(self, instance_uuid: str) -> None:
        if self._serial_ports is not None:
            self._serial_ports.release(instance_uuid)

    def shares_disks(self) -> bool:
        return self._real and bool(disk_owner.other_hosts(self._disks.path, self._ready().host))

    def left_disks(self, with_domain: Container[str]) -> tuple[LeftDisks, ...]:
        return self._disks.left(self._ready().host, with_domain) if self._real else ()

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        for instance_uuid in instance_uuids if self._real else ():
            try:
                self._disks.own(instance_uuid, self._ready().host, partial(self._disk_formats, instance_uuid))
            except errors.HypervisorUnavailable:
                raise
            except (OSError, errors.HypervisorError) as error:  # the other guests of the host go on
                LOG.error("The owner of the disks of instance %s cannot be recorded: %s", instance_uuid, error)

    def _disk_formats(self, instance_uuid: str) -> dict[str, str]:
        """Returns the formats of disks as an earlier release recorded them, only in the domain."""
        with self._host.asked("Reading the disks", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None or self._our_mark(domain) is None:
                return {}
            return disk_formats_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), instance_uuid)

    def bound_console_logs(self) -> None:
        if self._real:
            self._disks.bound_console_logs(self._ready().host, self._conf.libvirt.console_log_max_kb * KB)

    def power_off(self, instance_uuid: str) -> None:
        with self._host.asked("Stopping", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is not None and self._our_mark(domain) is not None:
                jobs.require_not_saving(domain)
                _end(domain)

    def start(self, instance: Instance) -> PowerState:
        with self._host.asked("Starting", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None and self._our_mark(domain) is not None:
                jobs.require_free(domain)
                if _runs(domain):
                    saved_memory.forget_used(domain)
                    return power.state_of(domain.state()[0])
                if saved_memory.is_saved(domain):
                    return self.power_on(instance)
        return self._run_anew(instance, drop_memory=False)

    def hard_reboot(self, instance: Instance) -> PowerState:
        return self._run_anew(instance, drop_memory=True)

    def _run_anew(self, instance: Instance, *, drop_memory: bool) -> PowerState:
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host)
        self._define_anew(instance, self._disks.plan(instance) if self._real else (), drop_memory=drop_memory)
        if self._real:
            self._disks.remove_rescue(instance.uuid)
        return self.power_on(instance)

    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        with self._host.asked("Rescuing", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None:
                jobs.require_free(domain)
                saved_memory.require_none(domain)
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host)
            self._disks.make_rescue(instance.uuid, Base.of(instance, image_path, image))

    def rescue(self, instance: Instance) -> PowerState:
        disks: tuple[Disk, ...] = ()
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host)
            root, *others = self._disks.plan(instance)
            drives = [disk for disk in others if Path(disk.path).name == DRIVE]
            disks = (self._disks.rescue_disk(instance.uuid), root, *drives)
        self._define_anew(instance, disks, drop_memory=False)
        return self.power_on(instance)

    def snapshot(self, instance: Instance, path: Path, check: Callable[[], None]) -> None:
        """Meanwhile a running or paused guest writes into an overlay beside its disk, which is committed to the disk at
        the end.
        """
        uuid, name = instance.uuid, domain_name(instance.uuid)
        if not self._real:
            with self._host.asked("Snapshot", name) as connection:
                self._own(connection, uuid)
            check()
            write_empty(path, max(instance.flavor.root_gb, 1) * GB)
            return
        self._disks.require_owner(uuid, self._ready().host)
        with self._host.asked("Snapshot", name) as connection:
            domain = self._own(connection, uuid)
            jobs.require_free(domain)
            self._snapshots.settle(uuid, domain)
            if self._snapshots.is_open(uuid):
                # The overlay has the guest's last writes, and stays because saved memory belongs to it.
                saved_memory.require_none(domain)
            self._snapshots.require_room(uuid, path)
        try:
            self._set_aside(instance)
            self._snapshots.copy(uuid, path, check)
        except BaseException:
            self.end_snapshot(uuid)
            raise
        # The copy is good, however the commit ends. The commit may take long; `check` reports to the conductor that the
        # action goes on.
        self._end_snapshot(uuid, check)

    def _set_aside(self, instance: Instance) -> None:
        with self._host.asked("Snapshot", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            if domain.isActive():
                self._snapshots.set_aside(
                    domain, lambda xml, flags: guest_agent.take_snapshot(domain, xml, flags, instance.image)
                )

    def has_saved_memory(self, instance_uuid: str) -> bool:
        with self._host.asked("Reading the saved memory", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            return domain is not None and saved_memory.is_saved(domain)

    def has_open_snapshot(self, instance_uuid: str) -> bool:
        return self._real and self._snapshots.is_open(instance_uuid)

    def open_snapshots(self) -> tuple[str, ...]:
        overlays = self._snapshots.open_ones() if self._real else ()
        # Hosts may share the folder.
        own = {view.uuid for view in self.domains() if view.ours} if overlays else set()
        return tuple(uuid for uuid in overlays if uuid in own)

    def end_snapshot(self, instance_uuid: str) -> None:
        self._end_snapshot(instance_uuid, lambda: None)

    def _end_snapshot(self, instance_uuid: str, check: Callable[[], None]) -> None:
        """Commit the overlay, if there is one. Raises the errors of `check`; other errors are logged."""
        if not self._snapshots.is_open(instance_uuid):
            return
        try:
            with self._host.asked("Commit of the snapshot", domain_name(instance_uuid)) as connection:
                self._snapshots.settle(instance_uuid, self._own(connection, instance_uuid), check)
        except (errors.MinovaError, OSError) as error:
            LOG.warning("The snapshot of instance %s is not committed to its disk yet: %s", instance_uuid, error)

    def rebuild(self, instance: Instance, image_path: Path | None, data: GuestData = NO_DATA) -> None:
        if not self._real:
            self._define_anew(instance, (), drop_memory=True)
            return
        host = self._ready().host
        self._disks.require_owner(instance.uuid, host)
        base = Base.of(instance, image_path)
        # Define it with the existing disks: the new ones may have other formats, and may never be made.
        attempt = self._define_anew(instance, self._disks.plan(instance), drop_memory=True)
        self._disks.remove_rescue(instance.uuid)
        self._disks.make(instance, base, host, attempt, self._write_drive(instance, data))
        self._define_anew(instance, self._disks.plan(instance), drop_memory=True)

    def _write_drive(self, instance: Instance, data: GuestData) -> WriteDrive:
        return WriteDrive(partial(self._drives.write, instance=instance, data=data), self._drives.is_cd)

    def inject_nmi(self, instance_uuid: str) -> PowerState:
        with self._host.asked("Interrupting", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            domain.injectNMI()
            return power.state_of(domain.state()[0])

    def set_admin_password(self, instance: Instance, password: str) -> None:
        with self._host.asked("Setting the password", domain_name(instance.uuid)) as connection:
            guest_agent.set_password(self._own(connection, instance.uuid), instance.image, password)

    def pause(self, instance_uuid: str) -> PowerState:
        with self._host.asked("Pausing", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            jobs.require_free(domain)
            if power.state_of(domain.state()[0]) is not PowerState.PAUSED:
                domain.suspend()
            return power.state_of(domain.state()[0])

    def unpause(self, instance_uuid: str) -> PowerState:
        with self._host.asked("Unpausing", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            jobs.require_free(domain)
            if power.state_of(domain.state()[0]) is not PowerState.RUNNING:
                domain.resume()
            return power.state_of(domain.state()[0])

    def suspend(self, instance_uuid: str) -> PowerState:
        with self._host.asked("Suspending", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            # A process that died in a suspend has left its save running. Once that has ended, the guest is saved.
            jobs.require_free(domain)
            if domain.isActive() or not domain.hasManagedSaveImage():
                self._snapshots.settle(instance_uuid, domain)
                domain.managedSave()
            return power.state_of(domain.state()[0])

    def resume(self, instance: Instance) -> PowerState:
        """libvirt starts a domain from its saved memory automatically."""
        return self.power_on(instance)

    def shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        """Signals by ACPI, repeatedly, since the guest may not listen yet."""
        until = time.monotonic() + timeout
        next_signal = 0.0
        with self._host.asked("Shutting down", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is not None:
                jobs.require_not_saving(domain)
        while self._is_active(instance_uuid):
            now = time.monotonic()
            if now >= until:
                LOG.info("Instance %s has not shut down within %g s", instance_uuid, timeout)
                return False
            if now >= next_signal:
                self._signal_shutdown(instance_uuid)
                next_signal = now + SHUTDOWN_RETRY_INTERVAL
            if cancelled.wait(min(SHUTDOWN_POLL, until - now)):
                return True
        return True

    def _is_active(self, instance_uuid: str) -> bool:
        with self._host.asked("Reading the state", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            return domain is not None and self._our_mark(domain) is not None and bool(domain.isActive())

    def _signal_shutdown(self, instance_uuid: str) -> None:
        with self._host.asked("Shutting down", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            try:
                if domain is not None:
                    domain.shutdown()
            except libvirt.libvirtError as error:  # it may be paused, or have ended by itself
                LOG.info("Instance %s cannot be asked to shut down: %s", instance_uuid, error)

    def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        with self._host.asked("Diagnostics", domain_name(instance_uuid)) as connection:
            return diagnostics.diagnostics(self._own(connection, instance_uuid), self._conf.libvirt.virt_type)

    def lost_base(self, instance_uuid: str) -> Path | None:
        return self._disks.lost_base(instance_uuid) if self._real else None

    def bases_in_use(self) -> frozenset[str]:
        return self._disks.bases_in_use()

    def power_state(self, instance_uuid: str) -> PowerState | None:
        with self._host.asked("Reading the state", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            try:
                return None if domain is None else power.state_of(domain.state()[0])
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None
                raise

    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        if not self._real:
            return ()
        with self._host.asked("Filtering the interfaces") as connection:

            def is_own(instance_uuid: str) -> bool:
                domain = lookup(connection, instance_uuid)
                return domain is not None and self._our_mark(domain) is not None

            own = {uuid: found for uuid, found in vifs.items() if is_own(uuid)}
            self._repair_networks(connection, own)
            self._networks.serve(connection, own)
            refused = self._filters.refresh(connection, vifs, is_own)
            differing = self._hotplug.refresh(connection, own, is_own)
        _raise_refused("instances", refused)
        return differing

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        if not self._real:
            return
        with self._host.asked("Filtering the interfaces") as connection:
            refused = self._filters.refresh_members(connection, members)
        _raise_refused("ports", refused)

    def interfaces(self, instance_uuid: str) -> tuple[Vif, ...]:
        with self._host.asked("Reading the interfaces", domain_name(instance_uuid)) as connection:
            return interfaces_of_ports(self._own(connection, instance_uuid))

    def attach_interface(self, instance: Instance, vif: Vif) -> PowerState:
        with self._host.asked("Attaching an interface", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            if self._real:
                xml = interface_xml(instance, self._settings_now((vif,)), vif)
                self._hotplug.attach(domain, vif, xml, instance.hostname)
            return power.state_of(domain.state()[0])

    def detach_interface(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        with self._host.asked("Detaching an interface", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None or self._our_mark(domain) is None:
                return PowerState.SHUTDOWN
        if self._real:
            self._hotplug.detach(instance_uuid, vif, check)
        return self.power_state(instance_uuid) or PowerState.SHUTDOWN

    def _repair_networks(self, connection: Any, vifs: Mapping[str, Sequence[Vif]]) -> None:
        """Repair networks, at most once in REPAIR_INTERVAL: frequent changes of rules must not wait for it. A failed
        repair is tried again next time.
        """
        if time.monotonic() < self._next_repair:
            return
        self._next_repair = time.monotonic() + REPAIR_INTERVAL
        try:
            self._networks.repair(connection, vifs)
        except libvirt.libvirtError as error:
            if not connection.isAlive():
                raise
            LOG.error("What is lost of the networks of guests cannot be made again yet: %s", error)

    def console(self, instance_uuid: str, console_type: ConsoleType) -> ConsoleAddress:
        with self._host.asked("Reading the console", domain_name(instance_uuid)) as connection:
            domain = require(connection, instance_uuid)
            if not domain.isActive():
                raise errors.Conflict(f"Instance {instance_uuid} does not run.")
            port = port_of(domain.XMLDesc(0), console_type)
        if port is None:
            raise errors.ConsoleTypeUnavailable(f"Unavailable console type {console_type}.")
        if console_type is ConsoleType.SERIAL:
            return ConsoleAddress(host=str(self._conf.serial_console.proxyclient_address), port=port)
        return ConsoleAddress(host=str(self._conf.vnc.server_proxyclient_address), port=port)

    def _ports_of_domains(self) -> dict[str, int]:
        with self._host.asked("Reading the serial consoles") as connection:
            ports = {}
            for domain in connection.listAllDomains():
                try:
                    port = port_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), ConsoleType.SERIAL)
                except libvirt.libvirtError as error:
                    if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
                        raise
                else:
                    if port is not None:
                        ports[domain.UUIDString()] = port
            return ports

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        with self._host.asked("Reading the console", domain_name(instance_uuid)) as connection:
            require(connection, instance_uuid)
        return last_lines(self._disks.console_output(instance_uuid), tail_length)

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        def lifecycle(domain: Any, event: int, detail: int) -> None:
            state = power.state_after(event, detail)
            if state is not None and domain.name() == domain_name(domain.UUIDString()):
                changed(domain.UUIDString(), state)

        def reconnected() -> None:
            # Make up for events that were missed while there was no listener.
            try:
                for view in self.domains():
                    if view.ours:
                        changed(view.uuid, PowerState(view.power_state))
            except errors.MinovaError as error:
                LOG.warning("States of domains are not known yet: %s", error)

        self._host.watch(lifecycle, reconnected)

    def close(self) -> None:
        self._host.close()

    # -- parts -----------------------------------------------------------------------------------------------------

    def _ready(self) -> HostSettings:
        if self._settings is None:
            raise errors.HypervisorUnavailable("The libvirt driver was not initialised")
        return self._settings

    def _plug(self, connection: Any, instance: Instance) -> None:
        """Call this after the domain is defined, since domains show which networks are in use."""
        own = [vif for vif in instance.network_info if not vif.from_neutron]
        if self._real and own:
            self._networks.plug(connection, own, instance.uuid, instance.hostname)
            self._filters.define(connection, own)

    def _settings_now(self, vifs: Iterable[Vif]) -> HostSettings:
        """Returns the settings, with the bridges that do not exist now if one of the interfaces may need a bridge."""
        settings = self._ready()
        if not settings.bridges or all(vif.from_neutron or vif.network_type == LOCAL for vif in vifs):
            return settings
        return msgspec.structs.replace(
            settings, lost_bridges=frozenset(settings.bridges) - self._bridges.there().keys()
        )

    def _own(self, connection: Any, instance_uuid: str) -> Any:
        """Returns the domain. Raises NotFound if there is none, or if it is not ours."""
        domain = require(connection, instance_uuid)
        if self._our_mark(domain) is None:
            raise errors.NotFound(f"Domain {domain.name()} has the UUID of instance {instance_uuid}, but is not ours")
        return domain

    def _xml_of(self, instance: Instance, node: str, attempt: int, disks: Sequence[Disk]) -> str:
        return guest_xml(
            instance,
            self._settings_now(instance.network_info),
            node=node,
            attempt=attempt,
            disks=disks,
            console_log=str(self._disks.console_log(instance.uuid)) if self._real else None,
            serial_port=None if self._serial_ports is None else self._serial_ports.take(instance.uuid),
        )

    def _define_anew(self, instance: Instance, disks: Sequence[Disk], *, drop_memory: bool) -> int:
        """End the domain and define it with these disks; it is off then. Returns its attempt.

        `drop_memory`: remove its saved memory, at the word of its user. Otherwise raises SavedMemoryKept if there is any.
        """
        with self._host.asked("Defining anew", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            mark = None if domain is None else self._our_mark(self._own(connection, instance.uuid))
            node, attempt = (instance.node or "", instance.attempt) if mark is None else (mark.node, mark.attempt)
            # Make the XML before the domain is ended: a host that cannot define it leaves the guest as it is.
            xml = self._xml_of(instance, node, attempt, disks)
            if domain is not None:
                if not drop_memory:
                    saved_memory.require_none(domain)
                _end(domain)
                if domain.hasManagedSaveImage():
                    domain.managedSaveRemove()
            # The files may hold an open snapshot although the domain that knew of it is lost.
            self._snapshots.settle(instance.uuid, domain)
            connection.defineXML(xml)
            return attempt

    def _destroy(self, domain: Any, instance_uuid: str, row: RowHost) -> None:
        with suppress(libvirt.libvirtError):  # it may end by itself at any time; the state is checked below
            domain.destroy()
        if exists(domain) and domain.isActive():
            domain.destroy()
        self._remove_disks(instance_uuid, row)
        if not exists(domain):
            return
        xml, connection = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), domain.connect()
        self._networks.unplug(connection, instance_uuid, interfaces_of(xml), partial(_undefine, domain))
        self._filters.remove(connection, filters_of(xml))

    def _views(self, connection: Any) -> tuple[DomainView, ...]:
        views = []
        for domain in connection.listAllDomains():
            try:
                views.append(self._view(domain))
            except libvirt.libvirtError as error:
                if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
                    raise meaning(error)(f"Reading of domain {domain.name()}: {error}") from error
        return tuple(views)

    def _view(self, domain: Any) -> DomainView:
        state, memory_kib, _, vcpus, _ = domain.info()
        mark = self._our_mark(domain)
        return DomainView(
            uuid=domain.UUIDString(),
            name=domain.name(),
            memory_mb=memory_kib // KIB_IN_MB,
            vcpus=vcpus,
            power_state=power.state_of(state),
            ours=mark is not None,
            attempt=mark.attempt if mark else None,
        )

    def _our_mark(self, domain: Any) -> Mark | None:
        """Returns the mark; None for a domain that is not ours, such as one of another compute at the same libvirt."""
        try:
            mark = mark_of(domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE))
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                return None
            raise
        names = {self._ready().host, *self._former_hosts}
        return mark if mark is not None and mark.host in names else None

    def _remove_disks(self, instance_uuid: str, row: RowHost) -> None:
        if self._real:
            self._disks.remove(instance_uuid, self._ready().host, row)


def _raise_refused(what: str, refused: Mapping[str, libvirt.libvirtError]) -> None:
    """Raises HypervisorError with the uuids and errors, if anything was refused."""
    if refused:
        reasons = "; ".join(f"{uuid}: {error}" for uuid, error in refused.items())
        raise errors.HypervisorError(f"Filtering the interfaces of {what} {reasons[:1000]}")


def _undefine(domain: Any) -> None:
    try:
        domain.undefineFlags(_UNDEFINE)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_INVALID_ARG}:
            raise
        if domain.hasManagedSaveImage():
            domain.managedSaveRemove()
        domain.undefine()


def _runs(domain: Any) -> bool:
    """Whether the guest runs. The CPUs of one that was paused, or sleeps, go on."""
    state = domain.state()[0]
    if state == libvirt.VIR_DOMAIN_PAUSED:
        domain.resume()
    elif state == libvirt.VIR_DOMAIN_PMSUSPENDED:
        domain.pMWakeup(0)
    return power.state_of(state) in {PowerState.RUNNING, PowerState.PAUSED, PowerState.SUSPENDED}


def _end(domain: Any) -> None:
    """Destroy the domain if it runs. It may end by itself meanwhile."""
    if not domain.isActive():
        return
    try:
        domain.destroy()
    except libvirt.libvirtError:
        if domain.isActive():
            raise
