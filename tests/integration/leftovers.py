"""What should not be there when no instance is."""

from pathlib import Path

import libvirt
from sqlalchemy import func, select

from minova.db.engine import Database
from minova.db.models import Allocation, ComputeNode, Inventory, Task


def leftovers(database: Database, libvirt_uri: str, folder: Path) -> list[str]:
    """Domains, instance folders, allocations, tasks and usage without an owner; [] when all is clean."""
    return domains_and_disks(libvirt_uri, folder) + leftovers_in_tables(database)


def domains_and_disks(libvirt_uri: str, folder: Path) -> list[str]:
    """Domains, and folders of instances below the state folder in `folder`."""
    left_things = []
    connection = libvirt.open(libvirt_uri)
    try:
        left_things += [f"domain {domain.name()}" for domain in connection.listAllDomains()]
    finally:
        connection.close()
    instances = folder / "state" / "instances"
    left_things += [f"disk {path.name}" for path in instances.glob("*-*-*-*-*")]
    return left_things


def leftovers_in_tables(database: Database) -> list[str]:
    """Allocations, tasks and usage without an owner."""
    left_things = []
    with database.read() as session:
        left_things += [f"allocation of {uuid}" for uuid in session.scalars(select(Allocation.consumer_uuid))]
        left_things += [f"task of {uuid}" for uuid in session.scalars(select(Task.instance_uuid))]
        if session.scalar(select(func.sum(Inventory.used))):
            left_things.append("used inventories")
        for node in session.scalars(select(ComputeNode)):
            if node.vcpus_used or node.running_vms or node.local_gb_used:
                left_things.append(f"usage of {node.host}: {node.vcpus_used} vcpus, {node.local_gb_used} GB")
    return left_things
