"""Reads libvirt's view of its host: CPUs, memory, cells, devices and traits, as far as the configuration gives them to
guests.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec
from oslo_config import cfg
from oslo_utils import units

from minova.errors import HypervisorError, InvalidConfiguration
from minova.hardware import pci_devices, pci_spec, reserved_pages
from minova.hardware.cpu_sets import CpuSets
from minova.hardware.demands import require_aliases
from minova.hardware.pci_alias import unmet
from minova.objects.hosts.compute_node import DomainView
from minova.objects.hosts.numa import NUMATopology
from minova.objects.hosts.pci import PciDevice
from minova.objects.servers.states import PowerState
from minova.virt.libvirt.inventory import capabilities, domain_capabilities, node_devices
from minova.virt.libvirt.inventory.capabilities import Capabilities
from minova.virt.libvirt.inventory.domain_capabilities import GuestOffer
from minova.virt.libvirt.inventory.traits import offer_traits, traits_of
from minova.virt.libvirt.settings import cpu_sets_of, machine_types_of

LOG = logging.getLogger(__name__)

MEMINFO = Path("/proc/meminfo")
# Kinds of memory that a host can free at once.
_FREE = ("MemFree", "Buffers", "Cached")


# Nova's number for a host that does not know how many guests may have encrypted memory.
UNLIMITED_CONTEXTS = 2**31 - 1


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the host. Memory is in MB. `gpus`: {libvirt's name of the card: number of virtual GPUs that it
    offers}.
    """

    capabilities: Capabilities
    hypervisor_type: str
    hypervisor_version: int
    memory_mb: int
    memory_mb_used: int
    sets: CpuSets
    numa_topology: NUMATopology | None
    pci_devices: tuple[PciDevice, ...]
    gpus: dict[str, int]
    memory_encryption_contexts: int
    traits: tuple[str, ...]


class HostReader:
    """Reads facts of the host. The constructor reads and checks the options; it raises InvalidConfiguration with the
    name of the wrong one.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._specs = pci_spec.parse_specs(conf.pci.device_spec)
        self._aliases = require_aliases(conf.pci.alias)
        self._pages = reserved_pages.parse(conf.reserved_huge_pages or ())
        # As in Nova without groups [mdev_TYPE]: a card's types exclude each other, so that one of them serves all cards.
        self._mdev_types = tuple(conf.devices.enabled_mdev_types[:1])
        self._logged: frozenset[str] = frozenset()
        self._offer: GuestOffer | None = None

    def check(self, connection: Any) -> None:
        """Raises InvalidConfiguration if an option does not fit this host. An alias or a type of mediated device may be
        meant for other hosts, so if this host lacks it, that is only logged.
        """
        offered = self.capabilities(connection)
        cpu_sets_of(self._conf, cpus_of(connection, offered))
        self._cells(offered)
        devices = self._devices(connection)
        for text in pci_spec.unmatched(self._specs, devices.devices):
            raise InvalidConfiguration(f"{pci_spec.OPTION}: {text} matches no PCI device of this host")
        pools = pci_devices.pools_of(pci_spec.assignable(self._specs, devices.devices))
        for name in unmet(self._aliases, pools):
            LOG.warning("[pci] alias %s: this host has no such device for instances", name)
        for kind in self._conf.devices.enabled_mdev_types[1:]:
            LOG.warning("[devices] enabled_mdev_types: only %s is offered, %s is not", self._mdev_types[0], kind)
        for kind in self._mdev_types:
            if not any(kind in types for types in devices.mdev_types.values()):
                LOG.warning("[devices] enabled_mdev_types: this host has no mediated devices of type %s", kind)

    def capabilities(self, connection: Any) -> Capabilities:
        """Raises HypervisorError if libvirt's answer does not describe a host. Logs each oddity once."""
        try:
            offered = capabilities.parse(connection.getCapabilities())
        except ValueError as error:
            raise HypervisorError(f"The host of {connection.getURI()} is not known: {error}") from error
        self._log_once(offered.odd)
        return offered

    def offer(self, connection: Any, arch: str) -> GuestOffer:
        """Returns what guests of this architecture may have. Queried once: software installed later counts from the
        next start.
        """
        if self._offer is None:
            machine = machine_types_of(self._conf).get(arch)
            offer = domain_capabilities.read(connection, arch, self._conf.libvirt.virt_type, machine)
            served = offer.tpms if self._conf.libvirt.swtpm_enabled else frozenset()
            self._offer = msgspec.structs.replace(offer, tpms=served)
        return self._offer

    def model_features(self, connection: Any, arch: str) -> dict[str, frozenset[str]]:
        """Returns the features of each of [libvirt] cpu_models. Raises InvalidConfiguration if libvirt knows one not."""
        models = self._conf.libvirt.cpu_models if self._conf.libvirt.cpu_mode == "custom" else []
        return {model: _features_of_model(connection, arch, model) for model in models}

    def read(self, connection: Any, domains: tuple[DomainView, ...]) -> HostFacts:
        offered = self.capabilities(connection)
        features = _features(connection, offered.cpu)
        sets = cpu_sets_of(self._conf, cpus_of(connection, offered))
        cells = self._cells(offered)
        devices = self._devices(connection)
        version = int(connection.getVersion())
        offer = self.offer(connection, offered.arch)
        return HostFacts(
            capabilities=capabilities.with_machines(
                capabilities.with_features(offered, features), self._conf.libvirt.virt_type
            ),
            hypervisor_type=str(connection.getType()),
            hypervisor_version=version,
            memory_mb=int(connection.getInfo()[1]),
            memory_mb_used=used_mb(connection, domains),
            sets=sets,
            numa_topology=cells if cells is None else capabilities.with_cpus(cells, sets.shared, sets.dedicated),
            pci_devices=tuple(pci_spec.assignable(self._specs, devices.devices)),
            gpus=_offered(devices.mdev_types, self._mdev_types),
            memory_encryption_contexts=self._encryption_contexts(offer),
            traits=tuple(
                sorted(
                    (
                        *traits_of(offered.arch, features, cells),
                        *offer_traits(
                            offered.arch,
                            offer,
                            version,
                            libvirt_version=int(connection.getLibVersion()),
                            kvm=self._conf.libvirt.virt_type == "kvm",
                        ),
                    )
                )
            ),
        )

    def _encryption_contexts(self, offer: GuestOffer) -> int:
        """As in Nova: the option's number, else the hardware's, else no limit."""
        if offer.encryption is None or self._conf.libvirt.virt_type != "kvm":
            return 0
        limits = (self._conf.libvirt.num_memory_encrypted_guests, offer.encryption.contexts)
        return next((number for number in limits if number is not None), UNLIMITED_CONTEXTS)

    def _cells(self, offered: Capabilities) -> NUMATopology | None:
        """Returns the cells with reserved pages, or None. A host without NUMA cells has no pages to reserve."""
        cells = reserved_pages.with_reserved(offered.numa_topology or NUMATopology(), self._pages)
        return cells if cells.cells else None

    def _devices(self, connection: Any) -> node_devices.HostDevices:
        """Returns the devices of the host. Queries nothing if no option needs devices."""
        if not self._specs and not self._mdev_types:
            return node_devices.HostDevices([], {}, [])
        devices = node_devices.parse(_texts(connection))
        self._log_once(devices.odd)
        return devices

    def _log_once(self, odd: Sequence[str]) -> None:
        """Log each oddity once, since an audit runs every minute."""
        new = [text for text in dict.fromkeys(odd) if text not in self._logged]
        if new:
            LOG.warning("libvirt says too little of its host, these are left out: %s", "; ".join(new))
        self._logged |= {*new}


def _offered(by_card: Mapping[str, Mapping[str, int]], kinds: Sequence[str]) -> dict[str, int]:
    """Returns how many mediated devices of these types each card offers; cards without any are left out."""
    offered = {card: sum(types.get(kind, 0) for kind in kinds) for card, types in by_card.items()}
    return {card: amount for card, amount in offered.items() if amount}


def cpus_of(connection: Any, offered: Capabilities) -> frozenset[int]:
    return offered.cpus or frozenset(range(connection.getInfo()[2]))


def _texts(connection: Any) -> Iterator[str]:
    for device in connection.listAllDevices(0):
        try:
            yield device.XMLDesc(0)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_NODE_DEVICE:  # gone since it was listed
                raise


def _features(connection: Any, cpu: str) -> frozenset[str]:
    """Returns all features of the host's CPU, including those of its model; empty if libvirt does not know them (as in
    test:///default).
    """
    if not cpu or ET.fromstring(cpu).find("model") is None:
        return frozenset()
    try:
        expanded_cpu = connection.baselineCPU([cpu], libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES)
    except libvirt.libvirtError as error:
        LOG.debug("libvirt cannot expand the features of the host's CPU: %s", error)
        expanded_cpu = cpu
    return frozenset(feature.get("name", "") for feature in ET.fromstring(expanded_cpu).iter("feature"))


def _features_of_model(connection: Any, arch: str, model: str) -> frozenset[str]:
    cpu = ET.Element("cpu")
    ET.SubElement(cpu, "arch").text = arch
    ET.SubElement(cpu, "model").text = model
    try:
        models = connection.getCPUModelNames(arch, 0)
    except libvirt.libvirtError as error:
        LOG.debug("libvirt does not list the models of CPUs: %s", error)
        return frozenset()
    if model not in models:
        raise InvalidConfiguration(f"[libvirt] cpu_models = {model}: libvirt knows no such model for {arch}")
    return _features(connection, ET.tostring(cpu, encoding="unicode"))


# -- memory in use --------------------------------------------------------------------------------------------------


def used_mb(connection: Any, domains: Iterable[DomainView], meminfo: Path = MEMINFO) -> int:
    """Returns the total memory less free, buffers and cached; if the hypervisor has no statistics, the sum of the
    running domains. With Xen the compute is in dom0, whose own figures come from `meminfo`.
    """
    if connection.getType() == "Xen":
        return xen_used_mb(
            (
                (domain.ID(), domain.info()[2])
                for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
            ),
            read_meminfo(meminfo.read_text()),
        )
    try:
        stats = connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
        return sum(domain.memory_mb for domain in domains if domain.power_state == PowerState.RUNNING)
    return host_used_mb(stats)


def host_used_mb(stats: dict[str, int]) -> int:
    """Returns the used memory in MB, from libvirt's node memory statistics in KiB. Pure."""
    return (stats["total"] - stats["free"] - stats.get("buffers", 0) - stats.get("cached", 0)) // units.Ki


def xen_used_mb(domains: Iterable[tuple[int, int]], dom0: Mapping[str, int]) -> int:
    """Returns the used memory in MB. `domains` are (id, memory) of running domains; of dom0, whose id is 0, only memory
    that it cannot free counts. Arguments are in KiB. Pure.
    """
    free = sum(dom0.get(name, 0) for name in _FREE)
    return sum(kib - free if number == 0 else kib for number, kib in domains) // units.Ki


def read_meminfo(text: str) -> dict[str, int]:
    """Returns the values of /proc/meminfo, in KiB. Pure."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name: int(words[0]) for name, _, rest in lines if (words := rest.split()) and words[0].isdecimal()}
