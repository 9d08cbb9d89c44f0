"""Which user QEMU runs as, and what that user is let in to."""

import os
import stat
from pathlib import Path

import pytest

from minova.errors import InvalidConfiguration
from minova.virt.libvirt.guest_files.qemu_access import QemuAccess, QemuUser, folders_above
from minova.virt.libvirt.inventory.capabilities import parse

QEMU = QemuUser(uid=64055, gid=64056)
XML = "<capabilities><host><cpu><arch>x86_64</arch></cpu>{}</host></capabilities>"
DAC = "<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>{}</baselabel></secmodel>"


@pytest.mark.parametrize(
    ("secmodels", "user"),
    [
        (DAC.format("+64055:+64056"), QEMU),
        ("<secmodel><model>apparmor</model></secmodel>" + DAC.format("+0:+0"), QemuUser(uid=0, gid=0)),
        ("<secmodel><model>none</model></secmodel>", None),
        (DAC.format("libvirt-qemu:kvm"), None),
        ("", None),
    ],
)
def test_libvirt_says_whom_it_runs_qemu_as(secmodels: str, user: QemuUser | None) -> None:
    assert parse(XML.format(secmodels)).qemu_user == user


def test_root_shares_with_the_group_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chowned: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: chowned.append((path, uid, gid)))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "disk").touch(mode=0o600)
    (tmp_path / "base").touch(mode=0o600)
    access = QemuAccess.of(QEMU)
    access.search([tmp_path])
    access.write(tmp_path / "disk")
    access.read(tmp_path / "base")
    assert chowned == [(tmp_path, -1, 64056), (tmp_path / "disk", -1, 64056), (tmp_path / "base", -1, 64056)]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, tmp_path / "disk", tmp_path / "base")]
    assert modes == [0o750, 0o660, 0o640]


@pytest.mark.parametrize("user", [None, QemuUser(uid=os.geteuid(), gid=12345)])
def test_no_group_is_let_in_where_qemu_has_our_user(user: QemuUser | None, tmp_path: Path) -> None:
    (tmp_path / "disk").touch(mode=0o600)
    QemuAccess.of(user).write(tmp_path / "disk")
    status = (tmp_path / "disk").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o600, os.getegid())


def test_a_user_outside_of_the_group_of_qemu_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 998)
    monkeypatch.setattr(os, "getegid", lambda: 998)
    monkeypatch.setattr(os, "getgroups", lambda: [4, 24])
    with pytest.raises(
        InvalidConfiguration, match=r"user 64055 with group 64056. Add the user of minova-compute \(998\)"
    ):
        QemuAccess.of(QEMU)
    monkeypatch.setattr(os, "getgroups", lambda: [4, 24, 64056])
    QemuAccess.of(QEMU)


def test_a_folder_that_cannot_be_shared_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(InvalidConfiguration, match=f"{tmp_path} cannot be shared with QEMU's group 64056"):
        QemuAccess.of(QEMU).search([tmp_path])


def test_the_folders_that_lead_to_the_disks() -> None:
    state = Path("/var/lib/minova")
    assert folders_above(state / "instances", state) == [state, state / "instances"]
    assert folders_above(Path("/srv/instances"), state) == [Path("/srv/instances")]
