"""A rescued guest gets its root disk when its rescue system has booted."""

from xml.etree import ElementTree as ET

import pytest

from minova.errors import HypervisorError
from minova.virt.libvirt.xml.broken_disk import disk_beside, has_disk, is_agent_connected
from minova.virt.libvirt.xml.disk_xml import Disk

RESCUE = Disk(path="/i/u/disk.rescue", driver_format="qcow2")
ROOT = Disk(path="/i/u/disk", driver_format="raw")
RUNNING = """<domain><devices>
<disk type="file" device="disk"><driver name="qemu" type="qcow2" cache="none"/><source file="/i/u/disk.rescue" index="2"/>
<backingStore type="file"><source file="/i/_base/a"/></backingStore><target dev="vda" bus="virtio"/><boot order="1"/>
<iotune><read_iops_sec>7</read_iops_sec></iotune><alias name="virtio-disk0"/><address type="pci" slot="0x04"/></disk>
<disk type="file" device="disk"><source file="/i/u/disk.config"/><target dev="vdb" bus="virtio"/></disk>
<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0" state="disconnected"/></channel>
</devices></domain>"""


def test_the_root_disk_is_as_the_rescue_disk_on_the_next_place() -> None:
    disk = ET.fromstring(disk_beside(RUNNING, RESCUE, ROOT))
    assert {child.tag for child in disk} == {"driver", "source", "target", "iotune"}
    element_by_tag = {tag: disk.find(tag) for tag in ("driver", "source", "target")}
    assert {tag: child.attrib for tag, child in element_by_tag.items() if child is not None} == {
        "driver": {"name": "qemu", "type": "raw", "cache": "none"},
        "source": {"file": "/i/u/disk"},
        "target": {"dev": "vdc", "bus": "virtio"},
    }


def test_which_disks_a_guest_has_and_whether_its_agent_is_there() -> None:
    assert has_disk(RUNNING, RESCUE.path)
    assert not has_disk(RUNNING, ROOT.path)
    assert not is_agent_connected(RUNNING)
    assert is_agent_connected(RUNNING.replace('"disconnected"', '"connected"'))
    with pytest.raises(HypervisorError, match=r"disk\.rescue"):
        disk_beside("<domain><devices/></domain>", RESCUE, ROOT)
