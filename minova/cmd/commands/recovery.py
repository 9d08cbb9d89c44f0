"""`minova-manage recovery`: brings the database together with what hosts and image stores hold, and ends safe mode."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.cmd.commands.unexpected import escaped, table
from minova.cmd.startup import database
from minova.conductor.hosts.witnesses import silent
from minova.conductor.unexpected import doubts, listing
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.images import adopt_image, remove_image
from minova.conductor.unexpected.listing import Unexpected
from minova.conductor.unexpected.removal import remove
from minova.db.engine import Database
from minova.db.models import UnexpectedGuest
from minova.db.recovery import cloud, unexpected
from minova.db.recovery.cloud import Record
from minova.db.schema import require_schema
from minova.objects.unexpected.removal_rules import Verdict


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a recovery has before it.

    `silent`: hosts and image stores, by kind, that have not reported what they hold since safe mode began.
    `things`: guests and images that the database does not know, or that are newer than their rows.
    """

    row: Record
    silent: dict[str, tuple[str, ...]]
    things: tuple[Unexpected, ...]

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
        found = find(db, conf)
        print(described(found))
        if not command.apply:
            return not found.is_nothing
        _require_reports(found, command.without)
        _require_listed(found, command.remove)
        left = bring_together(db, found, command.remove, conf)
        end(db, found, command.without, left=left, leave_rest=command.leave_rest)
    finally:
        db.close()
    return False


def find(db: Database, conf: cfg.ConfigOpts | None = None) -> Found:
    """`conf`: of quotas; None: the things are without doubts. Raises Conflict if the database has no identity."""
    with db.read() as session:
        row = cloud.record(session, db.now())
        if row is None:
            raise errors.Conflict("The database holds no identity of a cloud: is a dump being imported?")
        things = tuple(one for one in listing.listed(session, conf) if one.reason != Verdict.NO_GUEST.value)
        return Found(row=row, silent=silent(session, row), things=things)


def described(found: Found) -> str:
    """Returns the text of a dry run."""
    row = found.row
    lines = [f"Cloud {row.uuid}, history {row.history}"]
    if row.safe_since is None:
        lines.append("The cloud is not in safe mode.")
    else:
        seconds = max(0.0, row.now - row.safe_since)
        lines.append(f"The cloud has been in safe mode for {seconds:.0f} s: {row.safe_reason} ({row.safe_details}).")
        lines += [f"No report yet of {kind} {name}" for kind, names in sorted(found.silent.items()) for name in names]
    lines.append(table(found.things))
    return "\n".join(lines)


def _require_reports(found: Found, without: Collection[str]) -> None:
    missing = [name for names in found.silent.values() for name in names if name not in without]
    if missing and found.row.safe_since is not None:
        raise errors.Conflict(
            f"Nothing was changed: {', '.join(missing)} have not reported what they hold. Start them and wait for a minute, or "
            "name those that are gone with --without-host."
        )


def _require_listed(found: Found, uuids: Collection[str]) -> None:
    unknown = sorted(set(uuids) - {one.id for one in found.things})
    if unknown:
        raise errors.NotFound(f"Nothing was changed: neither a host nor an image store reports {', '.join(unknown)}.")


def bring_together(db: Database, found: Found, to_remove: Collection[str], conf: cfg.ConfigOpts) -> list[str]:
    """Adopts or removes each thing in a transaction of its own; images first, since guests are of them. Returns the ids
    of those that are left as they are.
    """
    left = []
    for one in sorted(found.things, key=lambda thing: thing.kind != "image"):
        if one.is_to_be_removed:
            continue
        work, what = (_removal(one), "to be removed") if one.id in to_remove else (_adoption(one, db, conf), "adopted")
        try:
            db.run(work)
        except (errors.NotFound, errors.Conflict) as error:
            left.append(one.id)
            print(f"{escaped(one.id)}: left as it is: {escaped(str(error))}")
        else:
            print(f"{escaped(one.id)}: {what}")
    return left


def _adoption(one: Unexpected, db: Database, conf: cfg.ConfigOpts) -> Callable[[Session], None]:
    def adopt(session: Session) -> None:
        at = datetime.now(UTC).replace(tzinfo=None)
        if one.kind == "image":
            adopt_image(session, one.id, at)
            return
        for guest in unexpected.guests(session, one.id):
            if guest.host == one.where:
                _require_no_doubts(session, conf, guest)
                Adoption().adopt(session, guest, at, db.now())

    return adopt


def _require_no_doubts(session: Session, conf: cfg.ConfigOpts, guest: UnexpectedGuest) -> None:
    found = doubts.of(session, conf, guest)
    if found:
        raise errors.Conflict(
            f"{'; '.join(found)}. If it is genuine, run minova-manage unexpected adopt {guest.uuid} --host {guest.host} --apply"
        )


def _removal(one: Unexpected) -> Callable[[Session], None]:
    def work(session: Session) -> None:
        at = datetime.now(UTC).replace(tzinfo=None)
        if one.kind == "image":
            remove_image(session, one.id, at)
        else:
            remove(session, one.id, one.where, at)

    return work


def end(db: Database, found: Found, without: Sequence[str], *, left: Sequence[str], leave_rest: bool) -> None:
    """Ends safe mode. Raises Conflict if some things are left as they are, unless `leave_rest`."""
    if left and not leave_rest:
        raise errors.Conflict(
            f"{len(left)} of {len(found.things)} are left as they are, and safe mode stays on. Remove them with --remove, or end "
            "safe mode all the same with --leave-rest."
        )
    ended = db.run(lambda session: cloud.end_safe_mode(session, found.row, db.now(), forced=True, without=without))
    if not ended:
        raise errors.Conflict("Safe mode has ended or begun anew meanwhile. Run this command again.")
    print("Safe mode ends within a few seconds." if found.row.safe_since is not None else "Accepted.")
