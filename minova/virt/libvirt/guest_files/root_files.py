"""Takes back files that libvirt has left to root: the only step of minova-compute that needs a right beyond those of
its user.

libvirt gives the files of a guest to root when the guest stops, unless it could remember their owner, and virtlogd
creates console logs as root. A helper process of oslo.privsep, forked before all else, keeps CAP_CHOWN only for this
step; the service itself drops the capability. A service that runs as root needs no helper.
"""

import os
import threading
from pathlib import Path

from minova.virt.libvirt.guest_files.linux_capabilities import CAP_CHOWN, has_capability

_running = threading.Event()


def start_helper() -> None:
    """Start the helper if this process has CAP_CHOWN and is not root. Call it first, while there is only one thread."""
    if os.geteuid() == 0 or not has_capability(CAP_CHOWN):
        return
    assert threading.active_count() == 1
    # Slow to import, and not needed by root.
    from minova.virt.libvirt.guest_files import privileged  # noqa: PLC0415

    privileged.start()
    _running.set()


def take_back(path: Path) -> None:
    """Give INSTANCES/UUID/NAME, which belongs to root, to the owner and group of its folder. Raises PermissionError if
    there is no helper, ValueError or OSError if it is not such a file.
    """
    if not _running.is_set():
        raise PermissionError("minova-compute was started without CAP_CHOWN")
    from minova.virt.libvirt.guest_files import privileged  # noqa: PLC0415

    privileged.take_back(str(path.parent.parent), path.parent.name, path.name)
