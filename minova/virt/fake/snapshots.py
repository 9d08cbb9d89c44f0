"""Images of fake guests, which have no data."""

import struct
from collections.abc import Callable
from pathlib import Path

from minova.objects.servers.instance import Instance
from minova.virt.fake.records import FakeRecords

_CLUSTER_BITS = 16


def empty_qcow2(virtual_size: int) -> bytes:
    """Returns an image without data: a header, tables of reference counts, and an L1 table that maps nothing."""
    cluster = 1 << _CLUSTER_BITS
    l1_entries = -(-virtual_size // (cluster * (cluster // 8)))
    used = 3 + -(-l1_entries * 8 // cluster)
    header = struct.pack(
        ">4sIQIIQIIQQIIQ",
        *(b"QFI\xfb", 2, 0, 0, _CLUSTER_BITS, virtual_size, 0, l1_entries, 3 * cluster, cluster, 1, 0, 0),
    )
    counts_at, counts = struct.pack(">Q", 2 * cluster), struct.pack(">H", 1) * used
    return b"".join(part.ljust(cluster, b"\0") for part in (header, counts_at, counts)) + bytes((used - 3) * cluster)


class FakeSnapshots(FakeRecords):
    def snapshot(self, instance: Instance, path: Path, check: Callable[[], None]) -> None:
        with self._lock:
            self._begin("snapshot")
            self._domain(instance.uuid)
        check()
        path.write_bytes(empty_qcow2(max(instance.flavor.root_gb, 1) << 30))

    def has_open_snapshot(self, instance_uuid: str) -> bool:
        """Returns False: fake guests have no disks."""
        return False

    def open_snapshots(self) -> tuple[str, ...]:
        """Returns nothing: fake guests have no disks."""
        return ()

    def end_snapshot(self, instance_uuid: str, check: Callable[[], None] = lambda: None) -> None:
        """Does nothing: there are no open snapshots."""
