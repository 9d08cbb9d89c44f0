"""What a host gives every guest: its configuration and its hypervisor. Pure."""

import msgspec

from minova.virt.libvirt.consoles import SerialConsoles
from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption
from minova.virt.libvirt.xml.numa_xml import HostCells


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the configuration and the host for every guest.

    - `pinned`: the CPUs on which guests may run.
    - `machines`: the machine types that the host offers, by architecture.
    - `bridges`: the bridges of flat networks and VLANs (see `Vif.segment`).
    - `lost_bridges`: those of `bridges` that do not exist now.
    - `max_queues`: the largest number of queues of an interface.
    - `pcie_ports`: the number of ports of a guest whose machine has them; 0: as many as it may need.
    - `rng_device`: the device from which guests' random number generators read.
    - `uefi`, `secure_boot`: whether there is such firmware for guests of `arch`.
    - `cpu_models`: of mode custom, the preferred first; `cpu_model_features`: {model: all its features}; `cpu_flags`: features that
      guests get (+) or do not (-).
    - `native_io`: whether QEMU reads and writes disks by the kernel's own asynchronous I/O; `discard`: what it does with discards.
    - `cdrom_bus`: of CD drives, if the image names none; None: one that every guest of the machine supports.
    - `rx_queue_size`, `tx_queue_size`: packets in a queue of a virtio interface; 0: QEMU's own.
    - `serial_number`: of every guest; None: each guest's UUID; empty: none.
    - `pointer_model`: of guests with a screen; usbtablet or ps2mouse.
    - `stateless_loader`: the file of UEFI firmware for guests without variables; None: this host has none.
    - `encryption`: how the host encrypts the memory of guests, if it does.
    - `tpms`: the versions and models of TPMs that the host emulates.
    """

    host: str
    arch: str
    virt_type: str
    cpu_mode: str | None = None
    cpu_models: tuple[str, ...] = ()
    cpu_model_features: dict[str, frozenset[str]] = {}
    cpu_flags: tuple[str, ...] = ()
    machine_types: dict[str, str] = {}
    machines: dict[str, frozenset[str]] = {}
    disk_cache: str = "none"
    native_io: bool = False
    discard: str | None = None
    cdrom_bus: str | None = None
    pinned: frozenset[int] | None = None
    cells: HostCells = HostCells()
    vnc_listen: str | None = None
    serial: SerialConsoles | None = None
    bridges: dict[str, str] = {}
    lost_bridges: frozenset[str] = frozenset()
    max_queues: int = 256
    rx_queue_size: int = 0
    tx_queue_size: int = 0
    pcie_ports: int = 0
    rng_device: str = "/dev/urandom"
    serial_number: str | None = None
    pointer_model: str = "usbtablet"
    uefi: bool = False
    secure_boot: bool = False
    stateless_loader: str | None = None
    encryption: MemoryEncryption | None = None
    tpms: frozenset[str] = frozenset()
