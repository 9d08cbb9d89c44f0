"""The memory of a guest that libvirt has saved. Only the word of the guest's user removes it, or its use, here or on another host: a
guest that has gone on from it has newer memory, and an older one over its changed disk would damage the disk.
"""

import logging
from typing import Any

from minova import errors
from minova.virt.libvirt.guest_state import jobs

LOG = logging.getLogger(__name__)


def is_saved(domain: Any) -> bool:
    """Whether the guest is off and its memory is saved."""
    return not domain.isActive() and bool(domain.hasManagedSaveImage())


def require_none(domain: Any) -> None:
    """Raises SavedMemoryKept if the guest is off and its memory is saved."""
    if is_saved(domain):
        raise errors.SavedMemoryKept(
            f"The memory of domain {domain.name()} is saved. Start the server to go on from it, or reboot it hard to lose it"
        )


def forget_older(domain: Any) -> None:
    """Remove the memory of a guest that is off, and whose disks another host has had since."""
    if is_saved(domain):
        LOG.warning(
            "The saved memory of domain %s is older than its disks, on which it has run elsewhere. It is removed: the guest boots",
            domain.name(),
        )
        domain.managedSaveRemove()


def forget_used(domain: Any) -> None:
    """Remove the memory from which a running guest has gone on. libvirt does that itself, unless it dies just then. The
    caller holds the instance's lock, so that no save begins meanwhile.
    """
    if domain.isActive() and domain.hasManagedSaveImage() and jobs.running(domain) is None:
        LOG.info("Domain %s runs: the memory that was saved before is removed", domain.name())
        domain.managedSaveRemove()
