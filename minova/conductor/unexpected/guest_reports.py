"""Reports of hosts about all their guests, compared with the rows.

host: marks of all guests ---> which are newer than their rows, or without a row     (rows in unexpected_guests)
      records of those    ---> their addresses are held; a build that an older database requests again is adopted

The reports change nothing but those rows and held addresses, and the row of such a build.
"""

import logging
from collections.abc import Sequence

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.unexpected_domains import judge
from minova.conductor.tasks.worker import Worker
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.witnesses import ReportNotes
from minova.db.models import UnexpectedGuest
from minova.db.networks import held_ports
from minova.db.recovery import cloud, unexpected
from minova.objects.guest_record import GuestMark, GuestRecord, GuestsAnswer
from minova.objects.removal_rules import WHY, Verdict, too_many

LOG = logging.getLogger(__name__)
_REPORTED = frozenset({Verdict.NO_ROW, Verdict.NEWER, Verdict.MISPLACED})


class GuestReports:
    def __init__(self, conf: cfg.ConfigOpts, worker: Worker) -> None:
        self._conf = conf.conductor
        self._worker = worker
        self._adoption = Adoption()
        self._notes = ReportNotes(worker, cloud.HOST)

    def report(self, host: str, guests: Sequence[GuestMark]) -> GuestsAnswer:
        """Compares the marks of all guests of a host with the rows."""
        with self._worker.db.read() as session:
            found = self._judged(session, host, guests)
            here = {mark.uuid for mark in guests}
            missing = [GuestMark(uuid=uuid, has_domain=False) for uuid in unexpected.without_guest(session, host, here)]
            known = unexpected.guests_on(session, host)
        if known or found or missing:
            marks, found = [*guests, *missing], found | {mark.uuid: Verdict.NO_GUEST for mark in missing}
            known = self._worker.record(lambda session: self._write(session, host, marks, found))
        self._notes.note(host)
        return GuestsAnswer(
            newer=tuple(uuid for uuid, reason in found.items() if reason is Verdict.NEWER),
            wanted=tuple(uuid for uuid, row in known.items() if row.record is None and row.mark.has_record),
            remove=tuple(uuid for uuid, row in known.items() if row.remove_at is not None),
        )

    def _judged(self, session: Session, host: str, guests: Sequence[GuestMark]) -> dict[str, Verdict]:
        """Returns the guests that the database does not expect on the host, and those that wait for their removal."""
        judged = judge(session, host, guests, unexpected.with_unknown_actions(session, guests))
        removable = judged.of(Verdict.REMOVE)
        waits = set(removable) if too_many(len(removable), self._conf.max_automatic_removals) else set()
        return {
            uuid: Verdict.REMOVE if uuid in waits else found
            for uuid, found in judged.verdicts.items()
            if found in _REPORTED or uuid in waits
        }

    def _write(
        self, session: Session, host: str, guests: Sequence[GuestMark], found: dict[str, Verdict]
    ) -> dict[str, UnexpectedGuest]:
        at = self._worker.at()
        known = unexpected.guests_on(session, host)
        gone = known.keys() - found.keys()
        here = {mark.uuid for mark in guests}
        # A guest that an operator has decided to remove stays listed until its host has removed it.
        gone -= {uuid for uuid in gone & here if known[uuid].remove_at is not None}
        unexpected.forget_guests(session, host, gone)
        held_ports.release(session, gone)
        for mark in sorted(guests, key=lambda one: one.uuid):
            if mark.uuid in found:
                if mark.uuid not in known:
                    LOG.warning("Guest %s on host %s is not as expected: %s", mark.uuid, host, WHY[found[mark.uuid]])
                unexpected.note_guest(session, host, mark, found[mark.uuid], at)
        return unexpected.guests_on(session, host)

    def keep(self, host: str, records: Sequence[GuestRecord]) -> None:
        """Stores the records of unexpected guests, and holds their addresses."""
        for record in sorted(records, key=lambda one: one.instance.uuid):
            self._worker.record(lambda session, record=record: self._keep(session, host, record))  # type: ignore[misc]

    def _keep(self, session: Session, host: str, record: GuestRecord) -> None:
        row = unexpected.keep_record(session, host, record)
        if row is None:
            return
        at, uuid = self._worker.at(), record.instance.uuid
        lost = held_ports.hold(session, uuid, record.instance.network_info, at)
        if lost:
            LOG.error("Guest %s on host %s has what another server was given: %s", uuid, host, ", ".join(lost))
        in_safe_mode = self._worker.safe_mode.reason is not None
        if row.reason == Verdict.NEWER.value and not in_safe_mode and self._adoption.is_being_built(session, uuid):
            try:
                with session.begin_nested():
                    self._adoption.adopt(session, row, at, self._worker.now())
            except errors.Conflict as error:
                LOG.warning("Guest %s on host %s is not adopted: %s", uuid, host, error)
            else:
                LOG.warning("The build of instance %s ends: host %s has its guest", uuid, host)
