"""QEMU ended itself when a guest that had arrived paused migrated again: its disks were still inactive.

tests/integration/virt/test_moving_guests.py has such guests at night.
"""

import json
from typing import Any

import libvirt
import libvirt_qemu
import pytest

from minova.virt.libvirt.migration import paused_disks

MEDIA = [
    {"device": "", "inserted": {"node-name": "libvirt-2-format", "ro": False}},
    {"device": "", "inserted": {"node-name": "libvirt-1-format", "ro": True}},
    {"device": "empty"},
]


class Domain:
    def name(self) -> str:
        return "instance-1"


class Monitor:
    """`serves`: something serves exports. Fails if `broken`."""

    def __init__(self, *, serves: bool = False, broken: bool = False) -> None:
        self.serves, self.broken = serves, broken
        self.asked: list[tuple[str, str]] = []

    def ask(self, _: Any, words: str, __: int) -> str:
        if self.broken:
            raise libvirt.libvirtError("Domain is not running")
        command = json.loads(words)
        arguments = command["arguments"]
        self.asked.append((command["execute"], arguments.get("node-name", arguments.get("id", ""))))
        if command["execute"] == "query-block":
            return json.dumps({"return": MEDIA})
        is_refused = command["execute"] == "block-export-add" and not self.serves
        return json.dumps({"error": {"desc": "NBD server not running"}} if is_refused else {"return": {}})


@pytest.mark.parametrize("serves", [False, True])
def test_bug_disks_of_a_guest_that_arrives_paused_become_active(monkeypatch: pytest.MonkeyPatch, serves: bool) -> None:
    monitor = Monitor(serves=serves)
    monkeypatch.setattr(libvirt_qemu, "qemuMonitorCommand", monitor.ask)
    paused_disks.activate(Domain())
    taken_back = [("block-export-del", "minova-wake")] if serves else []
    expected = [("query-block", "")]
    # A CD, too.
    for node in ("libvirt-2-format", "libvirt-1-format"):
        expected += [("block-export-add", node), *taken_back]
    assert monitor.asked == expected


def test_guest_arrives_although_its_disks_cannot_be_activated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(libvirt_qemu, "qemuMonitorCommand", Monitor(broken=True).ask)
    paused_disks.activate(Domain())
    assert "may not be active" in caplog.text
