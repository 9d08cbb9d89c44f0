"""A domain that another host has sent, with a guest's memory, uses nothing of this host but what this guest has here."""

from xml.etree import ElementTree as ET

import pytest

from minova.errors import HypervisorError
from minova.virt.libvirt.xml.migration_xml import migrated_xml
from tests.unit.virt.libvirt.xml.test_migration_xml import UUID, domain, running

QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
NVRAM = f"/var/lib/libvirt/qemu/nvram/instance-{UUID}_VARS.fd"
UEFI = "<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader>"


def hostile(parent: str, *added: str) -> str:
    root = ET.fromstring(running(domain("hv1", 1, 1)))
    element = root.find(parent)
    assert element is not None
    for xml in added:
        element.append(ET.fromstring(xml))
    return ET.tostring(root, encoding="unicode")


def own() -> str:
    return domain("hv2", 2, 2)


@pytest.mark.parametrize(
    ("parent", "added"),
    [
        ("devices", "<disk type='block' device='disk'><source dev='/dev/sda'/><target dev='vdz' bus='virtio'/></disk>"),
        ("devices", "<disk type='file' device='disk'><source file='/other/disk2'/><target dev='vdz'/></disk>"),
        # Twice the guest's own disk.
        ("devices", "<disk type='file' device='disk'><source file='/other/guest/disk'/><target dev='vdz'/></disk>"),
        ("devices", "<filesystem type='mount'><source dir='/'/><target dir='root'/></filesystem>"),
        (
            "devices",
            "<interface type='bridge'><mac address='fa:16:3e:00:00:99'/><source bridge='br-mgmt'/></interface>",
        ),
        ("devices", "<interface type='direct'><source dev='eth0' mode='passthrough'/></interface>"),
        ("devices", "<hostdev mode='subsystem' type='pci'><source><address bus='0x01'/></source></hostdev>"),
        ("devices", "<serial type='dev'><source path='/dev/sda'/></serial>"),
        ("devices", "<parallel type='dev'><source path='/dev/sda'/></parallel>"),
        ("devices", "<console type='file'><source path='/etc/cron.d/x'/><target type='virtio'/></console>"),
        (
            "devices",
            "<channel type='unix'><source mode='bind' path='/run/x'/><target type='virtio' name='x'/></channel>",
        ),
        ("devices", "<input type='evdev'><source dev='/dev/input/event0'/></input>"),
        ("devices", "<input type='passthrough' bus='virtio'><source evdev='/dev/input/event0'/></input>"),
        ("devices", "<rng model='virtio'><backend model='random'>/dev/sda</backend></rng>"),
        ("devices", "<tpm model='tpm-tis'><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>"),
        ("devices", "<memory model='nvdimm'><source><path>/dev/sda</path></source></memory>"),
        ("devices", "<shmem name='x'/>"),
        ("devices", "<vsock model='virtio'/>"),
        ("devices", "<redirdev bus='usb' type='tcp'/>"),
        ("devices", "<smartcard mode='host'/>"),
        ("devices", "<watchdog model='i6300esb' action='dump'/>"),
        ("devices", "<device-of-the-future/>"),
        ("devices", f"<commandline xmlns='{QEMU}'/>"),
        (".", f"<commandline xmlns='{QEMU}'><arg value='-device'/></commandline>"),
        (".", f"<override xmlns='{QEMU}'/>"),
        (".", "<iothreads>4096</iothreads>"),
        (".", "<bootloader>/bin/sh</bootloader>"),
        ("os", "<kernel>/etc/shadow</kernel>"),
        ("os", "<initrd>/etc/shadow</initrd>"),
        ("os", "<acpi><table type='slic'>/etc/shadow</table></acpi>"),
        ("os", "<loader readonly='yes' type='pflash'>/dev/sda</loader>"),
        ("os", "<loader readonly='yes' type='pflash'>/usr/share/../../dev/sda</loader>"),
        ("os", "<nvram>/etc/shadow</nvram>"),
        ("os", "<nvram type='block'><source dev='/dev/sda'/></nvram>"),
        ("os", f"<nvram template='/etc/shadow'>{NVRAM}</nvram>"),
        # Its content comes from the source, too, and may name files in its header.
        ("os", f"<nvram format='qcow2'>{NVRAM}</nvram>"),
        ("sysinfo", "<device-of-the-future/>"),
        ("features", "<feature-of-the-future/>"),
    ],
)
def test_what_this_guest_does_not_have_is_refused(parent: str, added: str) -> None:
    with pytest.raises(HypervisorError, match="this guest does not have"):
        migrated_xml(hostile(parent, added), own())


def test_files_of_the_host_do_not_become_strings_of_firmware() -> None:
    source = running(domain("hv1", 1, 1)).replace('<sysinfo type="smbios">', '<sysinfo type="fwcfg">')
    with pytest.raises(HypervisorError, match="sysinfo fwcfg"):
        migrated_xml(source, own())


@pytest.mark.parametrize(
    ("parent", "added"),
    [
        ("devices", "<emulator>/tmp/evil</emulator>"),
        ("devices", "<audio id='1' type='file' path='/evil'/>"),
        ("devices", "<graphics type='vnc' socket='/evil' listen='evil'/>"),
        ("devices", "<console type='file'><source path='/evil'/><target type='serial'/></console>"),
        (".", "<seclabel type='static' model='dac'><label>evil</label></seclabel>"),
        (".", "<resource><partition>/evil</partition></resource>"),
        (".", "<memoryBacking><source type='evil'/></memoryBacking>"),
        (".", "<on_crash>evil-dump</on_crash>"),
        ("cpu", "<numa><cell id='0' cpus='0' memory='evil'/></numa>"),
        ("devices/disk", "<source file='/evil' index='1'/>"),
        ("devices/disk", "<backingStore type='block'><source dev='/evil'/></backingStore>"),
        ("devices/disk", "<mirror type='file' file='/evil'/>"),
        ("devices/disk", "<auth username='evil'/>"),
        ("devices/interface", "<script path='/evil'/>"),
        ("devices/interface", "<rom file='/evil'/>"),
        ("devices/interface", "<backend tap='/evil' vhost='/evil'/>"),
        ("devices/serial", "<log file='/evil'/>"),
        ("devices/memballoon", "<evil/>"),
        ("devices", "<video><model type='virtio'><acceleration rendernode='/evil'/></model></video>"),
        ("devices", "<video><driver name='vhostuser-evil'/><model type='virtio'/></video>"),
        ("devices", "<controller type='scsi'><driver iothread='evil'/></controller>"),
    ],
)
def test_what_the_source_says_of_its_host_is_not_taken(parent: str, added: str) -> None:
    assert "evil" not in migrated_xml(hostile(parent, added), own())


def test_a_disk_is_opened_in_the_format_that_this_host_has_written() -> None:
    source = running(domain("hv1", 1, 1)).replace('type="raw"', 'type="qcow2"').replace('type="file"', 'type="block"')
    migrated = ET.fromstring(migrated_xml(source, own()))
    assert [disk.get("type") for disk in migrated.findall("devices/disk")] == ["file", "file"]
    assert [driver.get("type") for driver in migrated.findall("devices/disk/driver")] == ["qcow2", "raw"]


def test_the_size_of_the_guest_is_that_of_its_flavor() -> None:
    source = running(domain("hv1", 1, 1)).replace(">262144<", ">999999999<").replace(">2</vcpu>", ">64</vcpu>")
    migrated = ET.fromstring(migrated_xml(source, own()))
    assert (migrated.findtext("memory"), migrated.findtext("vcpu")) == ("262144", "2")


def test_firmware_that_libvirt_has_chosen_comes_along() -> None:
    nvram = f"<nvram template='/usr/share/OVMF/OVMF_VARS_4M.fd'>{NVRAM}</nvram>"
    migrated = ET.fromstring(migrated_xml(hostile("os", UEFI, nvram), own()))
    assert migrated.findtext("os/loader") == "/usr/share/OVMF/OVMF_CODE_4M.fd"
    assert migrated.findtext("os/nvram") == NVRAM
