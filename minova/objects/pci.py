"""PCI devices in pools of like ones, as the scheduler counts them, and what an instance asks of them."""

import msgspec

# Names and values, sorted by name: hashable, unlike a dict.
Pairs = tuple[tuple[str, str], ...]


class PciDevicePool(msgspec.Struct, frozen=True, kw_only=True):
    """`count` free devices that are alike. `dev_type` is Nova's: type-PCI, type-PF, type-VF, vdpa."""

    vendor_id: str
    product_id: str
    count: int
    dev_type: str = "type-PCI"
    numa_node: int | None = None
    tags: Pairs = ()


class InstancePCIRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`count` devices, each of which meets one of the `spec`s: properties and tags of its pool that must be equal.

    `numa_policy`: required, preferred, legacy (the default) or socket.
    """

    count: int
    spec: tuple[Pairs, ...] = ()
    numa_policy: str | None = None
    alias_name: str | None = None
    request_id: str | None = None


class PciDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One device of a host, as `pci_devices` keeps it. `address` is domain:bus:slot.function.

    `status` is Nova's: available; claimed (a build or move has it); allocated (an instance uses it); unclaimable,
    unavailable (its PF, or a VF of it, is claimed, or allocated); removed (gone from the host while in use).
    """

    address: str
    vendor_id: str
    product_id: str
    dev_type: str = "type-PCI"
    numa_node: int | None = None
    parent_addr: str | None = None
    label: str = ""
    tags: Pairs = ()
    status: str = "available"
    instance_uuid: str | None = None
    request_id: str | None = None
