"""A source of a move chooses no format in which the destination opens a disk: QEMU would follow the file names in its header."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.errors import GuestSecretMissing, HypervisorError, UnknownDiskFormat
from minova.objects.servers.disk_export import ExportedFile
from minova.virt.libvirt.storage import disk_images, disk_owner
from minova.virt.libvirt.storage.disk_images import BaseImage
from tests.nightly import daily
from tests.security.move_destination import GB, INSTANCE, KEY, MB, Destination, served

ENCRYPTED = msgspec.structs.replace(
    INSTANCE, flavor=msgspec.structs.replace(INSTANCE.flavor, extra_specs={"hw:ephemeral_encryption": "true"})
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"disk of another project".ljust(MB, b"\0"))
    return path


@pytest.fixture
def hostile(tmp_path: Path, victim: Path) -> Path:
    """A qcow2 disk on top of the victim's."""
    return made(tmp_path / "hostile", "-b", str(victim), "-F", "raw")


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    """A qcow2 disk whose data is in another file."""
    return made(tmp_path / "outside", "-o", f"data_file={tmp_path}/secret,data_file_raw=on")


@pytest.fixture
def destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Destination:
    return Destination(tmp_path / "instances", monkeypatch)


def made(path: Path, *options: str) -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options, str(path), "1M"], check=True)
    return path


def encrypted(path: Path, below: Path | None = None) -> Path:
    """An encrypted qcow2 disk, which the driver makes: again, if QEMU could not measure itself."""
    nothing = lambda *_: None  # noqa: E731
    if below is None:
        disk_images.empty(path, MB, nothing, KEY.secret)
    else:
        base = BaseImage(path=below, disk_format="raw", virtual_size=MB)
        disk_images.overlay(path, base, MB, nothing, nothing, KEY.secret)
    return path


def files_of(disk: Path) -> list[str]:
    """Returns the disk and the files below it, as QEMU opens them."""
    command = ["qemu-img", "info", "--backing-chain", "--output=json", "-f", "qcow2", str(disk)]
    return [layer["filename"] for layer in json.loads(subprocess.run(command, check=True, capture_output=True).stdout)]


# -- a guest that runs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["disk", "disk.eph0", "disk.swap", "memory.save", "nvram.fd", "tpm2.0.state"])
def test_a_disk_of_a_running_guest_is_not_fetched(destination: Destination, hostile: Path, name: str) -> None:
    destination.content[name] = hostile
    with pytest.raises(HypervisorError, match=name):
        destination.make({"disk": GB}, served("console.log", 1), served(name, 1), formats={"disk": "qcow2"})
    assert destination.fetched == {}
    assert not destination.folder.exists()


@pytest.mark.parametrize(
    ("name", "written"), [("disk", "vmdk"), ("disk", None), ("disk.swap", "luks"), ("disk.config", "qcow2")]
)
def test_a_domain_with_another_format_is_refused(destination: Destination, name: str, written: str | None) -> None:
    drive = served("disk.config", 1)
    formats = {"disk": "raw", name: written}
    with pytest.raises(HypervisorError, match=rf"{name} in the format {written}"):
        destination.make(
            {"disk": GB, "disk.swap": 32 * MB},
            drive,
            formats={disk_name: kind for disk_name, kind in formats.items() if kind},
        )
    assert destination.fetched == {}


def test_each_disk_of_a_running_guest_has_a_recorded_format(destination: Destination) -> None:
    destination.make({"disk": GB, "disk.swap": 32 * MB}, served("disk.config", 1), served("console.log", 1))
    recorded = {"disk": "raw", "disk.swap": "raw", "disk.config": "raw"}
    assert disk_owner.written_formats(destination.folder) == recorded
    assert (destination.folder / "disk.swap").stat().st_size == 32 * MB


def test_a_target_keeps_the_format_in_which_it_was_made(destination: Destination) -> None:
    destination.make({"disk": GB})
    (destination.folder / "disk").write_bytes(b"QFI\xfb")
    destination.make({"disk": GB}, formats={"disk": "qcow2"})
    assert destination.opened()["disk"] == "raw"


# -- a guest that is off -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "written"), [("disk", "vmdk"), ("disk", None), ("disk.swap", "vmdk"), ("disk.config", "qcow2")]
)
def test_a_disk_in_another_format_is_not_fetched(destination: Destination, name: str, written: str | None) -> None:
    with pytest.raises(HypervisorError, match=name):
        destination.fetch(served("console.log", 1), served(name, 1, format=written))
    assert destination.fetched == {}


def test_a_disk_loses_the_backing_file_of_its_source(destination: Destination, hostile: Path) -> None:
    destination.content["disk"] = hostile
    destination.fetch(served("disk", hostile.stat().st_size, format="qcow2"))
    assert destination.opened()["disk"] == "qcow2"
    assert files_of(destination.folder / "disk") == [str(destination.folder / "disk")]


def test_a_disk_without_a_format_is_raw(destination: Destination, hostile: Path) -> None:
    """Resizes of earlier releases recorded no format of the disks that they added."""
    root = destination.content["disk"] = hostile.with_name("root")
    made(root)
    destination.content["disk.swap"] = hostile
    destination.fetch(served("disk", root.stat().st_size, format="qcow2"), served("disk.swap", 1))
    assert destination.opened() == {"disk": "qcow2", "disk.eph0": "raw", "disk.swap": "raw"}
    recorded = disk_owner.written_formats(destination.folder)
    assert (recorded["disk"], recorded["disk.swap"]) == ("qcow2", "raw")


@pytest.mark.parametrize("written", daily(["qcow2", None], ("qcow2",), "the other form of the same disk"))
def test_a_disk_of_an_encrypted_guest_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_file: Path, victim: Path, written: str | None
) -> None:
    destination = Destination(tmp_path / "instances", monkeypatch, ENCRYPTED)
    destination.content["disk.eph0"] = data_file
    with pytest.raises(UnknownDiskFormat):
        destination.fetch(served("disk.eph0", 1, format=written))
    assert not (destination.folder / "disk.eph0").exists()
    root = destination.content["disk"] = encrypted(tmp_path / "root")
    destination.content["disk.eph0"] = encrypted(tmp_path / "eph0", victim)
    destination.fetch(served("disk", root.stat().st_size, format="qcow2"), served("disk.eph0", 1, format=written))
    assert destination.opened()["disk.eph0"] == "qcow2"
    assert files_of(destination.folder / "disk.eph0") == [str(destination.folder / "disk.eph0")]


@pytest.mark.parametrize(("name", "written"), [("disk", "qcow2"), ("disk", "raw"), ("disk.eph0", None)])
def test_bug_a_plain_disk_ends_the_encryption_of_a_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, written: str | None
) -> None:
    destination = Destination(tmp_path / "instances", monkeypatch, ENCRYPTED)
    destination.content |= {"disk": encrypted(tmp_path / "root"), name: made(tmp_path / "plain")}
    with pytest.raises((HypervisorError, UnknownDiskFormat)):
        destination.fetch(
            *(
                served(disk_name, 1, format="qcow2" if disk_name != name else written)
                for disk_name in destination.content
            )
        )
    assert not (destination.folder / name).exists()


@pytest.mark.parametrize("name", ["disk", "disk.swap"])
def test_bug_a_plain_target_ends_the_encryption_of_a_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    destination = Destination(tmp_path / "instances", monkeypatch, ENCRYPTED)
    with pytest.raises(HypervisorError, match=f"{name} in the format raw"):
        destination.make({"disk": GB, "disk.swap": MB}, formats={"disk": "qcow2", "disk.swap": "qcow2", name: "raw"})
    assert not destination.folder.exists()


def test_plain_disks_of_a_guest_without_a_passphrase_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier release has made them, though the flavor asks for encryption. What the destination adds is plain, too."""
    destination = Destination(tmp_path / "instances", monkeypatch, ENCRYPTED, passphrase=None)
    root = destination.content["disk"] = made(tmp_path / "root")
    destination.content["disk.eph0"] = tmp_path / "eph0"
    destination.content["disk.eph0"].touch()
    destination.fetch(served("disk", root.stat().st_size, format="qcow2"), served("disk.eph0", 1))
    assert destination.opened() == {"disk": "qcow2", "disk.eph0": "raw", "disk.swap": "raw"}
    assert not any(disk.is_encrypted for disk in destination.disks.plan(ENCRYPTED))
    running = Destination(tmp_path / "running", monkeypatch, ENCRYPTED, passphrase=None)
    running.make({"disk": GB, "disk.swap": 32 * MB}, formats={"disk": "raw"})
    assert running.opened()["disk.swap"] == "raw"


def test_no_target_is_plain_if_the_passphrase_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    destination = Destination(tmp_path / "instances", monkeypatch, ENCRYPTED, passphrase=None)
    xml = "<domain><devices><disk><source><encryption><secret/></encryption></source></disk></devices></domain>"
    with pytest.raises(GuestSecretMissing):
        destination.make({"disk": GB}, formats={"disk": "raw"}, xml=xml)
    assert not destination.folder.exists()


def test_a_second_fetch_in_another_format_is_checked_too(destination: Destination, data_file: Path) -> None:
    """The destination records the formats with the first message, and opens the disks so."""
    destination.content["disk"] = data_file
    for written in ("qcow2", "raw"):
        with pytest.raises(UnknownDiskFormat):
            destination.fetch(served("disk", 1, format=written))
    assert not (destination.folder / "disk").exists()


def test_a_file_that_comes_later_has_a_recorded_format_too(
    destination: Destination, data_file: Path, tmp_path: Path
) -> None:
    destination.content["disk.swap"] = data_file
    with pytest.raises(UnknownDiskFormat):
        destination.fetch(served("disk.swap", 1, format="qcow2"))
    root = destination.content["disk"] = made(tmp_path / "root")
    del destination.content["disk.swap"]
    destination.fetch(served("disk", root.stat().st_size, format="qcow2"))
    assert disk_owner.written_formats(destination.folder)["disk"] == "qcow2"


@pytest.mark.parametrize("written", ["vmdk", "", "qcow2\n", "RAW"])
def test_a_message_with_another_format_is_refused(written: str) -> None:
    message: dict[str, Any] = {"name": "disk", "export": "disk", "size": 1, "format": written}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(message, ExportedFile)
    assert msgspec.convert(message | {"format": "raw"}, ExportedFile).format == "raw"
