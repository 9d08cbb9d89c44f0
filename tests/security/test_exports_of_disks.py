"""What anybody on the network of the hosts can do to the disks that a host serves for a move, without their key."""

import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.objects.servers.disk_export import TransferKey
from minova.virt.libvirt.migration.export_server import ExportedDisk, ExportServers

# Many more than complaints of about a hundred bytes fill a pipe of 64 KiB.
CONNECTIONS = 1500


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    disk = tmp_path / "disk"
    disk.write_bytes(b"1" * 512)
    exports = ExportServers("127.0.0.1", (49410, 49419))
    yield exports.start(
        "m", TransferKey(identity="m", secret=secrets.token_hex(32)), [ExportedDisk("disk", disk)], None
    )
    exports.close()


def greeting(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        client.settimeout(20)
        return client.recv(8)


def test_bug_connections_without_a_key_stopped_an_export(port: int) -> None:
    """qemu-storage-daemon complains of each, and nobody read that: it stood still once the pipe was full."""
    for _ in range(CONNECTIONS):
        assert greeting(port) == b"NBDMAGIC"
