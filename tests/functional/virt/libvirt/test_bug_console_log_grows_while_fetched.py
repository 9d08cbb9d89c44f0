"""A running guest prints while its console log is fetched: the copy has what was there when its size was read."""

import secrets
from pathlib import Path

import pytest

from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.virt.libvirt.migration.export_server import ExportedDisk, ExportServers
from minova.virt.libvirt.migration.file_fetch import fetch


@pytest.mark.parametrize("size", [0, 1, 511, 512, 5000])
def test_the_log_grows_between_its_size_and_its_export(tmp_path: Path, size: int) -> None:
    log, key = tmp_path / "console.log", TransferKey(identity="m", secret=secrets.token_hex(32))
    log.write_bytes(b"a" * size + b"b" * 3000)
    servers = ExportServers("127.0.0.1", (49300, 49399))
    try:
        port = servers.start("m", key, [ExportedDisk("console.log", log)], None)
        export = DiskExport(host="hv1", attempt=1, address="127.0.0.1", port=port)
        file = ExportedFile(name="console.log", export="console.log", size=size)
        fetch(tmp_path / "copy", export, file, key, lambda part: None, lambda: None)
    finally:
        servers.close()
    assert (tmp_path / "copy").read_bytes() == b"a" * size
