"""Clouds of any size for measuring: half of the hosts part-used, twenty aggregates, three zones."""

from datetime import datetime
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.engine import Database

SEEN = datetime(2026, 1, 1)  # noqa: DTZ001  - the tables hold UTC without a zone
CLASSES = (("VCPU", 64, 4.0), ("MEMORY_MB", 262144, 1.0), ("DISK_GB", 4000, 1.0))


def fill(db: Database, hosts: int, now: float) -> None:
    models.Base.metadata.create_all(db.engine)
    db.run(lambda session: _fill(session, hosts, now))


def _fill(session: Session, hosts: int, now: float) -> None:
    numbers = range(1, hosts + 1)
    zones = [{"availability_zone": f"zone{number % 3}"} if number < 3 else {"ssd": "true"} for number in range(20)]
    _insert(session, models.Service, [_service(n) for n in numbers])
    _insert(session, models.Heartbeat, [{"service_id": n, "last_seen": now} for n in numbers])
    _insert(session, models.ComputeNode, [_node(n) for n in numbers])
    _insert(session, models.ResourceProvider, [{"id": n, "uuid": _uuid(n), "name": f"node{n}"} for n in numbers])
    _insert(session, models.Inventory, [row for n in numbers for row in _inventories(n)])
    _insert(
        session,
        models.Aggregate,
        [
            {"id": n + 1, "uuid": _uuid(n), "name": f"a{n}", "metadata_": metadata, "created_at": SEEN}
            for n, metadata in enumerate(zones)
        ],
    )
    members = [{"aggregate_id": n % 3 + 1, "host": f"host{n}"} for n in numbers]
    members += [{"aggregate_id": n % 17 + 4, "host": f"host{n}"} for n in numbers]
    _insert(session, models.AggregateHost, members)


def _insert(session: Session, model: Any, rows: list[dict[str, Any]]) -> None:
    session.execute(insert(model), rows)


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _share(number: int) -> int:
    """Sixteenths of a host that are taken: none on every second one."""
    return number % 13 if number % 2 else 0


def _service(number: int) -> dict[str, Any]:
    host = f"host{number}"
    return {
        "id": number,
        "uuid": _uuid(number),
        "host": host,
        "binary": "minova-compute",
        "topic": "compute",
        "created_at": SEEN,
    }


def _node(number: int) -> dict[str, Any]:
    used = _share(number)
    return {
        "id": number,
        "uuid": _uuid(number),
        "host": f"host{number}",
        "hypervisor_hostname": f"node{number}",
        "vcpus": 64,
        "vcpus_used": used * 16,
        "memory_mb": 262144,
        "memory_mb_used": used * 16384,
        "local_gb": 4000,
        "local_gb_used": used * 250,
        "free_ram_mb": 262144 - used * 16384,
        "free_disk_gb": 4000 - used * 250,
        "disk_available_least": None,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 7002000 + number % 3,
        "supported_instances": [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]],
        "host_ip": None,
        "numa_topology": None,
        "created_at": SEEN,
        "updated_at": None,
    }


def _inventories(number: int) -> list[dict[str, Any]]:
    used = _share(number)
    return [
        {
            "provider_id": number,
            "resource_class": name,
            "total": total,
            "max_unit": total,
            "allocation_ratio": ratio,
            "capacity": int(total * ratio),
            "used": used * int(total * ratio) // 16,
        }
        for name, total, ratio in CLASSES
    ]
