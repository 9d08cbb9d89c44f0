"""Holds a guest while libvirt starts or ends it, by a hook that libvirt waits for. Whatever asks for the guest meanwhile waits, too."""

from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

HOOK = """#!/bin/sh
case "$2" in prepare|stopped)
    [ ! -e {held} ] || touch {begun}
    while [ -e {held} ]; do
        [ -d /proc/$PPID ] || exit 1
        sleep 0.05
    done
esac
"""


class HeldGuests:
    """Of one libvirtd, which is started again: it looks for hooks at its start alone."""

    def __init__(self, libvirtd: Libvirtd) -> None:
        self._held = libvirtd.directory / "held"
        self._begun = libvirtd.directory / "begun"
        hook = libvirtd.directory / "etc" / "hooks" / "qemu"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(HOOK.format(held=self._held, begun=self._begun))
        hook.chmod(0o755)
        libvirtd.kill()
        libvirtd.start()

    def hold(self) -> None:
        self._begun.unlink(missing_ok=True)
        self._held.touch()

    def await_one(self) -> None:
        wait_for("libvirt to start or end the guest", self._begun.exists, 120)

    def let_go(self) -> None:
        self._held.unlink()
