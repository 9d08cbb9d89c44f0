"""Rows of PCI devices, written with the node that has them."""

from collections.abc import Iterable, Sequence

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import PciDevice
from minova.db.sql import chunked
from minova.objects.hosts.pci import PciDevice as PciDeviceObject

# Built once: every audit of every node runs it.
_OF_NODE = select(PciDevice.value).where(PciDevice.node_id == bindparam("of_node")).order_by(PciDevice.address)


def of_node(session: Session, node_id: int) -> tuple[PciDeviceObject, ...]:
    return tuple(session.connection().execute(_OF_NODE, {"of_node": node_id}).scalars())


def of_instances(session: Session, instance_uuids: Iterable[str]) -> dict[str, tuple[PciDeviceObject, ...]]:
    """Returns the devices of each of these instances that has any, on any node."""
    devices: dict[str, tuple[PciDeviceObject, ...]] = {}
    for chunk in chunked(sorted(set(instance_uuids))):
        query = select(PciDevice.instance_uuid, PciDevice.value).where(PciDevice.instance_uuid.in_(chunk))
        for uuid, device in session.execute(query.order_by(PciDevice.address)):
            devices[str(uuid)] = (*devices.get(str(uuid), ()), device)
    return devices


def write(session: Session, node_id: int, devices: Sequence[PciDeviceObject]) -> bool:
    """Makes these the node's devices. Returns whether anything changed. The caller holds the lock of the node's row."""
    before = {device.address: device for device in of_node(session, node_id)}
    after = {device.address: device for device in devices}
    connection = session.connection()
    of_this_node = PciDevice.node_id == node_id
    for address in before.keys() - after.keys():
        connection.execute(delete(PciDevice).where(of_this_node, PciDevice.address == address))
    for address, device in after.items():
        values = {"instance_uuid": device.instance_uuid, "value": device}
        if address not in before:
            connection.execute(insert(PciDevice).values(node_id=node_id, address=address, **values))
        elif before[address] != device:
            connection.execute(update(PciDevice).where(of_this_node, PciDevice.address == address).values(**values))
    return before != after
