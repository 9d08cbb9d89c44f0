"""PCI devices in pools of equal ones, as the scheduler counts them, and an instance's requests for devices."""

import msgspec

# Names and values, sorted by name: hashable, unlike a dict.
Pairs = tuple[tuple[str, str], ...]


class PciDevicePool(msgspec.Struct, frozen=True, kw_only=True):
    """`count` equal free devices. `dev_type` is Nova's: type-PCI, type-PF, type-VF, vdpa."""

    vendor_id: str
    product_id: str
    count: int
    dev_type: str = "type-PCI"
    numa_node: int | None = None
    tags: Pairs = ()


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
