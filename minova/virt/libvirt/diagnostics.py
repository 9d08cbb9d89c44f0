"""Reads libvirt's counters of a running guest. Counters that a hypervisor does not provide are left out."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar
from xml.etree import ElementTree as ET

import libvirt

from minova.objects.guests.diagnostics import CpuUse, DiskUse, GuestDiagnostics, NicUse

T = TypeVar("T")
_DISK = ("read_requests", "read_bytes", "write_requests", "write_bytes", "errors")
_NIC = ("rx_octets", "rx_packets", "rx_errors", "rx_drop", "tx_octets", "tx_packets", "tx_errors", "tx_drop")
# The error codes for counters that libvirt does not provide; any other error is raised.
_NOT_COUNTED = frozenset(
    {
        libvirt.VIR_ERR_NO_SUPPORT,
        libvirt.VIR_ERR_OPERATION_UNSUPPORTED,
        libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
        libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
        # For a disk or an interface that has just been removed.
        libvirt.VIR_ERR_INVALID_ARG,
    }
)


def diagnostics(domain: libvirt.virDomain, hypervisor: str) -> GuestDiagnostics:
    """Returns the diagnostics. Errors of libvirt are raised as they are."""
    devices = ET.fromstring(domain.XMLDesc(0)).find("devices")
    _, memory_kb, used_kb, *_ = domain.info()
    return GuestDiagnostics(
        driver="libvirt",
        hypervisor=hypervisor,
        memory_kb=memory_kb,
        used_kb=used_kb,
        memory_stats=_counted(domain.memoryStats) or {},
        cpus=_cpus(domain),
        disks=_disks(domain, devices) if devices is not None else (),
        nics=_nics(domain, devices) if devices is not None else (),
    )


def _cpus(domain: libvirt.virDomain) -> tuple[CpuUse, ...]:
    counted = _counted(domain.vcpus)
    return tuple(CpuUse(id=number, time=time) for number, _, time, _ in counted[0]) if counted else ()


def _disks(domain: libvirt.virDomain, devices: ET.Element) -> tuple[DiskUse, ...]:
    disks = []
    for target in devices.findall("disk/target"):
        device = target.get("dev", "")
        counts = _counted(partial(domain.blockStats, device)) or ()
        disks.append(DiskUse(device=device, **dict(zip(_DISK, counts, strict=False))))
    return tuple(disks)


def _nics(domain: libvirt.virDomain, devices: ET.Element) -> tuple[NicUse, ...]:
    nics = []
    for interface in devices.findall("interface"):
        mac, target = interface.find("mac"), interface.find("target")
        device = "" if target is None else target.get("dev", "")
        counts = (_counted(partial(domain.interfaceStats, device)) or ()) if device else ()
        address = "" if mac is None else mac.get("address", "")
        nics.append(NicUse(device=device, mac_address=address, **dict(zip(_NIC, counts, strict=False))))
    return tuple(nics)


def _counted(ask: Callable[[], T]) -> T | None:
    """Returns the counters, or None if libvirt does not provide them."""
    try:
        return ask()
    except libvirt.libvirtError as error:
        if error.get_error_code() in _NOT_COUNTED:
            return None
        raise
