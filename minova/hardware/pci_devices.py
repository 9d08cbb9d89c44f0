"""The PCI devices of one host: the owner of each, and what is free. Pure: returns new values.

Only claims and allocations are stored. Whether a PF is unavailable because one of its VFs is taken, or a VF because its
PF is, is derived from them each time.

    available ──claim──▶ claimed ──allocate──▶ allocated ──free──▶ available
                                                  │ gone from the host ▲
                                                  └──▶ removed ──free──┘ (and then it is forgotten)
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from minova.hardware import pci_pools
from minova.hardware.pci_pools import GuestCells
from minova.objects.hosts.pci import InstancePCIRequest, PciDevice, PciDevicePool

AVAILABLE = "available"
CLAIMED = "claimed"
ALLOCATED = "allocated"
REMOVED = "removed"
# The status of a free device whose PF or VFs are claimed or allocated.
UNCLAIMABLE = "unclaimable"
UNAVAILABLE = "unavailable"
_BLOCKED_BY = {CLAIMED: UNCLAIMABLE, ALLOCATED: UNAVAILABLE, REMOVED: UNAVAILABLE}

Devices = tuple[PciDevice, ...]


def reconciled(devices: Iterable[PciDevice], seen: Iterable[PciDevice]) -> Devices:
    """Updates the known devices from what the host reports.

    A free device becomes as the host reports it. A device of an instance stays as it was taken; a used one is `removed`
    while the host does not have it. A claimed device stays claimed: the instance that releases the claim, or continues
    with it, must still find it.
    """
    owned = {device.address: device for device in devices if device.instance_uuid is not None}
    present = {device.address: device for device in seen}
    free = [_set_free(device) for address, device in present.items() if address not in owned]
    owned_devices = [
        _seen_again(device) if address in present else _removed(device) for address, device in owned.items()
    ]
    return settled([*free, *owned_devices])


def settled(devices: Iterable[PciDevice]) -> Devices:
    """Returns the devices sorted by address, with those marked that a relative's owner blocks."""
    in_order = sorted(devices, key=lambda device: device.address)
    by_address = {device.address: device for device in in_order}
    children: dict[str, list[PciDevice]] = defaultdict(list)
    for device in in_order:
        if device.parent_addr is not None:
            children[device.parent_addr].append(device)

    def status(device: PciDevice) -> str:
        parent = by_address.get(device.parent_addr or "")
        relatives = [*children[device.address], *([parent] if parent is not None else [])]
        blocked = {_BLOCKED_BY[relative.status] for relative in relatives if relative.instance_uuid is not None}
        return UNAVAILABLE if UNAVAILABLE in blocked else UNCLAIMABLE if blocked else AVAILABLE

    return tuple(
        device if device.instance_uuid is not None else _with_status(device, status(device)) for device in in_order
    )


def owned_by(devices: Iterable[PciDevice], instance_uuid: str) -> Devices:
    return tuple(device for device in devices if device.instance_uuid == instance_uuid)


def claimed(devices: Sequence[PciDevice], instance_uuid: str, taken: Mapping[str, str | None]) -> Devices:
    """`taken`: {address: id of the request it serves}. Raises ValueError if one of the devices is not available."""
    by_address = {device.address: device for device in devices}
    for address in taken:
        claimed_device = by_address.get(address)
        if claimed_device is None or claimed_device.status != AVAILABLE:
            raise ValueError(f"PCI device {address} is {claimed_device.status if claimed_device else 'not there'}")
    return settled(
        msgspec.structs.replace(device, status=CLAIMED, instance_uuid=instance_uuid, request_id=taken[device.address])
        if device.address in taken
        else device
        for device in devices
    )


def allocated(devices: Sequence[PciDevice], instance_uuid: str) -> Devices:
    """Allocates what the instance has claimed."""
    return _changed(
        devices, instance_uuid, lambda device: _with_status(device, ALLOCATED) if device.status == CLAIMED else device
    )


def freed(devices: Sequence[PciDevice], instance_uuid: str, *statuses: str) -> Devices:
    """Frees all devices of the instance, or those in these statuses. Devices that are gone from the
    host are forgotten.
    """

    def goes(device: PciDevice) -> bool:
        return device.instance_uuid == instance_uuid and (not statuses or device.status in statuses)

    remaining = [device for device in devices if not (goes(device) and device.status == REMOVED)]
    return settled(_set_free(device) if goes(device) else device for device in remaining)


def kept_for(devices: Sequence[PciDevice], instance_uuids: Iterable[str]) -> Devices:
    """Frees the devices of all other instances."""
    owners = set(instance_uuids)
    for instance_uuid in {device.instance_uuid for device in devices} - owners - {None}:
        devices = freed(devices, str(instance_uuid))
    return tuple(devices)


def chosen(
    devices: Iterable[PciDevice], requests: Sequence[InstancePCIRequest], cells: GuestCells | None = None
) -> dict[str, str | None]:
    """Returns {address: id of the request it serves}: the lowest addresses of the pools that serve each request.

    Raises PciDeviceRequestFailed if there are too few devices.
    """
    free = [device for device in devices if device.status == AVAILABLE]
    request_by_address: dict[str, str | None] = {}
    for request in requests:
        pools = pools_of(free)
        counts_left = {_kind(pool): pool.count for pool in pci_pools.consumed(pools, [request], cells)}
        for pool in pools:
            like = [device for device in free if _kind(pool_of(device)) == _kind(pool)]
            for device in like[: pool.count - counts_left.get(_kind(pool), 0)]:
                request_by_address[device.address] = request.request_id
                # Its relatives are no longer free for the next request.
                free = [candidate for candidate in free if not related(candidate, device)]
    return request_by_address


def related(device: PciDevice, other: PciDevice) -> bool:
    """Whether both are the same device, or a PF and one of its VFs."""
    return device.address in (other.address, other.parent_addr) or device.parent_addr == other.address


def pool_of(device: PciDevice) -> PciDevicePool:
    """Returns a pool that holds only this device."""
    return PciDevicePool(
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        dev_type=device.dev_type,
        numa_node=device.numa_node,
        tags=device.tags,
        count=1,
    )


def pools_of(devices: Iterable[PciDevice]) -> tuple[PciDevicePool, ...]:
    """Groups the available devices into pools of equal ones, in the order of the first address of each pool."""
    counts = Counter(pool_of(device) for device in devices if device.status == AVAILABLE)
    return tuple(msgspec.structs.replace(pool, count=count) for pool, count in counts.items())


def _kind(pool: PciDevicePool) -> PciDevicePool:
    """The key for comparing devices: the pool without its counts."""
    return msgspec.structs.replace(pool, count=0)


def _changed(devices: Sequence[PciDevice], instance_uuid: str, change: Callable[[PciDevice], PciDevice]) -> Devices:
    return settled(change(device) if device.instance_uuid == instance_uuid else device for device in devices)


def _with_status(device: PciDevice, status: str) -> PciDevice:
    return device if device.status == status else msgspec.structs.replace(device, status=status)


def _set_free(device: PciDevice) -> PciDevice:
    return msgspec.structs.replace(device, status=AVAILABLE, instance_uuid=None, request_id=None)


def _removed(device: PciDevice) -> PciDevice:
    return _with_status(device, REMOVED) if device.status == ALLOCATED else device


def _seen_again(device: PciDevice) -> PciDevice:
    return _with_status(device, ALLOCATED) if device.status == REMOVED else device
