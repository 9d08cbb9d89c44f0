"""The one step of minova-compute that needs a right beyond those of its user: a file that libvirt has left to root is taken back.

libvirt gives the files of a guest to root when the guest stops, unless it could remember who had them, and virtlogd makes
console logs as root. A helper process of oslo.privsep, forked before all else, keeps CAP_CHOWN for this step and nothing
else; the service itself gives the capability up. A service of root needs no helper.
"""

import os
import threading
from pathlib import Path

# Of <linux/capability.h>.
_CAP_CHOWN = 0
_running = threading.Event()


def start_helper() -> None:
    """Start it if this process has CAP_CHOWN and is not root. Call it first of all, while there is one thread."""
    if os.geteuid() == 0 or not may(_CAP_CHOWN):
        return
    assert threading.active_count() == 1
    # Slow to import, and of no use to root.
    from minova.virt.libvirt.guest_files import privileged  # noqa: PLC0415

    privileged.start()
    _running.set()


def take_back(path: Path) -> None:
    """Give INSTANCES/UUID/NAME, which belongs to root, to the owner and group of its folder. Raises PermissionError if there is
    no helper; ValueError or OSError if it is no such file.
    """
    if not _running.is_set():
        raise PermissionError("minova-compute was started without CAP_CHOWN")
    from minova.virt.libvirt.guest_files import privileged  # noqa: PLC0415

    privileged.take_back(str(path.parent.parent), path.parent.name, path.name)


def may(capability: int) -> bool:
    """Whether this process has it."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(lines["CapPrm"], 16) >> capability & 1)
