"""The size of a machine that a user requests."""

from typing import NamedTuple

import msgspec
from oslo_utils import units

SWAP = "swap"
DEFAULT_FORMAT = "ext4"


class Flavor(msgspec.Struct, frozen=True, kw_only=True):
    """`swap` is in MB, the other disks in GB, as in Nova."""

    flavorid: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int = 0
    swap: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    disabled: bool = False
    description: str | None = None
    extra_specs: dict[str, str] = {}

    @property
    def disk_gb(self) -> int:
        """Returns root and ephemeral disk, and swap rounded up to whole GB: Placement's DISK_GB."""
        return self.root_gb + self.ephemeral_gb + -(-self.swap // 1024)


class Overhead(NamedTuple):
    """The resources that a hypervisor itself uses for one instance, in addition to its flavor."""

    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0


class LocalDisk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk beside the root disk. `guest_format`: swap, or the file system. `bus` None: that of the other disks. `tag`: the guest finds the disk by
    it.
    """

    size_mb: int
    guest_format: str = DEFAULT_FORMAT
    bus: str | None = None
    tag: str | None = None

    @property
    def is_swap(self) -> bool:
        return self.guest_format == SWAP


def flavor_disks(flavor: Flavor) -> tuple[LocalDisk, ...]:
    ephemeral = (LocalDisk(size_mb=flavor.ephemeral_gb * units.Ki),) if flavor.ephemeral_gb else ()
    return (*ephemeral, *((LocalDisk(size_mb=flavor.swap, guest_format=SWAP),) if flavor.swap else ()))
