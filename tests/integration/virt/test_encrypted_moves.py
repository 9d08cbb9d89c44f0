"""Guests with encrypted disks and a TPM go from host to host: their files stay encrypted, and libvirt forgets their secrets.

`MINOVA_MOVES=all` runs it (tools/check nightly): it needs two boots.
"""

import os
import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path

import libvirt
import msgspec
import pytest

from minova.objects.servers.disk_export import TransferKey
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import RowHost
from tests.cluster import wait_for
from tests.integration.virt.kept_secrets import KeptSecrets
from tests.integration.virt.live_pair import MOVE, Pair, Side, make_pair
from tests.integration.virt.test_encrypted_guests import ENCRYPTED, FLAVOR, WITH_TPM

__all__ = ["make_pair"]
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("MINOVA_MOVES") != "all", reason="nightly: MINOVA_MOVES"),
]


@pytest.fixture
def pair(make_pair: Callable[..., Pair]) -> Pair:
    made = make_pair(swtpm_enabled=True)
    kept = KeptSecrets()
    for side in (made.one, made.two):
        side.driver.use_secrets(kept)
    flavor = msgspec.structs.replace(FLAVOR, swap=16, extra_specs={**ENCRYPTED, **WITH_TPM})
    made.guest = msgspec.structs.replace(made.guest, flavor=flavor)
    return made


def secrets_at(side: Side) -> list[str]:
    connection = libvirt.open(side.libvirtd.uri)
    try:
        found: list[str] = connection.listSecrets()
        return found
    finally:
        connection.close()


def disks(side: Side, pair: Pair) -> list[Path]:
    folder = side.folder / "instances" / pair.guest.uuid
    return [folder / "disk", folder / "disk.swap"]


def opens_without_secret(disk: Path) -> bool:
    command = ["qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read 0 512", str(disk)]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_a_guest_with_secrets_migrates_and_moves(pair: Pair) -> None:
    pair.boot()
    pair.migrate()
    last = pair.one.ticks(pair.guest)[-1]
    pair.finish()
    wait_for("the count to go on", lambda: pair.two.ticks(pair.guest)[-1:] > [last + 10], 60)
    assert not any(map(opens_without_secret, disks(pair.two, pair)))
    assert secrets_at(pair.one) == secrets_at(pair.two) == []

    source, dest = pair.two, pair.one
    source.driver.power_off(pair.guest.uuid)
    state = source.driver.tpm_state(pair.guest)
    assert state is not None
    larger = msgspec.structs.replace(pair.guest, flavor=msgspec.structs.replace(pair.guest.flavor, root_gb=2, swap=32))
    key = TransferKey(identity=MOVE, secret=secrets.token_hex(32))
    export = source.driver.export_disks(pair.guest, MOVE, key)
    dest.driver.import_disks(larger, 3, export, key, dest.image, lambda: None, before=pair.guest.flavor)
    source.driver.stop_export(MOVE)
    dest.driver.define_moved(larger, dest.node, 3)
    source.driver.destroy(pair.guest.uuid, RowHost(host=dest.name))
    assert dest.driver.tpm_state(larger) == state
    assert source.driver.tpm_state(pair.guest) is None
    assert not any(map(opens_without_secret, disks(dest, pair)))
    boots = dest.log(pair.guest).count("MINOVA-GUEST READY")
    assert dest.driver.power_on(larger) is PowerState.RUNNING
    wait_for("READY", lambda: dest.log(pair.guest).count("MINOVA-GUEST READY") > boots, 240)
    assert secrets_at(dest) == []
