"""What QEMU's programs find in the folder with the key of a move."""

import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.objects.servers.disk_export import TransferKey
from minova.virt.libvirt.migration.transfer_key import make_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = make_folder(TransferKey(identity="move", secret="0" * 64), as_nobody=False)
    yield folder
    shutil.rmtree(folder)


def test_the_key_is_for_its_owner_alone(folder: Path) -> None:
    assert (folder / "keys.psk").read_text() == f"move:{'0' * 64}\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "keys.psk")] == [0o700, 0o600]


def rfc7919_prime() -> int:
    """ffdhe2048 by its definition: 2^2048 - 2^1984 + ([2^1918 * e] + 560316) * 2^64 - 1."""
    scale, e, term, number = 1 << 2100, 0, 1 << 2100, 1
    while term:
        e, term, number = e + term, term // number, number + 1
    return 2**2048 - 2**1984 + ((e * 2**1918) // scale + 560316) * 2**64 - 1


def test_bug_each_server_looks_for_a_prime_of_its_own(folder: Path) -> None:
    """QEMU does that for up to some seconds, if it does not find a group."""
    command = ["openssl", "asn1parse", "-in", str(folder / "dh-params.pem")]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    prime, generator = (int(line.rpartition(":")[2], 16) for line in shown.splitlines() if "INTEGER" in line)
    assert (prime, generator) == (rfc7919_prime(), 2)
