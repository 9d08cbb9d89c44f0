"""The driver for libvirt, with QEMU, KVM or libvirt's own test hypervisor: a part for each capability.

The domain is defined before its disks are made and undefined after they are removed. So after a crash at any point a
domain shows what exists, and the compute can finish or undo the work.
"""

from minova.virt.libvirt.driver.consoles import LibvirtConsoles
from minova.virt.libvirt.driver.disks import LibvirtDisks
from minova.virt.libvirt.driver.host import LibvirtHost
from minova.virt.libvirt.driver.interfaces import LibvirtInterfaces
from minova.virt.libvirt.driver.migration import LibvirtMigration
from minova.virt.libvirt.driver.rescue import LibvirtRescue
from minova.virt.libvirt.driver.secrets import LibvirtGuestSecrets
from minova.virt.libvirt.driver.snapshots import LibvirtSnapshots


class LibvirtDriver(
    LibvirtMigration,
    LibvirtHost,
    LibvirtInterfaces,
    LibvirtRescue,
    LibvirtDisks,
    LibvirtSnapshots,
    LibvirtConsoles,
    LibvirtGuestSecrets,
):
    """Implements `virt.driver.ComputeDriver`. Safe for threads."""
