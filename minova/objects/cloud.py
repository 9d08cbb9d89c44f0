"""Which cloud a database belongs to, and how much of the cloud's history it holds. See docs/decisions/0045.

A cloud has an identity, and a history: both are random ids in its database. Each conductor process has a change counter
there, which it raises with each renewal of its lease. A mark is what such a counter once showed. Witnesses (computes,
APIs, schedulers, conductors) keep marks outside the database. A database that holds less than a mark has lost changes:
an older backup was restored, or a replica that lacked changes was promoted.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

# The most marks that a witness keeps; the newest ones.
MAX_MARKS = 32
# Seconds of the cloud clock for which the counter of an ended process stays in the database. A mark that is older is no
# evidence, because its counter may have been removed.
COUNTER_RETENTION = 30 * 24 * 3600.0
# The reasons of safe mode, as users see them.
LOST = "its database has lost changes"
OTHER_CLOUD = "this service belongs to another cloud than the database"
UNKNOWN = "its database holds no identity of a cloud"


class Mark(msgspec.Struct, frozen=True):
    """`at`: when the counter showed this number, by the cloud clock."""

    counter: str
    number: int
    at: float


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a witness has seen of its cloud. `uuid` and `history`: the cloud's."""

    uuid: str
    history: str
    marks: tuple[Mark, ...] = ()


class CloudState(msgspec.Struct, frozen=True, kw_only=True):
    """What a database, or a conductor that reads it, shows of its cloud.

    `safe_mode`: why the receiver must change nothing; None if it may.
    """

    uuid: str
    history: str
    marks: tuple[Mark, ...] = ()
    safe_mode: str | None = None


class Verdict(StrEnum):
    """How a database compares with what a witness has seen. PAST: the witness knows a history that an operator, or the
    end of safe mode, has replaced; what it holds may be unknown to the database.
    """

    AGREES = "agrees"
    PAST = "past"
    LOST = "lost"
    OTHER_CLOUD = "other cloud"
    UNKNOWN = "unknown"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What a database holds that is compared with a witness.

    `uuid` None: it has no identity, as while a dump is being imported.
    `is_past`: it knows the witness's history as one that has ended.
    `numbers`: the numbers of the counters that the witness has marks of.
    """

    uuid: str | None
    history: str = ""
    is_past: bool = False
    numbers: Mapping[str, int] = {}
    now: float = 0.0


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """`details`: for operators."""

    verdict: Verdict
    details: str = ""


def judge(seen: Seen, shown: Shown) -> Judgement:
    """Compares what a witness has seen with what a database shows."""
    if shown.uuid is None:
        return Judgement(verdict=Verdict.UNKNOWN, details=f"the cloud {seen.uuid} is expected")
    if seen.uuid != shown.uuid:
        details = f"this service belongs to the cloud {seen.uuid}, and the database to the cloud {shown.uuid}"
        return Judgement(verdict=Verdict.OTHER_CLOUD, details=details)
    if seen.history != shown.history:
        if shown.is_past:
            return Judgement(verdict=Verdict.PAST, details=f"the history {seen.history} has ended")
        return Judgement(verdict=Verdict.LOST, details=f"the database does not know the history {seen.history}")
    for mark in seen.marks:
        number = shown.numbers.get(mark.counter)
        if number is not None and number < mark.number:
            details = f"change {mark.number} of counter {mark.counter} was seen, and the database ends at {number}"
            return Judgement(verdict=Verdict.LOST, details=details)
        if number is None and mark.at > shown.now - COUNTER_RETENTION:
            details = f"change {mark.number} of counter {mark.counter} was seen, and the database has no such counter"
            return Judgement(verdict=Verdict.LOST, details=details)
    return Judgement(verdict=Verdict.AGREES)


def is_shown(seen: Seen, state: CloudState) -> bool:
    """Returns whether a state itself shows the newest that a witness has seen, so that nothing need be compared."""
    if (seen.uuid, seen.history) != (state.uuid, state.history):
        return False
    newest = max(seen.marks, key=lambda mark: mark.at, default=None)
    return newest is None or any(
        mark.counter == newest.counter and mark.number >= newest.number for mark in state.marks
    )


def learned(seen: Seen | None, state: CloudState) -> Seen:
    """Returns what a witness keeps after it has accepted a state: the newest mark of each counter. A new history
    replaces all marks.
    """
    if seen is None or (seen.uuid, seen.history) != (state.uuid, state.history):
        return Seen(uuid=state.uuid, history=state.history, marks=state.marks)
    newest = {mark.counter: mark for mark in seen.marks}
    for mark in state.marks:
        known = newest.get(mark.counter)
        if known is None or known.number < mark.number:
            newest[mark.counter] = mark
    marks = sorted(newest.values(), key=lambda mark: mark.at)[-MAX_MARKS:]
    return Seen(uuid=seen.uuid, history=seen.history, marks=tuple(marks))
