"""A libvirt connection that knows one machine from a file, and no domains: what HostReader asks is answered."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from tests.fakes.libvirt_errors import libvirt_error

KIB = 1024


class CannedDevice:
    def __init__(self, xml: str) -> None:
        self.xml = xml

    def XMLDesc(self, flags: int) -> str:  # noqa: N802  - libvirt's own names
        return self.xml


class CannedHost:
    """`expands` are the features that the CPU's model stands for; None: libvirt cannot tell, as on arm64."""

    def __init__(
        self, file: Path, *, kind: str = "QEMU", cpus: int, memory_mb: int, expands: Sequence[str] | None = ()
    ) -> None:
        machine = ET.parse(file).getroot()
        self.capabilities = _text(machine.find("capabilities"))
        self.devices = [CannedDevice(_text(device)) for device in machine.findall("device")]
        self.kind = kind
        self.cpus = cpus
        self.memory_mb = memory_mb
        self.expands = expands
        self.models: list[str] = []

    def getURI(self) -> str:  # noqa: N802
        return "canned:///system"

    def getCapabilities(self) -> str:  # noqa: N802
        return self.capabilities

    def getDomainCapabilities(self, *arguments: Any) -> str:  # noqa: N802
        raise libvirt_error("this function is not supported by the connection driver", libvirt.VIR_ERR_NO_SUPPORT)

    def getInfo(self) -> list[Any]:  # noqa: N802
        return ["x86_64", self.memory_mb, self.cpus, 2000, 1, 1, self.cpus, 1]

    def getType(self) -> str:  # noqa: N802
        return self.kind

    def getVersion(self) -> int:  # noqa: N802
        return 7002000

    def getCPUModelNames(self, arch: str, flags: int) -> list[str]:  # noqa: N802
        return self.models

    def getLibVersion(self) -> int:  # noqa: N802
        return 9000000

    def getMemoryStats(self, cell: int) -> dict[str, int]:  # noqa: N802
        total = self.memory_mb * KIB
        return {"total": total, "free": total // 2, "buffers": total // 8, "cached": total // 8}

    def listAllDevices(self, flags: int) -> list[CannedDevice]:  # noqa: N802
        return self.devices

    def listAllDomains(self, flags: int) -> list[Any]:  # noqa: N802
        return []

    def baselineCPU(self, cpus: Sequence[str], flags: int) -> str:  # noqa: N802
        if self.expands is None:
            raise libvirt_error("this function is not supported by the connection driver: baselineCPU")
        cpu = ET.fromstring(cpus[0])
        for name in self.expands:
            ET.SubElement(cpu, "feature", name=name)
        return ET.tostring(cpu, encoding="unicode")


def _text(element: ET.Element | None) -> str:
    assert element is not None
    return ET.tostring(element, encoding="unicode")
