"""The options of the libvirt driver, checked against the host before anything is built on them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from oslo_config import cfg

from minova.conf.libvirt import uri_of
from minova.errors import InvalidConfiguration
from minova.hardware.cpu_sets import CpuSets, cpu_sets
from minova.objects.catalogue.vif_queues import most_queues_of_kernel
from minova.objects.hosts.numa import CPUs, NUMATopology
from minova.virt.libvirt.consoles import SerialConsoles
from minova.virt.libvirt.inventory.capabilities import Capabilities
from minova.virt.libvirt.inventory.domain_capabilities import GuestOffer
from minova.virt.libvirt.xml.host_settings import HostSettings
from minova.virt.libvirt.xml.numa_xml import HostCells

CACHE_MODES = ("none", "writethrough", "writeback", "directsync", "unsafe", "default")
_NO_OFFER = GuestOffer()
_MACHINE_ID = Path("/etc/machine-id")
_CPU_FLAG = re.compile(r"[+-]?[a-z0-9][a-z0-9._-]*", re.ASCII)


def cpu_sets_of(conf: cfg.ConfigOpts, of_host: CPUs) -> CpuSets:
    """Returns the configured CPU sets. Raises InvalidConfiguration as `minova.hardware.cpu_sets`."""
    return cpu_sets(conf.vcpu_pin_set, conf.compute.cpu_shared_set, conf.compute.cpu_dedicated_set, of_host)


def cells_of(topology: NUMATopology | None, sets: CpuSets) -> HostCells:
    """Returns the host's cells as domains need them."""
    if topology is None:
        return HostCells()
    sizes = [pages.size_kb for cell in topology.cells for pages in cell.mempages]
    return HostCells(
        cpus={cell.id: cell.cpuset & sets.shared for cell in topology.cells},
        small_page_kb=min(sizes, default=4),
        shared=sets.emulator,
        cores=tuple(core for cell in topology.cells for core in cell.siblings if len(core) > 1),
    )


def machine_types_of(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Returns the configured machine types, by architecture."""
    return _pairs("hw_machine_type", conf.libvirt.hw_machine_type)


def settings_from(
    conf: cfg.ConfigOpts,
    host: str,
    capabilities: Capabilities,
    cpus: frozenset[int],
    *,
    direct_io: bool,
    offer: GuestOffer = _NO_OFFER,
    model_features: Mapping[str, frozenset[str]] | None = None,
    machine_id: Path = _MACHINE_ID,
) -> HostSettings:
    """Returns the settings for every guest of this host. Raises InvalidConfiguration with the name of the option that
    cannot work here.
    """
    virt_type = conf.libvirt.virt_type
    if not capabilities.supports(virt_type):
        hypervisors = sorted({hypervisor for _, hypervisor, _ in capabilities.supported_instances})
        raise InvalidConfiguration(
            f"[libvirt] virt_type = {virt_type}: the hypervisor at {uri_of(conf)} has {', '.join(hypervisors) or 'none'}"
        )
    if conf.libvirt.cpu_mode == "custom" and not conf.libvirt.cpu_models:
        raise InvalidConfiguration("[libvirt] cpu_mode = custom: cpu_models must name one")
    sets = cpu_sets_of(conf, cpus)
    return HostSettings(
        host=host,
        arch=capabilities.arch,
        virt_type=virt_type,
        cpu_mode=conf.libvirt.cpu_mode,
        cpu_models=tuple(conf.libvirt.cpu_models),
        cpu_model_features=dict(model_features or {}),
        cpu_flags=_cpu_flags(conf),
        machine_types=machine_types_of(conf),
        machines=capabilities.machines_of(virt_type),
        disk_cache=_cache_mode(conf, direct_io),
        # As in Nova: only where a write needs no new space, which the kernel's asynchronous I/O would wait for.
        native_io=conf.preallocate_images == "space",
        discard=conf.libvirt.hw_disk_discard,
        cdrom_bus=conf.libvirt.cdrom_bus,
        pinned=sets.shared if sets.limited else None,
        cells=cells_of(capabilities.numa_topology, sets),
        vnc_listen=str(conf.vnc.server_listen) if conf.vnc.enabled else None,
        serial=_serial(conf) if conf.serial_console.enabled else None,
        bridges=dict(conf.networks.bridge_mappings),
        max_queues=conf.libvirt.max_queues or most_queues_of_kernel(os.uname().release),
        rx_queue_size=conf.libvirt.rx_queue_size or 0,
        tx_queue_size=conf.libvirt.tx_queue_size or 0,
        pcie_ports=conf.libvirt.num_pcie_ports,
        serial_number=_serial_number(conf, capabilities, machine_id),
        pointer_model=conf.pointer_model,
        rng_device=conf.libvirt.rng_dev_path,
        uefi=offer.uefi,
        secure_boot=offer.secure_boot,
        stateless_loader=offer.loader if offer.uefi else None,
        encryption=offer.encryption if virt_type == "kvm" else None,
        tpms=offer.tpms,
    )


def _cpu_flags(conf: cfg.ConfigOpts) -> tuple[str, ...]:
    flags = tuple(flag.strip().lower() for flag in conf.libvirt.cpu_model_extra_flags)
    wrong = [flag for flag in flags if not _CPU_FLAG.fullmatch(flag)]
    if wrong:
        raise InvalidConfiguration(
            f"[libvirt] cpu_model_extra_flags = {wrong[0]}: it must be the name of a CPU feature"
        )
    if flags and conf.libvirt.cpu_mode == "none":
        raise InvalidConfiguration("[libvirt] cpu_model_extra_flags: cpu_mode = none has no features")
    return flags


def _serial_number(conf: cfg.ConfigOpts, capabilities: Capabilities, machine_id: Path) -> str | None:
    """Returns None for the server's UUID."""
    source = conf.libvirt.sysinfo_serial
    if source == "unique":
        return None
    if source == "none":
        return ""
    of_system = machine_id.read_text().strip() if source != "hardware" and machine_id.exists() else ""
    number = capabilities.uuid if source == "hardware" or (source == "auto" and not of_system) else of_system
    if not number:
        where = f"{machine_id} is missing or empty" if source == "os" else "libvirt does not name the host's UUID"
        raise InvalidConfiguration(f"[libvirt] sysinfo_serial = {source}: {where}")
    return number


def export_ports_of(conf: cfg.ConfigOpts) -> tuple[int, int]:
    """Returns the first and the last port for disks of guests that move."""
    return _ports("libvirt", "disk_export_ports", conf.libvirt.disk_export_ports)


def _serial(conf: cfg.ConfigOpts) -> SerialConsoles:
    ports = _ports("serial_console", "port_range", conf.serial_console.port_range)
    return SerialConsoles(listen=str(conf.serial_console.server_listen), ports=ports)


def _ports(group: str, option: str, value: str) -> tuple[int, int]:
    first, _, last = (part.strip() for part in value.partition(":"))
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 2**16):
        raise InvalidConfiguration(f"[{group}] {option} = {value}: it must be FIRST:LAST, up to 65535")
    return int(first), int(last)


def _cache_mode(conf: cfg.ConfigOpts, direct_io: bool) -> str:
    mode = _pairs("disk_cachemodes", conf.libvirt.disk_cachemodes).get("file", "default")
    if mode not in CACHE_MODES:
        raise InvalidConfiguration(f"[libvirt] disk_cachemodes = file={mode}: not one of {', '.join(CACHE_MODES)}")
    if mode != "default":
        return mode
    # As in Nova: QEMU refuses the mode `none` if the file system has no O_DIRECT.
    return "none" if direct_io else "writeback"


def _pairs(option: str, items: list[str]) -> dict[str, str]:
    pairs = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not (key.strip() and separator and value.strip()):
            raise InvalidConfiguration(f"[libvirt] {option} = {item}: it must be NAME=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs
