"""Jobs that libvirt runs on a domain, such as a save of its memory. A job goes on when the process that began it dies, so
an operation looks for one before it begins.

    libvirt names a job that goes on            GuestJobRuns: wait for its end
    libvirt names none, or does not answer      GuestBusy: a job may be at work, or the monitor of QEMU hangs for ever
"""

from typing import Any

import libvirt

from minova import errors
from minova.virt.libvirt.error_codes import meaning

_UNKNOWN: int = libvirt.VIR_DOMAIN_JOB_OPERATION_UNKNOWN
_NAMES = {
    libvirt.VIR_DOMAIN_JOB_OPERATION_START: "start",
    libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE: "save of its memory",
    libvirt.VIR_DOMAIN_JOB_OPERATION_RESTORE: "start from its saved memory",
    libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN: "migration",
    libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT: "migration",
    libvirt.VIR_DOMAIN_JOB_OPERATION_SNAPSHOT: "snapshot",
    libvirt.VIR_DOMAIN_JOB_OPERATION_DUMP: "dump",
    libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP: "backup",
}
# libvirt's test hypervisor runs no jobs, and a domain that is off has none.
_NO_JOB = {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_INVALID}


def require_free(domain: Any) -> None:
    """Raises GuestJobRuns if a job runs on the domain, GuestBusy if that or its name cannot be read."""
    job = running(domain)
    if job in _NAMES:
        raise errors.GuestJobRuns(f"Domain {domain.name()} is occupied by a {_NAMES[job]}")
    if job is not None:
        raise errors.GuestBusy(f"Domain {domain.name()} is occupied by a job that libvirt does not name")


def require_not_saving(domain: Any) -> None:
    """Raises GuestJobRuns while the memory of the guest is being saved: an end of the guest now would lose it."""
    if running(domain) == libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE:
        raise errors.GuestJobRuns(f"The memory of domain {domain.name()} is being saved")


def running(domain: Any) -> int | None:
    """Returns the operation (virDomainJobOperation) of the job that runs on the domain, or None if none does."""
    try:
        if not domain.isActive() or domain.jobInfo()[0] == libvirt.VIR_DOMAIN_JOB_NONE:
            return None
        return int(domain.jobStats().get("operation") or _UNKNOWN)
    except libvirt.libvirtError as error:
        if error.get_error_code() in _NO_JOB:
            return None
        if error.get_error_code() == libvirt.VIR_ERR_OPERATION_UNSUPPORTED:
            # libvirt counts a migration at its source only.
            return int(libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN)
        if meaning(error) is errors.GuestBusy:
            # Even the question has to wait for the job's step: which job it is cannot be read.
            return _UNKNOWN
        raise
