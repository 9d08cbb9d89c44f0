"""`minova-manage unexpected`: guests and images that the database does not know, or that are newer than their rows."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.cmd.startup import database
from minova.conductor.unexpected import listing
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.images import adopt_image, remove_image
from minova.conductor.unexpected.listing import UnexpectedItem
from minova.conductor.unexpected.removal import removable_guests, remove, remove_last_copies
from minova.db.engine import Database
from minova.db.recovery import unexpected
from minova.db.schema import require_schema
from minova.log import escaped

_HEAD = (
    "KIND",
    "ID",
    "WHERE",
    "NAME",
    "PROJECT",
    "USER",
    "FLAVOR",
    "IMAGE",
    "ADDRESSES",
    "WHY",
    "POWER",
    "CAN BE ADOPTED",
    "SEEN SINCE",
)


def list_unexpected(conf: cfg.ConfigOpts) -> bool:
    """Prints what hosts and image stores hold. Returns whether there is anything, for the exit code."""
    with _Opened(conf, readonly=True) as db, db.read() as session:
        entries = [*listing.listed(session, conf), *listing.last_copies(session)]
    if conf.command.json:
        print(msgspec.json.format(msgspec.json.encode(entries), indent=2).decode())
    else:
        print(table(entries))
    return bool(entries)


def adopt(conf: cfg.ConfigOpts) -> None:
    """Adopts a guest or an image, or says what it would do. Raises NotFound or Conflict."""
    take_from = conf.command.take_from
    if take_from and (conf.command.on_host is None or len(conf.command.uuids) > 1):
        raise errors.Conflict("--take-from is for one guest on one --host.")
    _apply(conf, partial(_adopt, take_from=take_from), "adopted")


def remove_unexpected(conf: cfg.ConfigOpts) -> None:
    """Decides that a guest or an image is removed, or says what it would do. Raises NotFound or Conflict."""
    _apply(conf, _remove, "to be removed; its host or store is told with its next report")


def _apply(conf: cfg.ConfigOpts, work: Callable[[Session, Any, str, str | None], None], what: str) -> None:
    """Each thing has a transaction of its own, which is rolled back without --apply."""
    command = conf.command
    failed = 0
    with _Opened(conf, readonly=False) as db:
        for uuid in command.uuids:
            try:
                _run(db, work, uuid, command.on_host, apply=command.apply)
            except (errors.NotFound, errors.Conflict) as error:
                failed += 1
                print(f"{uuid}: {escaped(str(error))}")
            else:
                print(f"{uuid}: {what}" if command.apply else f"{uuid}: can be {what}. Run again with --apply")
    if failed:
        raise errors.Conflict(f"{failed} of {len(command.uuids)} were left as they are.")


class _DryRun(Exception):
    """Ends a transaction that shall change nothing."""


def _run(db: Database, work: Any, uuid: str, host: str | None, *, apply: bool) -> None:
    def transaction(session: Session) -> None:
        work(session, db, uuid, host)
        if not apply:
            raise _DryRun

    try:
        db.run(transaction)
    except _DryRun:
        return


def _adopt(session: Session, db: Database, uuid: str, host: str | None, *, take_from: Collection[str]) -> None:
    guests = [guest for guest in unexpected.guests(session, uuid) if host in {None, guest.host}]
    if len(guests) > 1:
        raise errors.Conflict(
            f"Several hosts have it: {', '.join(candidate.host for candidate in guests)}. Choose one with --host."
        )
    if guests:
        Adoption().adopt(session, guests[0], listing.now(), db.now(), take_from=take_from)
    else:
        adopt_image(session, uuid, listing.now())


def _remove(session: Session, db: Database, uuid: str, host: str | None) -> None:
    """Decides about everything that there is of this id on the host, or anywhere: all of it, or nothing if one part is refused."""
    at = listing.now()
    copies = remove_last_copies(session, uuid, host, at, db.now())
    # Without a copy, hosts that report nothing but that they have no guest are said by `remove`.
    if removable_guests(session, uuid, host) or (not copies and unexpected.guests(session, uuid)):
        remove(session, uuid, host, at)
    elif not copies:
        remove_image(session, uuid, at)


def table(entries: Sequence[UnexpectedItem]) -> str:
    if not entries:
        return "Hosts and image stores hold nothing that the database does not know."
    lines = [_HEAD, *(_line(entry) for entry in entries)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _line(entry: UnexpectedItem) -> tuple[str, ...]:
    texts = (
        entry.kind,
        entry.id,
        entry.where,
        entry.name,
        entry.project_id,
        entry.user_id,
        entry.flavor,
        entry.image_id,
        " ".join(entry.addresses),
        entry.why,
        entry.power_state,
        _can_be_adopted(entry),
        entry.seen_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    return tuple(escaped(text) for text in texts)


def _can_be_adopted(entry: UnexpectedItem) -> str:
    if entry.is_to_be_removed:
        return "to be removed"
    if not entry.can_be_adopted:
        return "no"
    return f"only by itself: {'; '.join(entry.doubts)}" if entry.doubts else "yes"


class _Opened:
    def __init__(self, conf: cfg.ConfigOpts, *, readonly: bool) -> None:
        self._db = database.opened(conf, readonly=readonly)

    def __enter__(self) -> Database:
        require_schema(self._db)
        return self._db

    def __exit__(self, *error: object) -> None:
        self._db.close()
