"""The interface of hypervisor drivers: a part for each capability. The compute knows this interface and nothing behind it."""

from typing import Protocol

from minova.virt.driver.consoles import ConsoleDriver
from minova.virt.driver.disks import DiskDriver
from minova.virt.driver.domains import DomainDriver
from minova.virt.driver.host import HostDriver
from minova.virt.driver.interfaces import InterfaceDriver
from minova.virt.driver.migration import MigrationDriver
from minova.virt.driver.power import PowerDriver
from minova.virt.driver.rescue import RescueDriver
from minova.virt.driver.secrets import SecretDriver
from minova.virt.driver.snapshots import SnapshotDriver


class ComputeDriver(
    ConsoleDriver,
    DiskDriver,
    DomainDriver,
    HostDriver,
    InterfaceDriver,
    MigrationDriver,
    PowerDriver,
    RescueDriver,
    SecretDriver,
    SnapshotDriver,
    Protocol,
):
    """Methods raise HypervisorUnavailable if the hypervisor does not answer, GuestBusy if a job of it occupies the guest,
    DiskFull if the disk is full, and HypervisorError if the hypervisor could not do it for another reason.
    """
