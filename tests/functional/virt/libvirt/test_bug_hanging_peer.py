"""The other host of a move hangs: the copy of a disk gives no sign of life, and no stop waits for it."""

import secrets
import threading
from contextlib import closing
from pathlib import Path

from minova import errors
from minova.concurrency.outside_waits import silent
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.virt.libvirt.migration import network_sockets
from minova.virt.libvirt.migration.file_fetch import Growth, write
from tests.waiting import wait_for

PORTS = range(49430, 49440)


def test_bug_disk_of_a_host_that_hangs_seems_to_proceed(tmp_path: Path) -> None:
    listeners = (listener for port in PORTS if (listener := network_sockets.listen("127.0.0.1", port)) is not None)
    cancelled = threading.Event()
    with closing(next(listeners)) as listener:
        port = listener.getsockname()[1]
        export = DiskExport(host="hv1", attempt=1, address="127.0.0.1", port=port)
        file = ExportedFile(name="disk", export="disk", size=1 << 20)
        key = TransferKey(identity="m", secret=secrets.token_hex(32))

        def check() -> None:
            if cancelled.is_set():
                raise errors.StaleAttempt("no more")

        ended: list[BaseException] = []

        def fetch() -> None:
            try:
                write(tmp_path / "disk", export, file, key, check)
            except BaseException as error:  # noqa: BLE001  - the test looks at it
                ended.append(error)

        thread = threading.Thread(target=fetch, daemon=True)
        thread.start()
        wait_for("silence", lambda: silent(thread.ident or 0, 1.0) == "the other host of a move")
        cancelled.set()
        thread.join(60)
        assert isinstance(ended[0], errors.StaleAttempt)


def test_a_file_that_another_program_writes_gives_signs_of_life(tmp_path: Path) -> None:
    path, signs = tmp_path / "disk", 0

    def moved() -> None:
        nonlocal signs
        signs += 1

    path.write_bytes(bytes(1 << 20))
    growth = Growth(path, moved)
    growth.look()
    assert signs == 0
    with path.open("r+b") as file:
        file.write(b"x")
    growth.look()
    growth.look()
    assert signs == 1
