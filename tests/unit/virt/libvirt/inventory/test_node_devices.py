"""libvirt's XML of node devices, cut down to what counts, of machines that exist."""

from minova.virt.libvirt.inventory.node_devices import parse

PCI = """
<device><name>{name}</name><parent>pci_0000_00_01_1</parent>
  <capability type='pci'><domain>0</domain><bus>{bus}</bus><slot>{slot}</slot><function>{function}</function>
    <product id='0x{product}'>x</product><vendor id='0x{vendor}'>y</vendor>{more}</capability></device>"""
PF_CAP = "<capability type='virt_functions' maxCount='7'><address domain='0x0000' bus='0x0a' slot='0x02' function='0x1'/></capability>"
VF_CAP = (
    "<capability type='phys_function'><address domain='0x0000' bus='0x0a' slot='0x00' function='0x0'/></capability>"
)
MDEV = """<capability type='mdev_types'><type id='nvidia-222'><name>GRID T4-1B</name><deviceAPI>vfio-pci</deviceAPI>
  <availableInstances>16</availableInstances></type><type id='nvidia-223'><availableInstances>8</availableInstances></type></capability>"""
NET = "<device><name>net_{name}</name><parent>{parent}</parent><capability type='net'><interface>{name}</interface></capability></device>"


def pci(name: str, bus: int, slot: int, function: int, ids: str, more: str = "") -> str:
    vendor, product = ids.split(":")
    return PCI.format(name=name, bus=bus, slot=slot, function=function, vendor=vendor, product=product, more=more)


def test_a_network_card_with_virtual_functions() -> None:
    parsed = parse(
        [
            NET.format(name="ens1", parent="pf"),
            pci("vf", 10, 2, 1, "8086:154c", VF_CAP + "<numa node='1'/>"),
            pci("pf", 10, 0, 0, "8086:1572", PF_CAP + "<numa node='1'/>"),
        ]
    )
    (pf, name), (vf, vf_name) = parsed.devices
    assert (pf.address, pf.dev_type, pf.numa_node, pf.parent_addr, name) == ("0000:0a:00.0", "type-PF", 1, None, "ens1")
    assert (vf.address, vf.dev_type, vf.parent_addr, vf_name) == ("0000:0a:02.1", "type-VF", "0000:0a:00.0", None)
    assert (vf.vendor_id, vf.product_id, vf.label) == ("8086", "154c", "label_8086_154c")


def test_a_gpu_with_mediated_devices_and_no_numa() -> None:
    parsed = parse([pci("gpu", 59, 0, 0, "10de:1eb8", MDEV + "<numa node='-1'/>")])
    assert parsed.mdev_types == {"gpu": {"nvidia-222": 16, "nvidia-223": 8}}
    ((gpu, _),) = parsed.devices
    assert (gpu.dev_type, gpu.numa_node) == ("type-PCI", None)


def test_mediated_devices_that_were_made_count_beside_those_that_may_be() -> None:
    mdev_xml = "<device><name>mdev_1</name><parent>gpu</parent><capability type='mdev'><type id='nvidia-222'/></capability></device>"
    assert parse([mdev_xml, pci("gpu", 59, 0, 0, "10de:1eb8", MDEV)]).mdev_types == {
        "gpu": {"nvidia-222": 17, "nvidia-223": 8}
    }


def test_a_vdpa_device_is_told_of_its_virtual_function() -> None:
    above = "<device><name>vdpa0</name><parent>vf</parent><capability type='vdpa'/></device>"
    ((device, _),) = parse([above, pci("vf", 10, 2, 1, "15b3:101e", VF_CAP)]).devices
    assert (device.dev_type, device.parent_addr) == ("vdpa", "0000:0a:00.0")


def test_what_says_too_little_is_left_out_and_named() -> None:
    odd = "<device><name>odd</name><capability type='pci'><domain>0</domain></capability></device>"
    mdev = "<device><name>half</name><capability type='mdev'/></device>"
    others = ["<device><name>computer</name></device>", "<device>"]
    parsed = parse([odd, pci("gpu", 59, 0, 0, "10de:1eb8"), mdev, *others])
    assert parsed.odd[:2] == ["odd", "half"]
    assert parsed.odd[2].startswith("a device whose XML cannot be read (")
    assert len(parsed.odd) == 3
    assert [device.address for device, _ in parsed.devices] == ["0000:3b:00.0"]
