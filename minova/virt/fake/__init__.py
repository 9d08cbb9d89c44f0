"""A fake hypervisor that only records its domains: for tests, benchmarks and first trials."""

from minova.virt.fake.consoles import FakeConsoles
from minova.virt.fake.disks import FakeDisks
from minova.virt.fake.host import FakeHost
from minova.virt.fake.interfaces import FakeInterfaces
from minova.virt.fake.migration import FakeMigration
from minova.virt.fake.rescue import FakeRescue
from minova.virt.fake.secrets import FakeSecrets
from minova.virt.fake.snapshots import FakeSnapshots


class FakeDriver(
    FakeHost, FakeRescue, FakeDisks, FakeSnapshots, FakeInterfaces, FakeMigration, FakeConsoles, FakeSecrets
):
    """Implements `virt.driver.ComputeDriver`. Safe for threads. With `cpu_shared_set` or `cpu_dedicated_set` each node has one NUMA
    cell, so that pinned guests run there, too.
    """
