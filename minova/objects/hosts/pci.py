"""PCI devices in pools of equal ones, as the scheduler counts them, and an instance's requests for devices."""

from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import MAX_CPU, MAX_NAMES, Count, Id, Line

# Names and values, sorted by name: hashable, unlike a dict.
Pairs = tuple[tuple[str, str], ...]
Tags = Annotated[tuple[tuple[Line, Line], ...], Meta(max_length=MAX_NAMES)]
# -1: libvirt knows none.
NumaNode = Annotated[int, Meta(ge=-1, le=MAX_CPU)]


class PciDevicePool(msgspec.Struct, frozen=True, kw_only=True):
    """`count` equal free devices. `dev_type` is Nova's: type-PCI, type-PF, type-VF, vdpa."""

    vendor_id: Line
    product_id: Line
    count: Count
    dev_type: Line = "type-PCI"
    numa_node: NumaNode | None = None
    tags: Tags = ()


class InstancePCIRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Requests `count` devices. The pool of each must be equal to one of the `spec`s in the properties and tags that
    the spec names.

    `numa_policy`: required, preferred, legacy (the default) or socket.
    """

    count: int
    spec: tuple[Pairs, ...] = ()
    numa_policy: str | None = None
    alias_name: str | None = None
    request_id: str | None = None


class PciDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One device of a host, as stored in `pci_devices`. `address` is domain:bus:slot.function.

    `status` is Nova's: available; claimed (by a build or a move); allocated (an instance uses it); unclaimable,
    unavailable (its PF, or one of its VFs, is claimed, or allocated); removed (gone from the host while in use).
    """

    address: Line
    vendor_id: Line
    product_id: Line
    dev_type: Line = "type-PCI"
    numa_node: NumaNode | None = None
    parent_addr: Line | None = None
    label: Line = ""
    tags: Tags = ()
    status: Line = "available"
    instance_uuid: Id | None = None
    request_id: Line | None = None
