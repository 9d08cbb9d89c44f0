"""The history of the database, as one conductor process guards it: its change counter, what witnesses have seen, and the
cloud's safe mode. See docs/decisions/0045 and 0046.

A reading is part of the transaction that renews the lease, some times a second:

    read the cloud's row -> judge it by what witnesses have seen -> raise the own counter -> (commit) -> learn, or hold
"""

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping

import msgspec
from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from minova.db.recovery import cloud
from minova.objects.hosts import cloud as objects
from minova.objects.hosts.cloud import CloudState, CounterMark, Judgement, WitnessRecord, WitnessVerdict
from minova.safe_mode import SafeMode
from minova.witness import Witness

LOG = logging.getLogger(__name__)
# Seconds for which a contradiction must last before the cloud goes into safe mode for it. Meanwhile this process alone
# changes nothing. A server of a cluster that lags behind another one catches up within this time.
CONFIRM = 3.0
# The names by which this conductor holds its process in safe mode.
_FOREIGN, _DOUBT, _CLOUD = "conductor: another database", "conductor: doubt", "conductor: cloud"
_SETTLED = frozenset({WitnessVerdict.AGREES, WitnessVerdict.PAST, WitnessVerdict.UNSEALED})
# Evidence from other services with these verdicts says nothing about the cloud's database.
_REFUSED = frozenset({WitnessVerdict.UNSEALED, WitnessVerdict.OTHER_CLOUD})
# The verdicts for which nothing at all is written to the database.
_REASONS = {WitnessVerdict.OTHER_CLOUD: objects.OTHER_CLOUD, WitnessVerdict.UNKNOWN: objects.UNKNOWN}


class HistoryReading(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one comparison of the database with the evidence.

    `doubt`: the first contradiction.
    `mark`: what the own counter shows once the transaction is committed.
    `marks`: what all living counters showed.
    `settled`: evidence that needs no further comparison.
    `judged`: by the service that has sent it.
    `unknown_histories`: of this cloud, which witnesses know and the database does not.
    """

    row: cloud.CloudRecord | None
    doubt: Judgement | None = None
    mark: CounterMark | None = None
    marks: tuple[CounterMark, ...] = ()
    settled: tuple[WitnessRecord, ...] = ()
    judged: Mapping[str, Judgement] = {}
    unknown_histories: frozenset[str] = frozenset()

    @property
    def is_foreign(self) -> bool:
        """Returns whether nothing at all may be written to this database."""
        return self.doubt is not None and self.doubt.verdict in _REASONS


class HistoryMonitor:
    """Safe for threads. `host`: of this conductor. `ticks`: seconds, monotonic."""

    def __init__(
        self, host: str, safe_mode: SafeMode, witness: Witness | None = None, *, ticks: Callable[[], float]
    ) -> None:
        self._host = host
        self._safe_mode = safe_mode
        self._witness = witness or Witness(None)
        self._ticks = ticks
        self._lock = threading.Lock()
        self._row: cloud.CloudRecord | None = None
        self._counter: str | None = None
        self._mark: CounterMark | None = None
        self._marks: tuple[CounterMark, ...] = ()
        self._tried = 0
        self._doubted_at: float | None = None
        # Evidence that is still to be compared with the database, by the service that has seen it.
        self._evidence: dict[str, WitnessRecord] = {}
        self._known: dict[str, int] = {}
        # Services whose last evidence no conductor of this cloud has sealed.
        self._refused: set[str] = set()
        self._own_name = f"conductor {host}"
        if self._witness.seen is not None:
            self._evidence[self._own_name] = self._witness.seen

    # -- the reading --------------------------------------------------------------------------------------------------

    def read(self, session: Session, now: ColumnElement[float]) -> HistoryReading:
        """Compares the database with all evidence. Writes nothing."""
        pending = self._pending()
        # After the evidence: a counter that was raised meanwhile must not look lost.
        row, marks = cloud.record_and_marks(session, now)
        judged = {sender: self._judge(session, record, row, marks) for sender, record in pending.items()}
        doubts = {sender: judgement for sender, judgement in judged.items() if self._is_doubt(sender, judgement)}
        doubt = Judgement(verdict=WitnessVerdict.UNKNOWN) if row is None else None
        if doubts:
            sender = min(doubts)
            doubt = Judgement(verdict=doubts[sender].verdict, details=f"{sender}: {doubts[sender].details}")
        lost = {
            pending[sender].history for sender, judgement in doubts.items() if judgement.verdict is WitnessVerdict.LOST
        }
        return HistoryReading(
            row=row,
            doubt=doubt,
            marks=marks,
            settled=tuple(pending[sender] for sender in judged.keys() - doubts.keys()),
            judged=judged,
            unknown_histories=frozenset(lost - {row.history if row is not None else ""}),
        )

    def write(self, session: Session, reading: HistoryReading, now: ColumnElement[float]) -> HistoryReading:
        """Raises the own counter. Begins safe mode if a doubt has lasted."""
        assert reading.row is not None
        doubt, mark = reading.doubt, self._count(session, reading.row, now)
        if mark is None and doubt is None:
            details = f"conductor {self._host}: the database has lost the number of its own change counter"
            doubt = Judgement(verdict=WitnessVerdict.LOST, details=details)
        if doubt is not None and reading.row.safe_since is None and self._has_lasted():
            cloud.begin_safe_mode(session, objects.LOST, doubt.details, now)
            reading = msgspec.structs.replace(reading, row=cloud.record(session, now))
        if reading.row is not None and reading.row.safe_since is not None:
            cloud.note_histories(session, reading.unknown_histories, now)
        return msgspec.structs.replace(reading, doubt=doubt, mark=mark)

    def apply(self, reading: HistoryReading) -> None:
        """Takes in what a reading has found, once its transaction is committed."""
        with self._lock:
            self._row = reading.row
            self._note_doubt(reading)
            self._settle(reading)
            if reading.mark is not None:
                self._mark = reading.mark
            own = () if reading.mark is None else (reading.mark,)
            self._marks = (*own, *(mark for mark in reading.marks if mark.counter != self._counter))
        self._hold(reading)
        for sender, judgement in reading.judged.items():
            self._note_refusal(sender, judgement)
        state = self.state
        if state is not None and state.safe_mode is None:
            self._witness.learn(state, self._ticks())

    @property
    def state(self) -> CloudState | None:
        """Returns what this conductor tells to services; None before its first reading."""
        with self._lock:  # the seals of the marks are those of the row's history
            row, marks = self._row, self._marks
        if row is None:
            return None
        # Reasons that another service of the process holds do not count: this conductor may have told them to it.
        reason = self._safe_mode.reason_of(_FOREIGN, _CLOUD, _DOUBT)
        return CloudState(uuid=row.uuid, history=row.history, marks=marks, safe_mode=reason)

    @property
    def row(self) -> cloud.CloudRecord | None:
        """Returns the cloud's row as the last reading has found it."""
        return self._row

    @property
    def is_foreign(self) -> bool:
        """Returns whether the database is not that of this conductor's cloud: nothing may be written to it."""
        return self._safe_mode.is_held(_FOREIGN)

    # -- what witnesses have seen ----------------------------------------------------------------------------------

    def hear(self, sender: str, seen: WitnessRecord) -> None:
        """Compare this with the database at the next reading, unless the database is known to hold as much."""
        with self._lock:
            row = self._row
            is_known = all(self._known.get(mark.counter, -1) >= mark.number for mark in seen.marks)
            if row is None or not is_known or (seen.uuid, seen.history) != (row.uuid, row.history):
                self._evidence[sender] = seen

    def compare(self, session: Session, sender: str, seen: WitnessRecord, now: ColumnElement[float]) -> Judgement:
        """Compare this with the database now. A contradiction holds this process until the next reading has judged it
        again. Evidence that no conductor has sealed, or that is of another cloud, holds nothing.
        """
        judgement = self._judge(session, seen, cloud.record(session, now))
        self._note_refusal(sender, judgement)
        if judgement.verdict is WitnessVerdict.LOST:
            self.hear(sender, seen)
            self._safe_mode.hold(_DOUBT, objects.LOST, f"{sender}: {judgement.details}")
        return judgement

    # -- inside ----------------------------------------------------------------------------------------------------

    def _pending(self) -> Mapping[str, WitnessRecord]:
        """Returns all evidence. This conductor's own identity is compared at each reading: the database may be exchanged. The
        newest mark proves its history.
        """
        with self._lock:
            pending, own = dict(self._evidence), self._witness.seen
        if own is not None:
            pending.setdefault(self._own_name, msgspec.structs.replace(own, marks=objects.newest_mark(own)))
        return pending

    def _is_doubt(self, sender: str, judgement: Judgement) -> bool:
        """Returns whether this contradicts the database. Only the conductor's own file shows that it
        is another cloud's: any host can name another cloud.
        """
        if judgement.verdict is WitnessVerdict.OTHER_CLOUD:
            return sender == self._own_name
        return judgement.verdict not in _SETTLED

    def _note_refusal(self, sender: str, judgement: Judgement) -> None:
        """Logs once for each sender that its evidence does not count, until it sends other evidence. A conductor that
        is at another cloud's database itself blames no other process.
        """
        is_refused = judgement.verdict in _REFUSED and not self.is_foreign
        with self._lock:
            is_new = is_refused and sender not in self._refused
            (self._refused.add if is_refused else self._refused.discard)(sender)
        if is_new:
            LOG.warning(
                "What %s has seen of its cloud is no evidence of lost changes: %s. If its file was not damaged, the host may be "
                "compromised; see docs/security.md",
                sender,
                "it names another cloud" if judgement.verdict is WitnessVerdict.OTHER_CLOUD else judgement.details,
            )

    @staticmethod
    def _judge(
        session: Session, seen: WitnessRecord, row: cloud.CloudRecord | None, marks: Collection[CounterMark] = ()
    ) -> Judgement:
        return objects.judge(seen, cloud.shown_to(session, seen, row, marks))

    def _count(self, session: Session, row: cloud.CloudRecord, now: ColumnElement[float]) -> CounterMark | None:
        """Returns None if the database has lost the counter's number. A commit whose answer is lost may have raised the
        counter, so it may show any number that was tried.
        """
        counter, mark = self._counter, self._mark
        if counter is None or mark is None:
            self._counter, self._tried = str(uuid.uuid4()), 1
            cloud.begin_counting(session, self._counter, self._host, now)
            return row.sealed(CounterMark(counter=self._counter, number=1, at=row.now))
        self._tried += 1
        if not cloud.count(session, counter, seen=mark.number, number=self._tried, now=now):
            return None
        return row.sealed(CounterMark(counter=counter, number=self._tried, at=row.now))

    def _has_lasted(self) -> bool:
        return self._doubted_at is not None and self._ticks() - self._doubted_at >= CONFIRM

    def _note_doubt(self, reading: HistoryReading) -> None:
        if reading.doubt is None:
            self._doubted_at = None
            return
        self._known = {}
        if self._doubted_at is None:
            self._doubted_at = self._ticks()
        if reading.mark is None and reading.row is not None and reading.row.safe_since is not None:
            # The counter is lost for good: the next reading begins another one.
            self._counter = self._mark = None

    def _settle(self, reading: HistoryReading) -> None:
        for record in reading.settled:
            self._evidence = {sender: evidence for sender, evidence in self._evidence.items() if evidence is not record}
            if reading.row is not None and record.history == reading.row.history and reading.doubt is None:
                proven = objects.proven_marks(record, reading.row.key)
                self._known.update({mark.counter: mark.number for mark in proven})
        if reading.mark is not None:
            self._known[reading.mark.counter] = reading.mark.number

    def _hold(self, reading: HistoryReading) -> None:
        """Holds safe mode on for what was found before it releases anything, so that there is no gap."""
        doubt, row = reading.doubt, reading.row
        if reading.is_foreign and doubt is not None:
            self._safe_mode.hold(_FOREIGN, _REASONS[doubt.verdict], doubt.details)
            return
        if row is not None and row.safe_since is not None:
            self._safe_mode.hold(_CLOUD, row.safe_reason or objects.LOST, row.safe_details or "")
        elif doubt is not None:
            self._safe_mode.hold(_DOUBT, objects.LOST, doubt.details)
        self._safe_mode.release(_FOREIGN)
        if row is not None and row.safe_since is None:
            self._safe_mode.release(_CLOUD)
        if doubt is None or (row is not None and row.safe_since is not None):
            self._safe_mode.release(_DOUBT)
