"""The driver for libvirt: QEMU and KVM, and libvirt's own test hypervisor.

The domain is defined before its disks are made and undefined after they are removed. So wherever a crash falls, a
domain tells of what is there, and the compute that finds it can finish or undo the work.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import libvirt
from oslo_config import cfg

from minova import errors
from minova.objects.compute_node import DomainView, HypervisorView, clamped
from minova.objects.cpu_times import CpuTimes
from minova.objects.flavor import Flavor, Overhead
from minova.objects.instance import Instance
from minova.objects.states import PowerState
from minova.virt.driver import NO_ROW, RowHost
from minova.virt.libvirt import disk_owner, power
from minova.virt.libvirt.disks import Base, Disks
from minova.virt.libvirt.guest_xml import (
    NAMESPACE,
    HostSettings,
    Mark,
    disk_formats_of,
    domain_name,
    guest_xml,
    mark_of,
)
from minova.virt.libvirt.host import Host
from minova.virt.libvirt.host_view import HostReader, cpus_of
from minova.virt.libvirt.lookup import exists, lookup, require
from minova.virt.libvirt.settings import settings_from, uri_of

LOG = logging.getLogger(__name__)
KIB_IN_MB = 1024
KB, GB = 1 << 10, 1 << 30
# Seconds between looks whether a guest has shut itself down, and between signals to it (Nova's shutdown_retry_interval).
SHUTDOWN_POLL, SHUTDOWN_RETRY_INTERVAL = 0.5, 10.0
_UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)


class LibvirtDriver:
    """Implements `virt.driver.Driver`. Safe for threads."""

    reports_resources: ClassVar[bool] = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._host = Host(uri_of(conf))
        self._disks = Disks(Path(conf.instances_path))
        self._real: bool = conf.libvirt.virt_type != "test"
        self._reader = HostReader(conf)
        self._settings: HostSettings | None = None
        self._node: str | None = None
        self._former_hosts: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    # -- the host --------------------------------------------------------------------------------------------------

    def init_host(self, host: str) -> None:
        self._disks.check()
        with self._host.asked("Reading the capabilities") as connection:
            self._reader.check(connection)
            offered = self._reader.capabilities(connection)
            cpus = cpus_of(connection, offered)
        self._settings = settings_from(self._conf, host, offered, cpus, direct_io=self._disks.direct_io())
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
        """NotFound: no such node."""
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
        """As Nova estimates it: emulator threads of their own take one more CPU."""
        return Overhead(vcpus=int(flavor.extra_specs.get("hw:emulator_threads_policy") == "isolate"))

    def needs_image(self) -> bool:
        return self._real

    # -- one instance ----------------------------------------------------------------------------------------------

    def prepare(self, instance: Instance, node: str, attempt: int, image_path: Path | None) -> None:
        name = domain_name(instance.uuid)
        disks = self._disks.plan(instance) if self._real else ()
        console = str(self._disks.console_log(instance.uuid)) if self._real else None
        xml = guest_xml(instance, self._ready(), node=node, attempt=attempt, disks=disks, console_log=console)
        base = Base.of(instance, image_path) if self._real else None
        with self._host.asked("Preparing", name) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None:
                mark = self._our_mark(domain)
                if mark is None:
                    raise errors.HypervisorUnavailable(
                        f"Domain {domain.name()} has the UUID of {name}, but is not ours"
                    )
                if domain.isActive() and mark.attempt == attempt:
                    return
                self._destroy(domain, instance.uuid, NO_ROW)
            connection.defineXML(xml)
        if base is not None:
            self._disks.make(instance, base, self._ready().host, attempt)

    def power_on(self, instance: Instance) -> PowerState:
        """NotFound: there is no domain. StaleAttempt: another host has made its disks since."""
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host)
        with self._host.asked("Starting", domain_name(instance.uuid)) as connection:
            domain = require(connection, instance.uuid)
            try:
                domain.create()
            except libvirt.libvirtError:
                if not domain.isActive():
                    raise
            return power.state_of(domain.state()[0])

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        with self._host.asked("Destroying", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None:
                self._remove_disks(instance_uuid, row)
            elif self._our_mark(domain) is None:
                LOG.warning("Domain %s has the UUID of instance %s, but is not ours", domain.name(), instance_uuid)
            else:
                self._destroy(domain, instance_uuid, row)

    def shares_disks(self) -> bool:
        return self._real and bool(disk_owner.other_hosts(self._disks.path, self._ready().host))

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        for instance_uuid in instance_uuids if self._real else ():
            self._disks.own(instance_uuid, self._ready().host, partial(self._disk_formats, instance_uuid))

    def _disk_formats(self, instance_uuid: str) -> dict[str, str]:
        """As an earlier release wrote them into the domain, and nowhere else."""
        with self._host.asked("Reading the disks", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None or self._our_mark(domain) is None:
                return {}
            return disk_formats_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), instance_uuid)

    def bound_console_logs(self) -> None:
        if self._real:
            self._disks.bound_console_logs(self._ready().host, self._conf.libvirt.console_log_max_kb * KB)

    def power_off(self, instance_uuid: str, timeout: float = 0.0, cancelled: threading.Event | None = None) -> None:
        if timeout > 0 and self._shut_down(instance_uuid, timeout, cancelled or threading.Event()):
            return
        with self._host.asked("Stopping", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None or self._our_mark(domain) is None or not domain.isActive():
                return
            try:
                domain.destroy()
            except libvirt.libvirtError:
                if domain.isActive():
                    raise

    def _shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        """Ask the guest by ACPI to shut itself down, again and again, as it may not listen yet. False: it still runs.

        True also once `cancelled` is set.
        """
        until = time.monotonic() + timeout
        next_signal = 0.0
        while self._is_active(instance_uuid):
            now = time.monotonic()
            if now >= until:
                LOG.info("Instance %s has not shut down within %g s: its domain is destroyed", instance_uuid, timeout)
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

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        with self._host.asked("Reading the console", domain_name(instance_uuid)) as connection:
            require(connection, instance_uuid)
        text = self._disks.console_output(instance_uuid)
        if tail_length is None:
            return text
        return "".join(text.splitlines(keepends=True)[-tail_length:]) if tail_length > 0 else ""

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        def lifecycle(domain: Any, event: int, detail: int) -> None:
            state = power.state_after(event, detail)
            if state is not None and domain.name() == domain_name(domain.UUIDString()):
                changed(domain.UUIDString(), state)

        def reconnected() -> None:
            # Events that were missed while there was no listener.
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

    def _destroy(self, domain: Any, instance_uuid: str, row: RowHost) -> None:
        with suppress(libvirt.libvirtError):  # it may end by itself at any time; what matters is asked below
            domain.destroy()
        if exists(domain) and domain.isActive():
            domain.destroy()
        self._remove_disks(instance_uuid, row)
        if not exists(domain):
            return
        try:
            domain.undefineFlags(_UNDEFINE)
        except libvirt.libvirtError as error:
            if error.get_error_code() not in {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_INVALID_ARG}:
                raise
            domain.undefine()

    def _views(self, connection: Any) -> tuple[DomainView, ...]:
        views = []
        for domain in connection.listAllDomains():
            try:
                views.append(self._view(domain))
            except libvirt.libvirtError as error:
                if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
                    raise errors.HypervisorUnavailable(f"Reading of domain {domain.name()}: {error}") from error
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
        """None for a domain that is not ours, such as one of another compute at the same libvirt."""
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
