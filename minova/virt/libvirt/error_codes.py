"""What an error of libvirt means, by its code (libvirt's virterror.h). Pure.

the connection is lost        HypervisorUnavailable: the result is not known; wait for libvirt
another job has the guest     GuestBusy: it has not begun; wait for the job, but not for ever: the monitor of QEMU may hang
the guest is off, or on       GuestStateUnexpected
there is no such domain       NotFound
the agent does not answer     GuestAgentUnresponsive
the host lacks the hardware   HardwareNotOffered: another host may have it
the disk is full              DiskFull, by the text: libvirt has no code for it
anything else                 HypervisorError: libvirt has answered that it could not do it

VIR_ERR_RESOURCE_BUSY is such an answer: the lock manager says that another host has the disk open, which no wait here ends.
"""

from collections.abc import Mapping

import libvirt

from minova import errors
from minova.virt.disk_space import says_disk_full

_MEANINGS: Mapping[int, type[errors.MinovaError]] = {
    libvirt.VIR_ERR_NO_CONNECT: errors.HypervisorUnavailable,
    libvirt.VIR_ERR_INVALID_CONN: errors.HypervisorUnavailable,
    libvirt.VIR_ERR_RPC: errors.HypervisorUnavailable,
    libvirt.VIR_ERR_GNUTLS_ERROR: errors.HypervisorUnavailable,
    libvirt.VIR_ERR_AUTH_FAILED: errors.HypervisorUnavailable,
    libvirt.VIR_ERR_AUTH_CANCELLED: errors.HypervisorUnavailable,
    libvirt.VIR_ERR_AUTH_UNAVAILABLE: errors.HypervisorUnavailable,
    # "cannot acquire state change lock": libvirt has waited 30 s for the job that holds it.
    libvirt.VIR_ERR_OPERATION_TIMEOUT: errors.GuestBusy,
    libvirt.VIR_ERR_BLOCK_COPY_ACTIVE: errors.GuestBusy,
    libvirt.VIR_ERR_OPERATION_INVALID: errors.GuestStateUnexpected,
    libvirt.VIR_ERR_NO_DOMAIN: errors.NotFound,
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE: errors.GuestAgentUnresponsive,
    libvirt.VIR_ERR_AGENT_UNSYNCED: errors.GuestAgentUnresponsive,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED: errors.HardwareNotOffered,
}
# The parts of libvirt that carry calls to its daemon. They report a lost connection by codes that also mean other
# things.
_CARRIERS = frozenset({libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE})
_OF_CARRIERS = frozenset({libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_ERR_SYSTEM_ERROR})


def meaning(error: libvirt.libvirtError) -> type[errors.MinovaError]:
    """Returns the class of the error of minova that says the same."""
    if says_disk_full(str(error)):
        return errors.DiskFull
    code = error.get_error_code()
    if code in _OF_CARRIERS and error.get_error_domain() in _CARRIERS:
        return errors.HypervisorUnavailable
    return _MEANINGS.get(code, errors.HypervisorError)
