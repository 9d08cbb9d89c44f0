"""Disks of a guest that has arrived paused.

QEMU before 10.0 leaves them inactive until the guest goes on, and ends itself if such a guest migrates again.
"""

import json
import logging
from typing import Any

import libvirt
import libvirt_qemu

LOG = logging.getLogger(__name__)
_EXPORT = "minova-wake"


def activate(domain: Any) -> None:
    """An export of a disk activates it, and is refused after that, since nothing serves exports. A disk that is active stays so."""
    try:
        for node in _nodes(domain):
            export = {"type": "nbd", "id": _EXPORT, "node-name": node}
            if "return" in _ask(domain, "block-export-add", export):
                _ask(domain, "block-export-del", {"id": _EXPORT, "mode": "hard"})
    except libvirt.libvirtError as error:
        LOG.warning("The disks of %s, which is paused, may not be active: %s", domain.name(), error)


def _nodes(domain: Any) -> list[str]:
    """Those that the guest cannot write are inactive, too."""
    devices = _ask(domain, "query-block", {}).get("return", ())
    return [device["inserted"]["node-name"] for device in devices if "inserted" in device]


def _ask(domain: Any, command: str, arguments: dict[str, str]) -> dict[str, Any]:
    words = json.dumps({"execute": command, "arguments": arguments})
    answer: dict[str, Any] = json.loads(libvirt_qemu.qemuMonitorCommand(domain, words, 0))
    return answer
