"""Space: of the folders on this machine, and for the disks of guests on the hosts."""

from collections.abc import Iterator

from sqlalchemy import select

from minova.db.models import ComputeNode
from minova.health import storages
from minova.health.doctor.findings import Finding, Patient, Severity

AREA = "space"
# A share of the file system that must be free.
FREE_SHARE = 0.05


def check(patient: Patient) -> Iterator[Finding]:
    folders = {
        (name, folder): None
        for binary in sorted({binary for binaries in storages.KEPT.values() for binary in binaries})
        for name, folder in storages.folders(patient.conf(binary), binary).items()
    }
    for name, folder in folders:
        try:
            size, free = storages.space(folder)
        except OSError:  # this machine has no such folder
            continue
        if free < size * FREE_SHARE:
            yield Finding(
                area=AREA,
                subject=f"the file system of {folder} ({name})",
                problem="is nearly full",
                detail=f"{free >> 20} MB of {size >> 20} MB are free",
                mend="make room: docs/operators/images.md, docs/operators/growth.md",
            )
    query = select(ComputeNode.host, ComputeNode.disk_available_least).order_by(ComputeNode.id)
    for host, free_gb in patient.session.execute(query):
        if free_gb is not None and free_gb <= 0:
            yield Finding(
                area=AREA,
                subject=f"the host {host}",
                problem="has no space for all that its guests may still write",
                detail=f"{free_gb} GB",
                mend="minova server migrate SERVER, or add space: guests stand still when it ends",
                severity=Severity.WARNING,
            )
