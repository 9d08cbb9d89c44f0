"""A reader of the feed `host_changes`: the nodes that have changed since its last reading. It misses no change.

The cost of a reading grows with the rows that are new, not with the numbers that are unused (see `feed_gaps`). A reading
with `every_gap` sees all that is committed; another one may see a change later whose transaction took its number more than
two seconds before the reader could see it: a claim decided without it is refused by the database, and a "no" is never said
without it.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import bindparam, func, or_, select
from sqlalchemy.orm import Session

from minova.db.models import HostChange
from minova.scheduler.refresh.feed_gaps import MAX_RANGES, Gaps, Ranges

LOG = logging.getLogger(__name__)

# Numbers looked back over for gaps when the table is read whole.
LOOK_BACK = 10_000
# So many known numbers are counted first, and read only where one is new among them.
COUNT_FIRST = 500

_IN_RANGES = or_(
    *(HostChange.seq.between(bindparam(f"first_{at}"), bindparam(f"last_{at}")) for at in range(MAX_RANGES))
)
_ROWS = select(HostChange.seq, HostChange.node_id)
_NEW = _ROWS.where(HostChange.seq >= bindparam("last"))
_NEW_AND_RANGES = _ROWS.where(or_(HostChange.seq >= bindparam("last"), _IN_RANGES))
_COUNT = select(func.count()).select_from(HostChange).where(_IN_RANGES)
_NEWEST = select(HostChange.seq).order_by(HostChange.seq.desc()).limit(LOOK_BACK)


class ChangeFeed:
    """Not safe for threads. `clock`: seconds; it never runs backwards."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.gaps = Gaps()
        self._clock = clock
        self._last = 0

    def restart(self, session: Session) -> None:
        """Go on from the newest row. All hosts must be read after this."""
        numbers = session.scalars(_NEWEST).all()[::-1]
        self.gaps = Gaps()
        self._last = numbers[0] - 1 if numbers else 0
        if self._last and len(numbers) < LOOK_BACK:
            self.gaps.add(1, self._last, self._clock())  # trimmed, all but those that are yet to be committed
        self._advance(numbers)

    def read(self, session: Session, *, every_gap: bool = False) -> set[int] | None:
        """Ids of the nodes that have changed; None: rows were trimmed that were not read, so that all must be read.

        After an error it is as if it had not been asked.
        """
        now = self._clock()
        rows = self._rows(session, self.gaps.to_ask(now, every=every_gap))
        # The last one seen is read again: as long as it is there, no row after it has been trimmed.
        if not (self._last in rows if self._last else min(rows, default=1) == 1):
            LOG.info("The feed of host changes was trimmed past %d; reading every host", self._last)
            return None
        late = self.gaps.fill(number for number in rows if number < self._last)
        new = sorted(number for number in rows if number > self._last)
        if every_gap:
            self.gaps.expire(now)
        self._advance(new)
        return {rows[number] for number in (*late, *new)}

    def _rows(self, session: Session, ranges: Ranges) -> dict[int, int]:
        """Node ids by number: of all rows from the last one seen on, and of these ranges if a number has appeared there."""
        values = {"last": self._last}
        if not ranges.pairs:
            return _by_number(session.execute(_NEW, values))
        # Always as many parameters: one statement, prepared once.
        padded = [*ranges.pairs, *[(1, 0)] * (MAX_RANGES - len(ranges.pairs))]
        within = {f"first_{at}": first for at, (first, _) in enumerate(padded)}
        within |= {f"last_{at}": last for at, (_, last) in enumerate(padded)}
        if ranges.known > COUNT_FIRST and session.scalar(_COUNT, within) == ranges.known:
            return _by_number(session.execute(_NEW, values))
        return _by_number(session.execute(_NEW_AND_RANGES, values | within))

    def _advance(self, numbers: Iterable[int]) -> None:
        """Move on to the last of these; those skipped on the way may yet appear."""
        now = self._clock()
        for number in numbers:
            if number > self._last + 1:
                self.gaps.add(self._last + 1, number - 1, now)
            self._last = number


def _by_number(rows: Iterable[Any]) -> dict[int, int]:
    return {row.seq: row.node_id for row in rows}
