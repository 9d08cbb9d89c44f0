"""I/O errors of disks, of which a guest is told while it runs on, stand in the log."""

from collections.abc import Callable

import libvirt
import pytest

from minova.virt.libvirt.guest_state.disk_failures import REMINDER, DiskFailures
from minova.virt.libvirt.host import Host

PATH, ALIAS = "/instances/u/disk", "virtio-disk0"
TOLD, STOPS = libvirt.VIR_DOMAIN_EVENT_IO_ERROR_REPORT, libvirt.VIR_DOMAIN_EVENT_IO_ERROR_PAUSE


class Domain:
    def UUIDString(self) -> str:  # noqa: N802
        return "u"


class Connection:
    """Has the callbacks that were registered, by the kind of event."""

    def __init__(self) -> None:
        self.callbacks: dict[int, Callable[..., None]] = {}

    def domainEventRegisterAny(self, _domain: object, kind: int, call: Callable[..., None], _: object) -> None:  # noqa: N802
        self.callbacks[kind] = call

    def __getattr__(self, _name: str) -> Callable[..., bool]:
        return lambda *_: True


def test_bug_guest_with_an_unreadable_disk_left_no_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connection = Connection()
    monkeypatch.setattr(libvirt, "open", lambda _uri: connection)
    host = Host("qemu:///system")
    host.watch(lambda *_: None, lambda: None)
    with host.connection("Listing domains"):
        tell = connection.callbacks[libvirt.VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON]
    tell(connection, Domain(), PATH, ALIAS, TOLD, "", None)
    assert caplog.messages[-1] == (
        "Instance u: this host cannot read or write disk /instances/u/disk (virtio-disk0); the guest was told"
    )


def test_a_disk_that_goes_on_failing_is_a_line_each_ten_minutes(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    failures = DiskFailures(lambda: now)
    for _ in range(3):
        failures.failed(Domain(), PATH, ALIAS, TOLD, "")
    failures.failed(Domain(), PATH, "virtio-disk1", TOLD, "")
    failures.failed(Domain(), PATH, ALIAS, STOPS, "enospc")
    assert len(caplog.messages) == 3
    assert caplog.messages[-1].endswith("(virtio-disk0, enospc); the guest stands still")
    now = REMINDER
    failures.failed(Domain(), PATH, ALIAS, TOLD, "")
    assert caplog.messages[-1].endswith("the guest was told, 2 more times since the last line")
    assert len(caplog.messages) == 4
