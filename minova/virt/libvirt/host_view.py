"""What libvirt tells of its host: CPUs, memory, cells, devices and traits, as the configuration lets guests have them."""

import logging
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec
from oslo_config import cfg

from minova.hardware import pci_spec, reserved_pages
from minova.hardware.cpu_sets import CpuSets
from minova.objects.compute_node import DomainView
from minova.objects.numa import NUMATopology
from minova.objects.pci import PciDevice
from minova.virt.libvirt import capabilities, node_devices
from minova.virt.libvirt.capabilities import Capabilities
from minova.virt.libvirt.memory import used_mb
from minova.virt.libvirt.settings import cpu_sets_of
from minova.virt.libvirt.traits import traits_of

LOG = logging.getLogger(__name__)


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """memory in MB."""

    capabilities: Capabilities
    hypervisor_type: str
    hypervisor_version: int
    memory_mb: int
    memory_mb_used: int
    sets: CpuSets
    numa_topology: NUMATopology | None
    pci_devices: tuple[PciDevice, ...]
    vgpus: int
    traits: tuple[str, ...]


class HostReader:
    """Options are read and checked once, when it is made. InvalidConfiguration names the one that is wrong."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._specs = pci_spec.parse_specs(conf.pci.device_spec)
        self._pages = reserved_pages.parse(conf.reserved_huge_pages or ())
        self._mdev_types = tuple(conf.devices.enabled_mdev_types)
        self._odd: frozenset[str] = frozenset()

    def check(self, connection: Any) -> None:
        """InvalidConfiguration: an option does not fit this host. What matches nothing is told in the log alone: a
        device may come back.
        """
        found = capabilities.parse(connection.getCapabilities())
        cpu_sets_of(self._conf, cpus_of(connection, found))
        self._cells(found)
        devices = self._devices(connection).devices
        for text in pci_spec.unmatched(self._specs, devices):
            LOG.warning("%s: %s matches no device of this host", pci_spec.OPTION, text)

    def read(self, connection: Any, domains: tuple[DomainView, ...]) -> HostFacts:
        found = capabilities.parse(connection.getCapabilities())
        sets = cpu_sets_of(self._conf, cpus_of(connection, found))
        cells = self._cells(found)
        devices = self._devices(connection)
        return HostFacts(
            capabilities=found,
            hypervisor_type=str(connection.getType()),
            hypervisor_version=int(connection.getVersion()),
            memory_mb=int(connection.getInfo()[1]),
            memory_mb_used=used_mb(connection, domains),
            sets=sets,
            numa_topology=cells if cells is None else capabilities.with_cpus(cells, sets.shared, sets.dedicated),
            pci_devices=tuple(pci_spec.assignable(self._specs, devices.devices)),
            vgpus=sum(devices.mdev_types.get(kind, 0) for kind in self._mdev_types),
            traits=traits_of(found.arch, _features(connection), cells),
        )

    def _cells(self, found: Capabilities) -> NUMATopology | None:
        cells = found.numa_topology
        return cells if cells is None else reserved_pages.with_reserved(cells, self._pages)

    def _devices(self, connection: Any) -> node_devices.Found:
        """Nothing is asked where no option wants any."""
        if not self._specs and not self._mdev_types:
            return node_devices.Found([], {}, [])
        found = node_devices.parse(device.XMLDesc(0) for device in connection.listAllDevices(0))
        if frozenset(found.odd) - self._odd:
            LOG.warning("libvirt says too little of these devices, they are left out: %s", ", ".join(found.odd))
        self._odd = frozenset(found.odd)
        return found


def cpus_of(connection: Any, found: Capabilities) -> frozenset[int]:
    return found.cpus or frozenset(range(connection.getInfo()[2]))


def _features(connection: Any) -> frozenset[str]:
    """All features of the host's CPU, those of its model too; none where libvirt cannot tell (as in test:///default)."""
    cpu = ET.fromstring(connection.getCapabilities()).find("host/cpu")
    if cpu is None or cpu.find("model") is None:
        return frozenset()
    try:
        whole = connection.baselineCPU(
            [ET.tostring(cpu, encoding="unicode")], libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
        )
    except libvirt.libvirtError as error:
        LOG.debug("libvirt cannot expand the features of the host's CPU: %s", error)
        whole = ET.tostring(cpu, encoding="unicode")
    return frozenset(feature.get("name", "") for feature in ET.fromstring(whole).iter("feature"))
