"""A reader of the feed `host_changes`: returns the nodes that have changed since its last read. It misses no change.

The cost of a read grows with the number of new rows, not with the number of gaps (see `feed_gaps`). A read with
`every_gap` sees everything that is committed. Another read may see a change late if its transaction took its number
more than two seconds before the change became visible. The database refuses a claim that was decided without such a
change, and no request is rejected without a read of every gap.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import bindparam, func, or_, select
from sqlalchemy.orm import Session

from minova.db.models import HostChange
from minova.scheduler.refresh.feed_gaps import MAX_RANGES, Gaps, Ranges

LOG = logging.getLogger(__name__)

# How many numbers back the reader looks for gaps when the whole table is read.
LOOK_BACK = 10_000
# With more known numbers than this, they are counted first, and read only if there is a new one among them.
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
    """Not thread-safe. `clock`: seconds; it must never run backwards."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.gaps = Gaps()
        self._clock = clock
        self._last = 0

    def restart(self, session: Session) -> None:
        """Continues from the newest row. All hosts must be read after this."""
        numbers = session.scalars(_NEWEST).all()[::-1]
        self.gaps = Gaps()
        self._last = numbers[0] - 1 if numbers else 0
        if self._last and len(numbers) < LOOK_BACK:
            self.gaps.add(1, self._last, self._clock())  # all are trimmed, except those that are not committed yet
        self._advance(numbers)

    def read(self, session: Session, *, every_gap: bool = False) -> set[int] | None:
        """Returns the ids of the nodes that have changed; None if unread rows were trimmed, so that all nodes must be
        read.

        An error does not change the reader's state.
        """
        now = self._clock()
        rows = self._rows(session, self.gaps.to_ask(now, every=every_gap))
        # The last row seen is read again: as long as it exists, no row after it has been trimmed.
        if not (self._last in rows if self._last else min(rows, default=1) == 1):
            LOG.info("The feed of host changes was trimmed past %d; reading every host", self._last)
            return None
        filled_gaps = self.gaps.fill(number for number in rows if number < self._last)
        new = sorted(number for number in rows if number > self._last)
        if every_gap:
            self.gaps.expire(now)
        self._advance(new)
        return {rows[number] for number in (*filled_gaps, *new)}

    def _rows(self, session: Session, ranges: Ranges) -> dict[int, int]:
        """Returns node ids by number: of all rows from the last one seen on, and of these ranges if a number has
        appeared in them.
        """
        values = {"last": self._last}
        if not ranges.pairs:
            return _by_number(session.execute(_NEW, values))
        # Always the same number of parameters, so that the statement is prepared only once.
        padded = [*ranges.pairs, *[(1, 0)] * (MAX_RANGES - len(ranges.pairs))]
        within = {f"first_{at}": first for at, (first, _) in enumerate(padded)}
        within |= {f"last_{at}": last for at, (_, last) in enumerate(padded)}
        if ranges.read_count > COUNT_FIRST and session.scalar(_COUNT, within) == ranges.read_count:
            return _by_number(session.execute(_NEW, values))
        return _by_number(session.execute(_NEW_AND_RANGES, values | within))

    def _advance(self, numbers: Iterable[int]) -> None:
        """Advances to the last of these numbers. Skipped numbers may still appear."""
        now = self._clock()
        for number in numbers:
            if number > self._last + 1:
                self.gaps.add(self._last + 1, number - 1, now)
            self._last = number


def _by_number(rows: Iterable[Any]) -> dict[int, int]:
    return {row.seq: row.node_id for row in rows}
