"""The host and its nodes."""

import logging
import threading
from pathlib import Path
from typing import ClassVar

import libvirt
from oslo_config import cfg
from oslo_utils import units

from minova import errors
from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.guests.console import ConsoleType
from minova.objects.hosts.compute_node import AvailableResources, clamped
from minova.objects.hosts.cpu_times import CpuTimes
from minova.virt.libvirt.consoles import SerialPorts, port_of
from minova.virt.libvirt.driver.base import LibvirtBase
from minova.virt.libvirt.host_view import HostReader, cpus_of
from minova.virt.libvirt.migration import libvirt_files
from minova.virt.libvirt.settings import settings_from
from minova.virt.libvirt.storage import disk_owner
from minova.virt.namespaces.host_routes import PROC_NET
from minova.virt.uptime import uptime

LOG = logging.getLogger(__name__)


class LibvirtHost(LibvirtBase):
    reports_resources: ClassVar[bool] = True

    def __init__(self, conf: cfg.ConfigOpts, *, proc_net: Path = PROC_NET) -> None:
        super().__init__(conf, proc_net=proc_net)
        self._reader = HostReader(conf)
        self._node: str | None = None
        self._lock = threading.Lock()

    def init_host(self, host: str) -> None:
        self._disks.check()
        self._drives.check()
        with self._host.connection("Reading the capabilities") as connection:
            self._reader.check(connection)
            offered = self._reader.capabilities(connection)
            cpus = cpus_of(connection, offered)
            offer = self._reader.offer(connection, offered.arch)
            models = self._reader.model_features(connection, offered.arch)
        direct_io = self._disks.direct_io()
        self._settings = settings_from(
            self._conf, host, offered, cpus, direct_io=direct_io, offer=offer, model_features=models
        )
        if self._settings.serial is not None:
            self._serial_ports = SerialPorts(self._settings.serial, self._ports_of_domains)
        if self._real:
            self._disks.grant_access(offered.qemu_user, Path(self._conf.state_path))
            disk_owner.register_host(self._disks.path, host)
            libvirt_files.remove_copies_for_moves(self._disks.path, host)

    def recognise(self, former_hosts: tuple[str, ...]) -> None:
        self._former_hosts = frozenset(former_hosts)
        self._disks.recognise(self._former_hosts)

    def available_nodes(self) -> tuple[str, ...]:
        # Not cached: the call also checks that the hypervisor answers.
        with self._host.connection("Reading the host name") as connection:
            name = str(connection.getHostname())
        with self._lock:
            if self._node is None:
                self._node = name
            elif self._node != name:
                LOG.error(
                    "The hypervisor's host name is now %s, not %s: a restart is needed to take it", name, self._node
                )
            return (self._node,)

    def host_view(self, node: str) -> AvailableResources:
        """Raises NotFound if there is no such node."""
        if node not in self.available_nodes():
            raise errors.NotFound(f"Node {node} is not one of {', '.join(self.available_nodes())}")
        with self._host.connection("Reading the host's resources") as connection:
            domains = self._views(connection)
            facts = self._reader.read(connection, domains)
        vcpus, pcpus = facts.sets.counted
        space = self._disks.usage()
        return AvailableResources(
            node=node,
            vcpus=vcpus,
            pcpus=pcpus,
            gpus=facts.gpus,
            memory_encryption_contexts=facts.memory_encryption_contexts,
            traits=facts.traits,
            bridges=self._bridges.present(),
            memory_mb=facts.memory_mb,
            memory_mb_used=facts.memory_mb_used,
            local_gb=space.total // units.Gi,
            local_gb_used=space.used // units.Gi,
            disk_available_least=clamped((space.free - self._disks.growth()) // units.Gi),
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
        return self._bridges.present()

    def cpu_times(self, node: str) -> CpuTimes | None:
        with self._host.connection("Reading the CPU times") as connection:
            try:
                nanoseconds = connection.getCPUStats(libvirt.VIR_NODE_CPU_STATS_ALL_CPUS)
            except libvirt.libvirtError as error:
                if error.get_error_code() in {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_INVALID_ARG}:
                    return None
                raise
            times = {name: int(nanoseconds.get(name, 0)) for name in ("user", "kernel", "idle", "iowait")}
            return CpuTimes(frequency=int(connection.getInfo()[3]), **times)

    def uptime(self) -> str:
        return uptime()

    def overhead(self, flavor: Flavor) -> Overhead:
        """As Nova estimates it: separate emulator threads take one more CPU."""
        return Overhead(vcpus=int(flavor.extra_specs.get("hw:emulator_threads_policy") == "isolate"))

    def _ports_of_domains(self) -> dict[str, int]:
        with self._host.connection("Reading the serial consoles") as connection:
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

    def close(self) -> None:
        self._host.close()
