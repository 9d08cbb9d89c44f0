"""`minova-manage recovery`: brings the database together with what hosts and image stores hold, and ends safe mode."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.cmd.commands.unexpected import table
from minova.cmd.startup import database
from minova.conductor.hosts.witnesses import silent
from minova.conductor.unexpected import doubts, listing
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.images import adopt_image, remove_image
from minova.conductor.unexpected.listing import UnexpectedItem
from minova.conductor.unexpected.removal import remove
from minova.db.engine import Database
from minova.db.models import UnexpectedGuest
from minova.db.recovery import cloud
from minova.db.recovery.cloud import CloudRecord
from minova.db.schema import require_schema
from minova.log import escaped
from minova.objects.unexpected.removal_rules import DomainVerdict

# Of these the database lacks nothing.
_KNOWN = frozenset({DomainVerdict.NO_GUEST.value, DomainVerdict.STRAY.value})


class RecoveryState(msgspec.Struct, frozen=True, kw_only=True):
    """The guests and images that a recovery has still to settle.

    `silent`: hosts and image stores, by kind, that have not reported what they hold since safe mode began.
    `things`: guests and images that the database does not know, or that are newer than their rows.
    """

    row: CloudRecord
    silent: dict[str, tuple[str, ...]]
    things: tuple[UnexpectedItem, ...]

    @property
    def is_nothing(self) -> bool:
        return self.row.safe_since is None and not self.things


def run(conf: cfg.ConfigOpts) -> bool:
    """Prints what a recovery does; with --apply, does it. Returns whether something is left to do, for the exit code.

    Raises Conflict if hosts or image stores have not reported, or some things are neither adopted nor removed; then
    safe mode stays on.
    """
    command = conf.command
    db = database.opened(conf, readonly=not command.apply)
    try:
        require_schema(db)
        recovery = find(db, conf)
        print(described(recovery))
        if not command.apply:
            return not recovery.is_nothing
        _require_reports(recovery, command.without)
        _require_listed(recovery, command.remove)
        undecided = bring_together(db, recovery, command.remove, conf)
        end(db, recovery, command.without, left=undecided, leave_rest=command.leave_rest)
    finally:
        db.close()
    return False


def find(db: Database, conf: cfg.ConfigOpts | None = None) -> RecoveryState:
    """`conf`: of quotas; None: the things are without doubts. Raises Conflict if the database has no identity."""
    with db.read() as session:
        row = cloud.record(session, db.now())
        if row is None:
            raise errors.Conflict("The database holds no identity of a cloud: is a dump being imported?")
        things = tuple(entry for entry in listing.listed(session, conf) if entry.reason not in _KNOWN)
        return RecoveryState(row=row, silent=silent(session, row), things=things)


def described(recovery: RecoveryState) -> str:
    """Returns the text of a dry run."""
    row = recovery.row
    lines = [f"Cloud {row.uuid}, history {row.history}"]
    if row.safe_since is None:
        lines.append("The cloud is not in safe mode.")
    else:
        seconds = max(0.0, row.now - row.safe_since)
        lines.append(f"The cloud has been in safe mode for {seconds:.0f} s: {row.safe_reason} ({row.safe_details}).")
        lines += [
            f"No report yet of {kind} {name}" for kind, names in sorted(recovery.silent.items()) for name in names
        ]
    lines.append(table(recovery.things))
    return "\n".join(lines)


def _require_reports(recovery: RecoveryState, without: Collection[str]) -> None:
    missing = [name for names in recovery.silent.values() for name in names if name not in without]
    if missing and recovery.row.safe_since is not None:
        raise errors.Conflict(
            f"Nothing was changed: {', '.join(missing)} have not reported what they hold. Start them and wait for a minute, or "
            "name those that are gone with --without-host."
        )


def _require_listed(recovery: RecoveryState, uuids: Collection[str]) -> None:
    unknown = sorted(set(uuids) - {entry.id for entry in recovery.things})
    if unknown:
        raise errors.NotFound(f"Nothing was changed: neither a host nor an image store reports {', '.join(unknown)}.")


def bring_together(
    db: Database, recovery: RecoveryState, to_remove: Collection[str], conf: cfg.ConfigOpts
) -> list[str]:
    """Adopts or removes each thing in a transaction of its own; images first, since guests are of them. The sources of moves
    that have no copy come last: the adoption of the guest at the destination settles them, too. Returns the ids of those
    that are left as they are.
    """
    undecided = []
    for entry in sorted(
        recovery.things, key=lambda thing: (thing.kind != "image", thing.reason == DomainVerdict.NO_COPY.value)
    ):
        if entry.is_to_be_removed:
            continue
        work, what = (
            (_removal(entry), "to be removed") if entry.id in to_remove else (_adoption(entry, db, conf), "adopted")
        )
        try:
            db.run(work)
        except (errors.NotFound, errors.Conflict) as error:
            undecided.append(entry.id)
            print(f"{escaped(entry.id)}: left as it is: {escaped(str(error))}")
        else:
            print(f"{escaped(entry.id)}: {what}")
    return undecided


def _adoption(entry: UnexpectedItem, db: Database, conf: cfg.ConfigOpts) -> Callable[[Session], None]:
    def adopt(session: Session) -> None:
        at = datetime.now(UTC).replace(tzinfo=None)
        if entry.kind == "image":
            adopt_image(session, entry.id, at)
            return
        # An adoption forgets the entries of other hosts, so this one may be gone, too: then it is settled.
        if (guest := session.get(UnexpectedGuest, (entry.where, entry.id))) is not None:
            _require_no_doubts(session, conf, guest)
            Adoption().adopt(session, guest, at, db.now())

    return adopt


def _require_no_doubts(session: Session, conf: cfg.ConfigOpts, guest: UnexpectedGuest) -> None:
    guest_doubts = doubts.of(session, conf, guest)
    if guest_doubts:
        # Without a record nothing can be adopted.
        way = (
            "it is genuine, run minova-manage unexpected adopt"
            if guest.record
            else "its server is elsewhere, run minova-manage unexpected remove"
        )
        raise errors.Conflict(f"{'; '.join(guest_doubts)}. If {way} {guest.uuid} --host {guest.host} --apply")


def _removal(entry: UnexpectedItem) -> Callable[[Session], None]:
    def work(session: Session) -> None:
        at = datetime.now(UTC).replace(tzinfo=None)
        if entry.kind == "image":
            remove_image(session, entry.id, at)
        else:
            remove(session, entry.id, entry.where, at)

    return work


def end(
    db: Database, recovery: RecoveryState, without: Sequence[str], *, left: Sequence[str], leave_rest: bool
) -> None:
    """Ends safe mode. Without safe mode, accepts what is left: the present history ends only for that, since services change nothing
    until they have reported in the new one.

    Raises Conflict if some things are left as they are, unless `leave_rest`.
    """
    if left and not leave_rest:
        raise errors.Conflict(
            f"{len(left)} of {len(recovery.things)} are left as they are, and safe mode stays on. Remove them with --remove, or end "
            "safe mode all the same with --leave-rest."
        )
    if find(db).is_nothing:
        print("Nothing is left to do.")
        return
    ended = db.run(lambda session: cloud.end_safe_mode(session, recovery.row, db.now(), forced=True, without=without))
    if not ended:
        raise errors.Conflict("Safe mode has ended or begun anew meanwhile. Run this command again.")
    print("Safe mode ends within a few seconds." if recovery.row.safe_since is not None else "Accepted.")
