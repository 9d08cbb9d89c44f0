"""Addresses and ports of the built-in networks."""

import ipaddress
from collections.abc import Iterator

from sqlalchemy import and_, func, or_, select

from minova.db.models import Instance, IpAllocation, Port, Subnet, Task
from minova.db.models.networks import PENDING_DELETE
from minova.health.doctor.findings import Finding, Patient

AREA = "addresses"


def check(patient: Patient) -> Iterator[Finding]:
    yield from _outside(patient)
    yield from _twice(patient)
    yield from _ports(patient)


def _outside(patient: Patient) -> Iterator[Finding]:
    query = (
        select(Port.uuid, IpAllocation.address, Subnet.cidr)
        .join(Subnet, Subnet.id == IpAllocation.subnet_id)
        .join(Port, Port.id == IpAllocation.port_id)
        .order_by(Port.id)
    )
    for port, address, cidr in patient.session.execute(query):
        if ipaddress.ip_address(address) not in ipaddress.ip_network(cidr):
            yield Finding(
                area=AREA,
                subject=f"the address {address} of port {port}",
                problem="is outside of its subnet",
                detail=cidr,
                mend=f"minova port delete {port}, and attach another one",
            )


def _twice(patient: Patient) -> Iterator[Finding]:
    """An address is unique in its subnet by the table's key; subnets of one network must not overlap."""
    query = (
        select(Subnet.network_id, IpAllocation.address, func.min(Port.uuid), func.max(Port.uuid))
        .join(Subnet, Subnet.id == IpAllocation.subnet_id)
        .join(Port, Port.id == IpAllocation.port_id)
        .group_by(Subnet.network_id, IpAllocation.address)
        .having(func.count() > 1)
    )
    for _, address, first, second in patient.session.execute(query):
        yield Finding(
            area=AREA,
            subject=f"the address {address}",
            problem="is given to two ports of one network",
            detail=f"{first} and {second}",
            mend=f"minova port delete {second}, and attach another one",
        )


def _ports(patient: Patient) -> Iterator[Finding]:
    living = and_(Instance.uuid == Port.instance_uuid, Instance.deleted_at.is_(None))
    has_task = select(Task.id).where(Task.instance_uuid == Port.instance_uuid).exists()
    query = (
        select(Port.uuid, Port.instance_uuid, Port.host, Instance.uuid, Instance.host)
        .outerjoin(Instance, living)
        .where(Port.instance_uuid.is_not(None), Port.status != PENDING_DELETE, ~has_task)
        .where(or_(Instance.uuid.is_(None), and_(Port.host != "", Instance.task_state.is_(None))))
        .order_by(Port.id)
    )
    for port, server, bound, living_server, host in patient.session.execute(query):
        if living_server is None:
            yield Finding(
                area=AREA,
                subject=f"port {port}",
                problem="belongs to a server that is not there",
                detail=server,
                mend=f"minova port delete {port}",
            )
        elif host is not None and bound != host:
            yield Finding(
                area=AREA,
                subject=f"port {port}",
                problem="is bound to another host than its server",
                detail=f"{bound}, and server {server} is on {host}",
                mend=f"minova server reboot --hard {server}",
            )
