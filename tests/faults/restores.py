"""What operators do once the database has gone back in time, and what is lost then."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.cmd.commands import recovery
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.listing import UnexpectedItem, now
from minova.conductor.unexpected.removal import remove, remove_last_copies
from minova.db.models import Instance, Task
from minova.db.recovery import unexpected
from minova.db.servers import migrations
from minova.objects.servers.states import PowerState
from minova.objects.unexpected.removal_rules import DomainVerdict
from tests.faults.cloud import Cloud


def have_reported(cloud: Cloud) -> bool:
    return not recovery.find(cloud.db).silent


def recover(cloud: Cloud, without: Sequence[str] = ()) -> None:
    """As `minova-manage recovery --apply`, once all hosts have reported but those that it is to end `without`.

    Servers whose snapshots or catalogue are lost are adopted by themselves before, as by `minova-manage unexpected adopt`. Of a server
    that several hosts report, the last guest is adopted.
    """
    conf = cloud.conf("conductor1")
    remove_arriving(cloud)
    by_itself = [
        thing
        for thing in recovery.find(cloud.db, conf).things
        if thing.kind == "guest" and thing.doubts and not thing.is_to_be_removed
    ]
    last = {thing.id: thing for thing in sorted(by_itself, key=lambda thing: thing.attempt or 0)}
    for thing in last.values():
        cloud.db.run(partial(adopt, cloud, thing))
    findings = recovery.find(cloud.db, conf)
    assert {name for names in findings.silent.values() for name in names} == {*without}, findings.silent
    left = recovery.bring_together(cloud.db, findings, (), conf)
    # A server that was deleted since, while its move waited for a confirmation, is back and has a guest nowhere. It is deleted again.
    assert {*left} <= cloud.delete_asked
    if findings.row.safe_since is not None:
        recovery.end(cloud.db, findings, without, left=left, leave_rest=bool(left))


def remove_arriving(cloud: Cloud) -> None:
    """As `minova-manage unexpected remove`: guests without a record were arriving when the database went back in time."""

    def work(session: Session) -> None:
        for thing in recovery.find(cloud.db).things:
            if thing.kind == "guest" and thing.reason == DomainVerdict.NEWER.value and not _has_record(session, thing):
                remove(session, thing.id, thing.where, now())

    cloud.db.run(work)


def _has_record(session: Session, one: UnexpectedItem) -> bool:
    return any(guest.record is not None for guest in unexpected.guests(session, one.id) if guest.host == one.where)


def adopt(cloud: Cloud, one: UnexpectedItem, session: Session) -> None:
    """An adoption forgets what other hosts have of the server, so this guest may be settled, too."""
    guest = next((guest for guest in unexpected.guests(session, one.id) if guest.host == one.where), None)
    if guest is None:
        return
    hosts = [
        session.scalar(select(Instance.host).where(Instance.uuid == one.id)),
        session.scalar(select(Task.host).where(Task.instance_uuid == one.id)),
    ]
    Adoption().adopt(session, guest, now(), cloud.db.now(), take_from=[*filter(None, hosts)])


def remove_given_up(cloud: Cloud) -> bool:
    """As `minova-manage unexpected remove`: copies that are off, of servers whose later guests were adopted from other hosts. Returns
    whether there were any.
    """

    def work(session: Session) -> bool:
        attempts = {row.uuid: row.attempt for row in session.execute(select(Instance.uuid, Instance.attempt))}
        off = PowerState.SHUTDOWN.name.lower()
        given_up = [
            thing
            for thing in recovery.find(cloud.db).things
            if (thing.reason, thing.power_state) == (DomainVerdict.MISPLACED.value, off)
            and (thing.attempt or 0) < attempts[thing.id]
        ]
        for thing in given_up:
            remove(session, thing.id, thing.where, now())
        return bool(given_up)

    return cloud.db.run(work)


def adopt_newer(cloud: Cloud) -> None:
    """As `minova-manage unexpected adopt` for guests that are newer than their rows: a host whose build was on its way when the database
    went back in time reports its guest after the recovery.
    """
    newer = [
        thing
        for thing in recovery.find(cloud.db).things
        if thing.kind == "guest" and thing.reason == DomainVerdict.NEWER.value
    ]
    for thing in sorted(newer, key=lambda thing: thing.attempt or 0, reverse=True):
        cloud.db.run(partial(adopt, cloud, thing))


def remove_held_copies(cloud: Cloud) -> None:
    """As `minova-manage unexpected remove` for each copy that moves have left and that may be the last one."""

    def work(session: Session) -> None:
        for copy in migrations.last_copies(session):
            remove_last_copies(session, copy.instance_uuid, copy.cleanup_host, now(), cloud.db.now())

    cloud.db.run(work)


def in_transit(cloud: Cloud) -> set[tuple[str, str]]:
    """(host, uuid) of each guest with which something is in progress, which may end it."""
    with cloud.db.read() as session:
        busy = set(session.scalars(select(Task.instance_uuid)))
        busy |= set(session.scalars(select(Instance.uuid).where(Instance.task_state.is_not(None))))
    return {
        (host, domain.uuid) for host in cloud.hosts for domain in cloud.drivers[host].domains() if domain.uuid in busy
    }


def is_lost(violation: str) -> bool:
    """What no host has: a server that was not built yet, and the deletion of a server or port. A deleted server is back without
    its guest, and its users delete it again.
    """
    without_guest = "domains without instance [], instances without domain" in violation
    return without_guest or violation.endswith(("was acknowledged and is lost", "was deleted and is back"))
