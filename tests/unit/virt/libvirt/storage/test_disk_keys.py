"""How qemu-img gets the passphrase of a disk, and what happens if it cannot measure itself."""

import os

import pytest

from minova.errors import HypervisorError
from minova.virt.libvirt.storage.disk_keys import PLAIN, making, opened


def test_a_passphrase_is_in_a_file_without_a_name_alone() -> None:
    with opened("the passphrase") as key:
        (handle,) = key.inherited
        assert os.pread(handle, 100, 0) == b"the passphrase"
        words = [*key.making, *key.opening("qcow2"), key.name.format("/disk")]
        assert "the passphrase" not in " ".join(words)
        assert f"secret,id=key,file=/proc/self/fd/{handle}" in words
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)
    with opened(None) as key:
        assert (key, key.making, key.opening("raw"), key.name.format("/disk")) == (PLAIN, [], ["-f", "raw"], "/disk")


def test_bug_a_disk_failed_because_qemu_had_used_no_cpu_yet() -> None:
    answers = ["qemu-img: Unable to get accurate CPU usage", "qemu-img: Unable to get accurate CPU usage"]
    tried = []

    def make() -> None:
        tried.append(1)
        if answers:
            raise HypervisorError(answers.pop())

    making(make)
    assert len(tried) == 3
    answers += ["no space"]
    with pytest.raises(HypervisorError, match="no space"):
        making(make)
