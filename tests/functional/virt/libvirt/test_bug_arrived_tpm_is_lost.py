"""A cold move whose start has failed had brought the guest's TPM, firmware variables and saved memory. The hard reboot that starts the
guest afterwards left them aside, and its success removed the source's copy.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import libvirt
import pytest

from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.migration import arrivals, libvirt_files
from tests.functional.virt.libvirt.test_driver import instance

FILES = ("nvram.fd.3", "tpm2.0.state.3", "memory.save.3")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What libvirt was given."""
    kept: dict[str, bytes] = {}
    write = lambda connection, kind, name, path: kept.update({kind.suffix: path.read_bytes()})  # noqa: E731
    monkeypatch.setattr(libvirt_files, "write", write)
    monkeypatch.setattr(
        tpm_files, "write", lambda connection, uuid, version, state: kept.update({f"tpm {version}": state})
    )
    monkeypatch.setattr(arrivals, "tpm_version_of", lambda xml: "2.0")
    return kept


@pytest.fixture
def moved(driver: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Instance:
    """Its files have come, and its row names this host, but it was never defined here."""
    monkeypatch.setattr(driver, "_real", True)
    guest = instance(node="n", attempt=3, host="hv1")
    folder = tmp_path / "instances" / guest.uuid
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_bytes(name.encode())
    return guest


def test_a_hard_reboot_gives_the_guest_what_has_come(
    driver: Any, moved: Instance, given: dict[str, bytes], tmp_path: Path
) -> None:
    for _ in range(2):
        assert driver.hard_reboot(moved) is PowerState.RUNNING
        # Its user has given up the memory with the reboot.
        assert given == {"_VARS.fd": b"nvram.fd.3", "tpm 2.0": b"tpm2.0.state.3"}
        assert not [name for name in FILES if (tmp_path / "instances" / moved.uuid / name).exists()]


def test_files_of_another_attempt_are_not_the_guests(driver: Any, moved: Instance, given: dict[str, bytes]) -> None:
    driver.hard_reboot(instance(uuid=moved.uuid, node="n", attempt=4, host="hv1"))
    assert given == {}


def test_a_guest_that_is_made_anew_gets_nothing_of_the_former_one(tmp_path: Path) -> None:
    for name in (*FILES, "disk", "nvram.fd"):
        (tmp_path / name).touch()
    arrivals.forget(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "nvram.fd"]


class Domain:
    """Restored with its memory, by a process that has ended before it was saved again; `uses`: started from it since."""

    def __init__(self) -> None:
        self.saved: list[int] = []

    def isActive(self) -> bool:  # noqa: N802
        return not self.saved

    def managedSave(self, flags: int) -> None:  # noqa: N802
        self.saved.append(flags)


@pytest.mark.parametrize("left", [True, False])
def test_memory_that_an_interrupted_process_has_restored_is_saved_again(tmp_path: Path, left: bool) -> None:
    """Otherwise the guest stood still for ever. One that runs has used its memory, whose file is gone."""
    domain, memory = Domain(), tmp_path / "memory.save.3"
    if left:
        memory.touch()
    secrets: Any = SimpleNamespace()
    arrivals.give(None, domain, "", tmp_path, 3, secrets)
    assert domain.saved == ([libvirt.VIR_DOMAIN_SAVE_RUNNING] if left else [])
    assert not memory.exists()
