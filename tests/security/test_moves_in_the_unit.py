"""minova-compute with the limits of its unit, without root, serves the disks of a move and fetches them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.servers import kept_paths, sandbox
from tests.servers.libvirtd import ACCOUNT_ID, CLIENT_ID

MOVE = """
import os, secrets, sys
from pathlib import Path
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.virt.libvirt.migration.export_server import ExportedDisk, ExportServers
from minova.virt.libvirt.migration.file_fetch import fetch

state = Path(sys.argv[1])
disk, copy = state / "disk", state / "copy"
disk.write_bytes(b"written by the guest" * 1000)
key = TransferKey(identity="m", secret=secrets.token_hex(32))
servers = ExportServers("127.0.0.1", (49264, 49299))
port = servers.start("m", key, [ExportedDisk("disk", disk)], None)
export = DiskExport(host="hv1", attempt=1, address="127.0.0.1", port=port)
file = ExportedFile(name="disk", export="disk", size=disk.stat().st_size)
fetch(copy, export, file, key, lambda part: None, lambda: None)
assert os.geteuid() != 0
assert copy.read_bytes() == disk.read_bytes()
servers.close()
assert [path for path in Path("/tmp").iterdir() if "move" in path.name] == []
print("moved")
"""


def test_the_programs_of_a_move_run_under_the_limits_of_the_unit() -> None:
    with tempfile.TemporaryDirectory(prefix="minova-unit-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        state, script = folder / "state", folder / "move.py"
        state.mkdir()
        os.chown(state, CLIENT_ID, CLIENT_ID)
        script.write_text(MOVE)
        keep = [kept_paths.ROOT, Path(sys.prefix), folder]
        words = [sys.executable, str(script), str(state)]
        command = sandbox.command(
            "minova-compute", words, writable=state, keep=keep, uid=CLIENT_ID, groups=[ACCOUNT_ID]
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "moved\n", done.stderr
