"""A reader of the database that watches whose it is, and whether it has lost changes: APIs and schedulers."""

import logging
import time
from collections.abc import Callable, Collection

from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.recovery import cloud
from minova.db.recovery.cloud import CloudRecord
from minova.objects.hosts.cloud import (
    LOST,
    OTHER_CLOUD,
    UNKNOWN,
    CloudState,
    CounterMark,
    Judgement,
    WitnessRecord,
    WitnessVerdict,
    judge,
)
from minova.safe_mode import SafeMode
from minova.witness import Witness

LOG = logging.getLogger(__name__)
# Seconds between two looks.
INTERVAL = 1.0
_REASONS = {
    WitnessVerdict.LOST: LOST,
    WitnessVerdict.PAST: LOST,
    WitnessVerdict.OTHER_CLOUD: OTHER_CLOUD,
    WitnessVerdict.UNKNOWN: UNKNOWN,
}


class CloudWatch:
    """`name`: of the service, such as "api".
    `tell`: gets what this service has seen when the database shows less, so that conductors begin safe mode.
    `is_known`: whether all that the service holds is known to the history of this row; asked if safe mode has ended
    without it.
    `learn`: gets the identity of the service's cloud.
    `ticks`: seconds, monotonic.
    """

    def __init__(
        self,
        name: str,
        db: Database,
        safe_mode: SafeMode,
        witness: Witness,
        *,
        tell: Callable[[WitnessRecord], None] = lambda seen: None,
        is_known: Callable[[Session, CloudRecord], bool] = lambda session, row: True,
        learn: Callable[[str], None] = lambda uuid: None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._safe_mode = safe_mode
        self._witness = witness
        self._tell = tell
        self._is_known = is_known
        self._learn = learn
        self._ticks = ticks
        self._is_unsealed = False
        if witness.seen is not None:
            learn(witness.seen.uuid)
        self._doubt, self._cloud = f"{name}: database", f"{name}: cloud"

    @property
    def seen(self) -> WitnessRecord | None:
        return self._witness.seen

    def run(self) -> None:
        """Holds safe mode on, or releases it. Raises ServiceUnavailable if the database does not answer."""
        with self._db.read() as session:
            # Before the read: a counter that was raised meanwhile must not look lost.
            seen = self._witness.seen
            row, marks = cloud.record_and_marks(session, self._db.now())
            judgement = self._judge(session, seen, row, marks)
        if row is not None and row.safe_since is not None:
            self._safe_mode.hold(self._cloud, row.safe_reason or LOST, row.safe_details or "")
        if judgement.verdict is WitnessVerdict.AGREES:
            self._safe_mode.release(self._doubt)
        else:
            self._safe_mode.hold(self._doubt, _REASONS[judgement.verdict], judgement.details)
        if row is not None and row.safe_since is None:
            self._safe_mode.release(self._cloud)
        if judgement.verdict is WitnessVerdict.LOST and seen is not None:
            self._tell(seen)
        if row is not None and row.safe_since is None and judgement.verdict is WitnessVerdict.AGREES:
            self._learn(row.uuid)
            self._witness.learn(CloudState(uuid=row.uuid, history=row.history, marks=marks), self._ticks())

    def _judge(
        self, session: Session, seen: WitnessRecord | None, row: CloudRecord | None, marks: Collection[CounterMark]
    ) -> Judgement:
        if seen is None:
            return Judgement(verdict=WitnessVerdict.AGREES if row is not None else WitnessVerdict.UNKNOWN)
        judgement = judge(seen, cloud.shown_to(session, seen, row, marks))
        self._note_seals(judgement)
        is_past = judgement.verdict is WitnessVerdict.PAST and row is not None
        if judgement.verdict is WitnessVerdict.UNSEALED or (
            is_past and row is not None and self._is_known(session, row)
        ):
            return Judgement(verdict=WitnessVerdict.AGREES)
        return judgement

    def _note_seals(self, judgement: Judgement) -> None:
        """A file in which something was changed shows no loss; and one that was written before there was a conductor has no
        mark.
        """
        is_unsealed = judgement.verdict is WitnessVerdict.UNSEALED
        if is_unsealed and not self._is_unsealed and self._witness.seen is not None and self._witness.seen.marks:
            LOG.warning("What this service has kept of its cloud is no evidence: %s", judgement.details)
        self._is_unsealed = is_unsealed
