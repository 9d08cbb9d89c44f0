"""Reports of hosts about all their guests, compared with the rows.

host: marks of all guests ---> which are newer than their rows, or without a row     (rows in unexpected_guests)
      records of those    ---> their addresses are held; a build that an older database requests again is adopted

The reports change nothing but those rows and held addresses, and the row of such a build.
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.hosts.unexpected_domains import JudgedDomains, judge
from minova.conductor.tasks.worker import TaskWorker
from minova.conductor.unexpected import built_guests, handed_over, strays
from minova.conductor.unexpected.checks import record_is_valid, require_marks
from minova.conductor.unexpected.warnings import warn_of_some
from minova.conductor.unexpected.witnesses import ReportNotes
from minova.context import RequestContext
from minova.contracts.conductor.computes.guests import GuestReportsApi
from minova.db.models import UnexpectedGuest
from minova.db.networks import held_ports
from minova.db.recovery import cloud, report_order, unexpected
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord, GuestsAnswer
from minova.objects.unexpected.removal_rules import WHY, DomainRow, DomainVerdict, too_many

LOG = logging.getLogger(__name__)
_REPORTED = frozenset({DomainVerdict.NO_ROW, DomainVerdict.NEWER, DomainVerdict.MISPLACED, DomainVerdict.STRAY})


class GuestReports(GuestReportsApi):
    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker, liveness: Liveness) -> None:
        self._conf = conf.conductor
        self._worker = worker
        self._liveness = liveness
        self._notes = ReportNotes(worker, cloud.HOST)
        self._said: set[tuple[str, str]] = set()

    def report_guests(
        self, ctx: RequestContext, host: str, guests: Sequence[GuestMark], number: int = 0
    ) -> GuestsAnswer:
        """See `report_order` for the order of reports."""
        require_marks(guests)
        hosts = self._liveness.hosts()
        with self._worker.db.read() as session:
            rows = unexpected.guests_on(session, host)
            judged = self._judged(session, host, guests, rows)
            verdicts = self._reported(judged)
            expected = frozenset(mark.uuid for mark in guests) - judged.verdicts.keys()
            to_resume = handed_over.to_resume(
                session,
                host,
                [guest for guest in guests if guest.uuid in expected],
                judged.rows,
                hosts,
                self._worker.history.row,
            )
            reported_uuids = {mark.uuid for mark in guests}
            missing = dict.fromkeys(unexpected.without_guest(session, host, reported_uuids), DomainVerdict.NO_GUEST)
            missing |= dict.fromkeys(unexpected.without_copy(session, host, reported_uuids), DomainVerdict.NO_COPY)
            records, most = unexpected.records_on(session, host), held_ports.most_guests(session, host)
        is_latest = True
        marks = [*guests, *(GuestMark(uuid=uuid, has_domain=False) for uuid in missing)]
        verdicts |= missing
        if verdicts.keys() - rows.keys():
            self._worker.db.require_room()
        # In safe mode the note below counts, so that it must not come from an old report.
        if rows or verdicts or self._worker.safe_mode.reason is not None:
            is_latest, rows = self._worker.record(
                lambda session: self._write_in_order(session, ctx, host, marks, verdicts, judged.rows, expected, number)
            )
        if is_latest:
            self._notes.note(host)
        is_settled = self._worker.safe_mode.reason is None
        return GuestsAnswer(
            newer=tuple(uuid for uuid, reason in verdicts.items() if reason is DomainVerdict.NEWER),
            wanted=tuple(
                uuid
                for uuid, row in rows.items()
                if row.record is None and row.mark.has_record and row.reason != DomainVerdict.STRAY.value
            )
            if records < most
            else (),
            remove=tuple(uuid for uuid, row in rows.items() if row.remove_at is not None and uuid not in expected),
            # Until all hosts have reported, nothing is known to be older than its row.
            pause=_to_pause(judged, hosts.present) if is_settled else (),
            resume=to_resume if is_settled else (),
        )

    def _judged(
        self, session: Session, host: str, guests: Sequence[GuestMark], listed: Mapping[str, UnexpectedGuest]
    ) -> JudgedDomains:
        stray = {uuid for uuid, row in listed.items() if row.reason == DomainVerdict.STRAY.value}
        return judge(session, host, guests, unexpected.with_unknown_actions(session, guests), strays=stray)

    def _reported(self, judged: JudgedDomains) -> dict[str, DomainVerdict]:
        """Returns the guests that the database does not expect on the host, with those that wait for their removal."""
        removable = judged.of(DomainVerdict.REMOVE)
        waits = set(removable) if too_many(len(removable), self._conf.max_automatic_removals) else set()
        return {
            uuid: DomainVerdict.REMOVE if uuid in waits else verdict
            for uuid, verdict in judged.verdicts.items()
            if verdict in _REPORTED or uuid in waits
        }

    def _write_in_order(
        self,
        session: Session,
        ctx: RequestContext,
        host: str,
        guests: Sequence[GuestMark],
        verdicts: dict[str, DomainVerdict],
        judged_rows: Mapping[str, DomainRow],
        expected: frozenset[str],
        number: int,
    ) -> tuple[bool, dict[str, UnexpectedGuest]]:
        """Returns whether the report was the latest, and the rows of the host."""
        if not report_order.is_next(session, host, ctx.process, number):
            LOG.info("A late report of host %s about its guests is ignored", host)
            return False, unexpected.guests_on(session, host)
        return True, self._write(session, host, guests, verdicts, judged_rows, expected)

    def _write(
        self,
        session: Session,
        host: str,
        guests: Sequence[GuestMark],
        verdicts: dict[str, DomainVerdict],
        judged_rows: Mapping[str, DomainRow],
        expected: frozenset[str],
    ) -> dict[str, UnexpectedGuest]:
        at = self._worker.at()
        rows = unexpected.guests_on(session, host)
        absent_uuids = rows.keys() - verdicts.keys()
        reported_uuids = {mark.uuid for mark in guests}
        # A guest that an operator has decided to remove stays listed until its host has removed it, unless its server has come
        # to this host since: then the decision is over.
        absent_uuids -= {
            uuid for uuid in (absent_uuids & reported_uuids) - expected if rows[uuid].remove_at is not None
        }
        # Two hosts may report at the same moment that they do not have a guest any more: the second one frees its addresses.
        held_ports.lock(session, absent_uuids)
        unexpected.forget_guests(session, host, absent_uuids)
        held_ports.release(session, absent_uuids - unexpected.reported_elsewhere(session, host, absent_uuids))
        new = {f"{uuid} ({WHY[reason]})" for uuid, reason in verdicts.items() if uuid not in rows}
        warn_of_some("Guests on host %s are not as expected: %s", host, new)
        new_strays = {
            uuid
            for uuid, reason in verdicts.items()
            if reason is DomainVerdict.STRAY and (uuid not in rows or rows[uuid].reason != reason.value)
        }
        strays.record(session, host, {uuid: judged_rows[uuid].attempt for uuid in new_strays}, at)
        for mark in sorted(guests, key=lambda guest: guest.uuid):
            if mark.uuid in verdicts:
                unexpected.note_guest(session, host, mark, verdicts[mark.uuid], at)
        return unexpected.guests_on(session, host)

    def report_guest_records(
        self, ctx: RequestContext, host: str, records: Sequence[GuestRecord], number: int = 0
    ) -> None:
        self._worker.db.require_room()
        if not self._worker.record(lambda session: report_order.is_next(session, host, ctx.process, number)):
            LOG.info("Late records of host %s are ignored", host)
            return
        valid = {record.instance.uuid: record for record in records if record_is_valid(record)}
        if len(valid) < len(records):
            self._say_once(host, "Host %s sends records of guests that are not valid: they are left out")
        for _, record in sorted(valid.items()):
            self._worker.record(lambda session, record=record: self._keep(session, host, record))  # type: ignore[misc]

    def _keep(self, session: Session, host: str, record: GuestRecord) -> None:
        if not self._has_room(session, host, record):
            return
        row = unexpected.keep_record(session, host, record)
        if row is None:
            return
        at, uuid = self._worker.at(), record.instance.uuid
        lost_addresses = held_ports.hold(session, uuid, record.instance.network_info, at, host)
        if lost_addresses:
            LOG.error(
                "Guest %s on host %s has what another server was given: %s", uuid, host, ", ".join(lost_addresses)
            )
        in_safe_mode = self._worker.safe_mode.reason is not None
        if row.reason == DomainVerdict.NEWER.value and not in_safe_mode and built_guests.is_being_built(session, uuid):
            self._end_build(session, row)

    def end_builds(self, session: Session, uuids: Collection[str]) -> set[str]:
        """Ends the builds of those of these instances whose guests exist already, by reports that came in safe mode. Returns
        them. The caller has locked instances and tasks.
        """
        return {
            row.uuid
            for row in unexpected.records_of(session, uuids)
            if row.reason == DomainVerdict.NEWER.value and self._end_build(session, row)
        }

    def _end_build(self, session: Session, row: UnexpectedGuest) -> bool:
        """Returns whether the build has ended. If not, an operator must decide about the guest."""
        uuid, host = row.uuid, row.host
        try:
            with session.begin_nested():
                built_guests.keep(session, row, self._worker.at(), self._worker.now())
        except errors.Conflict as error:
            LOG.warning("Guest %s on host %s is left to an operator: %s", uuid, host, error)
            return False
        LOG.warning("The build of instance %s ends: host %s has its guest", uuid, host)
        return True

    def _has_room(self, session: Session, host: str, record: GuestRecord) -> bool:
        """Whether the host may have one more record stored, and its addresses held."""
        uuid = record.instance.uuid
        row = session.get(UnexpectedGuest, (host, uuid))
        others = unexpected.records_on(session, host) - (row is not None and row.record is not None)
        has_room = others < held_ports.most_guests(session, host) and held_ports.has_room(
            session, host, uuid, record.instance.network_info
        )
        if not has_room:
            self._say_once(
                host,
                "Host %s reports more unexpected guests or addresses than its nodes can have: the rest of them are listed, "
                "and their addresses are not held",
            )
        return has_room

    def _say_once(self, host: str, text: str) -> None:
        if (host, text) not in self._said:
            self._said.add((host, text))
            LOG.error(text, host)


def _to_pause(judged: JudgedDomains, present: Collection[str]) -> tuple[str, ...]:
    """A guest that no move has left here is paused only if the row's host has reported lately. Otherwise its own guest may not run."""
    return tuple(
        uuid
        for uuid in judged.to_pause
        if judged.verdicts.get(uuid) is not DomainVerdict.MISPLACED or judged.rows[uuid].host in present
    )
