"""A backup is restored that knows a real guest's move as open, which its owner has ended since: the guest's only disk stays, whatever is
asked of the move.

tests/faults/test_bug_last_copy_removed_after_restore.py is for each day.
"""

from collections.abc import Callable
from pathlib import Path

import libvirt
import pytest
from sqlalchemy import select

from minova.cmd.commands import recovery
from minova.db.models import InstanceAction
from tests import backups
from tests.integration.virt.moving_cloud import MovingCloud, MovingGuest, moving_cloud
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.nightly(
        "two hosts and minutes of moves; tests/faults/test_bug_guests_die_of_a_restored_database.py has its rules"
    ),
]
CONTROLLERS = ("api", "scheduler", "conductor")


def restore(cloud: MovingCloud, backup: Path, file: Path) -> None:
    """Afterwards safe mode has ended, and the operator has adopted nothing."""
    services = cloud.deployment.services
    for name in CONTROLLERS:
        services[name].stop()
    backups.restore(backup, file)
    for name in reversed(CONTROLLERS):
        services[name].start()

    def reported() -> recovery.RecoveryState | None:
        findings_now = recovery.find(cloud.database)
        return (
            findings_now
            if findings_now.row.safe_since is not None and findings_now.things and not findings_now.silent
            else None
        )

    findings = wait_for("safe mode and the reports of the hosts", reported, 240)
    assert findings is not None
    recovery.end(cloud.database, findings, (), left=["the move"], leave_rest=True)
    wait_for("the end of safe mode", lambda: "safe mode" not in cloud.cli("server", "list", check=False), 120)


def message(guest: MovingGuest) -> str:
    """Of the newest action."""
    with guest.cloud.database.read() as session:
        messages = select(InstanceAction.message).where(InstanceAction.instance_uuid == guest.uuid)
        return session.scalar(messages.order_by(InstanceAction.id.desc()).limit(1)) or ""


def require_refused(guest: MovingGuest, host: str, *action: str) -> None:
    """Nothing is removed: the guest runs on at this host from the disk that it had, and its move stays open."""
    cloud, life = guest.cloud, guest.lives(host)[-1]
    cloud.cli("server", *action, guest.uuid)
    wait_for("the refusal", lambda: guest.is_at_rest() and "has none" in message(guest), 120)
    assert (guest.row.vm_state, cloud.migration(guest.uuid).status) == ("resized", "finished")
    assert {name: each.states() for name, each in cloud.hosts.items()} == {
        host: {guest.uuid: libvirt.VIR_DOMAIN_RUNNING},
        cloud.other(host): {},
    }
    assert {each.name for each in cloud.hosts.values() if (each.folder / guest.uuid / "disk").exists()} == {host}
    wait_for("the count to go on", lambda: guest.lives(host)[-1].ticks > life.ticks + 10, 90)
    assert guest.lives(host)[-1].boot == life.boot


def test_the_only_disk_stays_when_a_backup_knows_an_open_move(
    tmp_path: Path, fresh_rabbit_url: Callable[[], str], guest_image: Path
) -> None:
    file, backup = tmp_path / "minova.sqlite", tmp_path / "backup.sqlite"
    with moving_cloud(tmp_path, fresh_rabbit_url(), f"sqlite:///{file}", guest_image) as cloud:
        guest = cloud.boot()
        source = guest.host
        cloud.cli("server", "migrate", "--wait", guest.uuid)
        guest.require_booted(2)
        backups.take(file, backup)
        cloud.cli("server", "migration", "confirm", guest.uuid)
        wait_for("the source's copy to go", lambda: guest.is_only(cloud.other(source)), 120)

        restore(cloud, backup, file)
        require_refused(guest, cloud.other(source), "resize", "revert")
        cloud.cli("server", "migration", "confirm", guest.uuid)
        wait_for("nothing to be left", lambda: guest.is_only(cloud.other(source)), 120)
        guest.require_only(cloud.other(source))

        # The other way: it was reverted since, and is to be confirmed.
        cloud.cli("server", "migrate", "--wait", guest.uuid)
        guest.require_booted(3)
        backups.take(file, backup)
        cloud.cli("server", "resize", "revert", guest.uuid)
        wait_for("the guest to be back", lambda: guest.is_only(cloud.other(source)), 120)

        restore(cloud, backup, file)
        require_refused(guest, cloud.other(source), "migration", "confirm")
