"""Guests with encrypted disks and a TPM go from host to host: their files stay encrypted, and libvirt forgets their secrets."""

import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path

import libvirt
import msgspec
import pytest

from minova.errors import HypervisorError
from minova.objects.servers.disk_export import TransferKey
from minova.objects.servers.live_migration import LiveMode
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import RowHost
from tests.integration.virt.kept_secrets import KeptSecrets
from tests.integration.virt.live_pair import MOVE, Pair, Side, ignore, make_pair
from tests.integration.virt.test_encrypted_guests import ENCRYPTED, FLAVOR, WITH_TPM
from tests.waiting import wait_for

__all__ = ["make_pair"]
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.nightly("boots on two hosts; test_encrypted_guests.py has the rules of each host"),
]


def encrypted(made: Pair, specs: dict[str, str]) -> Pair:
    """Both hosts get the secrets from one place."""
    kept = KeptSecrets()
    for side in (made.one, made.two):
        side.driver.use_secrets(kept)
    flavor = msgspec.structs.replace(FLAVOR, swap=16, extra_specs=specs)
    made.guest = msgspec.structs.replace(made.guest, flavor=flavor)
    return made


@pytest.fixture
def pair(make_pair: Callable[..., Pair]) -> Pair:
    return encrypted(make_pair(swtpm_enabled=True), {**ENCRYPTED, **WITH_TPM})


def secrets_at(side: Side) -> list[str]:
    connection = libvirt.open(side.libvirtd.uri)
    try:
        secret_ids: list[str] = connection.listSecrets()
        return secret_ids
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


def test_a_guest_with_secrets_on_shared_disks_migrates_and_is_evacuated(make_pair: Callable[..., Pair]) -> None:
    """Its disk goes on with the same passphrase on the next host, which has made none of it."""
    pair = encrypted(make_pair(shared=True), ENCRYPTED)
    pair.boot()
    destination = pair.prepare()
    assert destination.mode is LiveMode.SHARED
    pair.one.driver.live_migrate(pair.guest, destination, ignore)
    last = pair.two.ticks(pair.guest)[-1]
    pair.finish()
    wait_for("the count to go on", lambda: pair.two.ticks(pair.guest)[-1] > last + 10, 60)
    assert not any(map(opens_without_secret, disks(pair.two, pair)))
    assert secrets_at(pair.one) == secrets_at(pair.two) == []

    dead, next_host = pair.two, pair.one
    with pytest.raises(HypervisorError, match="the guest is not down"):
        next_host.driver.take_over(pair.guest.uuid, 3)
    dead.driver.power_off(pair.guest.uuid)
    assert next_host.driver.take_over(pair.guest.uuid, 3)
    next_host.driver.prepare(pair.guest, next_host.node, 3, None, with_disks=False)
    next_host.driver.power_on(pair.guest)
    wait_for("boot 2", lambda: "MINOVA-GUEST BOOTS 2" in next_host.log(pair.guest), 240)
    assert not any(map(opens_without_secret, disks(next_host, pair)))
    assert secrets_at(next_host) == []
    dead.driver.destroy(pair.guest.uuid, RowHost(host=next_host.name))
    assert next_host.driver.power_state(pair.guest.uuid) is PowerState.RUNNING
