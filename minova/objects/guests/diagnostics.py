"""The resources that a guest uses now, as measured by its hypervisor. Pure."""

from collections.abc import Mapping

import msgspec


class CpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """`time` in nanoseconds since the guest was started."""

    id: int
    time: int


class DiskUse(msgspec.Struct, frozen=True, kw_only=True):
    """`device`: the disk's name in the guest's definition, such as vda. None: not measured."""

    device: str
    read_requests: int | None = None
    read_bytes: int | None = None
    write_requests: int | None = None
    write_bytes: int | None = None
    errors: int | None = None


class NicUse(msgspec.Struct, frozen=True, kw_only=True):
    """`device`: the interface on the host, such as tap0123; empty: there is none, and nothing is measured."""

    device: str
    mac_address: str
    rx_octets: int | None = None
    rx_packets: int | None = None
    rx_errors: int | None = None
    rx_drop: int | None = None
    tx_octets: int | None = None
    tx_packets: int | None = None
    tx_errors: int | None = None
    tx_drop: int | None = None


class GuestDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    """`driver` and `hypervisor`: Nova's terms, such as libvirt and qemu. Memory in KiB. `memory_stats`: libvirt's, by
    libvirt's names.
    """

    driver: str
    hypervisor: str | None = None
    memory_kb: int = 0
    used_kb: int = 0
    memory_stats: Mapping[str, int] = {}
    cpus: tuple[CpuUse, ...] = ()
    disks: tuple[DiskUse, ...] = ()
    nics: tuple[NicUse, ...] = ()
