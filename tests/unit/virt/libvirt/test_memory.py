"""How much of a host's memory is in use, by kind of hypervisor."""

import pytest

from minova.virt.libvirt.memory import host_used_mb, read_meminfo, xen_used_mb

GIB = 1024 * 1024
MEMINFO = """\
MemTotal:        4194304 kB
MemFree:         1048576 kB
Buffers:          262144 kB
Cached:           786432 kB
HugePages_Total:       0
VmallocChunk:
"""


def test_the_host_itself_and_what_it_can_give_up_at_once() -> None:
    stats = {"total": 16 * GIB, "free": 4 * GIB, "buffers": 1 * GIB, "cached": 3 * GIB}
    assert host_used_mb(stats) == 8 * 1024
    assert host_used_mb({"total": 16 * GIB, "free": 4 * GIB}) == 12 * 1024


@pytest.mark.parametrize(
    ("domains", "used_mb"),
    [
        ([], 0),
        ([(0, 4 * GIB)], 2 * 1024),
        ([(0, 4 * GIB), (1, 1 * GIB), (7, 2 * GIB)], 5 * 1024),
        ([(1, 1 * GIB), (7, 2 * GIB)], 3 * 1024),
    ],
)
def test_xen_is_its_domains_and_of_dom0_what_is_not_free(domains: list[tuple[int, int]], used_mb: int) -> None:
    assert xen_used_mb(domains, read_meminfo(MEMINFO)) == used_mb
