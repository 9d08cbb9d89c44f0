"""What a host has of a guest that migrates, as libvirt says it. Pure, except for the questions to libvirt."""

from typing import Any

import libvirt

from minova.objects.servers.live_migration import GuestSide
from minova.virt.libvirt.guest_state import jobs

_MIGRATIONS = {libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN, libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT}
_BY_REASON = {
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY): GuestSide.POST_COPY,
    (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY_FAILED): GuestSide.POST_COPY_FAILED,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY): GuestSide.POST_COPY,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED): GuestSide.POST_COPY_FAILED,
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION): GuestSide.PAUSED_BY_MIGRATION,
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED): GuestSide.LEFT,
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED): GuestSide.CRASHED,
}
_BY_STATE = {
    libvirt.VIR_DOMAIN_PAUSED: GuestSide.PAUSED,
    libvirt.VIR_DOMAIN_SHUTOFF: GuestSide.SHUT_OFF,
    libvirt.VIR_DOMAIN_CRASHED: GuestSide.CRASHED,
}


# VIR_DOMAIN_PAUSED_API_ERROR of libvirt 9.2: libvirt could not continue the guest.
_NOT_CONTINUED = (libvirt.VIR_DOMAIN_PAUSED, 14)


def side_of(domain: Any, *, held: bool = False) -> GuestSide:
    """`held`: the guest was handed over, and its disks are held here, so that libvirt cannot continue it."""
    state, reason = domain.state()
    if held and (state, reason) == _NOT_CONTINUED:
        return GuestSide.PAUSED_BY_MIGRATION
    return _BY_REASON.get((state, reason)) or _BY_STATE.get(state, GuestSide.RUNNING)


def migrates(domain: Any) -> bool:
    """Whether libvirt works on a migration of the domain, or may do so: it does not answer for another job."""
    return jobs.running(domain) in {*_MIGRATIONS, libvirt.VIR_DOMAIN_JOB_OPERATION_UNKNOWN}
