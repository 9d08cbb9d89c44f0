"""Which cloud a database belongs to, and how much of the cloud's history it holds. See docs/decisions/0045.

A cloud has an identity, and a history: both are random ids in its database. Each conductor process has a change counter
there, which it raises with each renewal of its lease. A mark is what such a counter once showed. Witnesses (computes,
APIs, schedulers, conductors) keep marks outside the database. A database that holds less than a mark has lost changes:
an older backup was restored, or a replica that lacked changes was promoted.

A conductor seals each mark that it hands out with a secret of the database. A mark without the right seal is no
evidence: otherwise one stolen host could put the whole cloud into safe mode.
"""

import hmac
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import Line, Serial, Time

# The most marks that a witness keeps; the newest ones.
MAX_MARKS = 32
# Seconds of the cloud clock for which the counter of an ended process stays in the database. A mark that is older is no
# evidence, because its counter may have been removed.
COUNTER_RETENTION = 30 * 24 * 3600.0
_SEAL_BYTES = 16
# The reasons of safe mode, as users see them.
LOST = "its database has lost changes"
OTHER_CLOUD = "this service belongs to another cloud than the database"
UNKNOWN = "its database holds no identity of a cloud"


class CounterMark(msgspec.Struct, frozen=True):
    """`at`: when the counter showed this number, by the cloud clock.
    `seal`: shows that a process with the cloud's secret has made this mark, for the cloud and the history of the `WitnessRecord` or
    `CloudState` that has it.
    """

    counter: Line
    number: Serial
    at: Time
    seal: Line = ""


class MarkKey:
    """Makes and checks the seals of a cloud's marks. No struct, so that it cannot be sent, and no text of it is in logs."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def sealed(self, uuid: str, history: str, mark: CounterMark) -> CounterMark:
        """Returns the mark with the seal for this cloud and history."""
        return msgspec.structs.replace(mark, seal=self._seal(uuid, history, mark))

    def has_sealed(self, uuid: str, history: str, mark: CounterMark) -> bool:
        return hmac.compare_digest(self._seal(uuid, history, mark).encode(), _bytes(mark.seal))

    def _seal(self, uuid: str, history: str, mark: CounterMark) -> str:
        text = f"{uuid}|{history}|{mark.counter}|{mark.number}|{float(mark.at)!r}"
        return hmac.digest(self._secret, _bytes(text), "sha256")[:_SEAL_BYTES].hex()


def _bytes(text: str) -> bytes:
    """Never fails, whatever a hostile sender has put into a string."""
    return text.encode("utf-8", "surrogatepass")


class WitnessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a witness has seen of its cloud. `uuid` and `history`: the cloud's."""

    uuid: Line
    history: Line
    marks: Annotated[tuple[CounterMark, ...], Meta(max_length=32 * MAX_MARKS)] = ()


class CloudState(msgspec.Struct, frozen=True, kw_only=True):
    """What a database, or a conductor that reads it, shows of its cloud.

    `safe_mode`: why the receiver must change nothing; None if it may.
    """

    uuid: str
    history: str
    marks: tuple[CounterMark, ...] = ()
    safe_mode: str | None = None


class WitnessVerdict(StrEnum):
    """How a database compares with what a witness has seen. PAST: the witness knows a history that an operator, or the
    end of safe mode, has replaced; what it holds may be unknown to the database. UNSEALED: the witness has marks, or a
    history, that no conductor has made, and none of its sealed marks shows a loss.
    """

    AGREES = "agrees"
    PAST = "past"
    UNSEALED = "unsealed"
    LOST = "lost"
    OTHER_CLOUD = "other cloud"
    UNKNOWN = "unknown"


class DatabaseState(msgspec.Struct, frozen=True, kw_only=True):
    """What a database holds that is compared with a witness.

    `uuid` None: it has no identity, as while a dump is being imported.
    `is_past`: it knows the witness's history as one that has ended.
    `numbers`: the numbers of the counters that the witness has sealed marks of.
    `key`: the database's own; None: no mark has a right seal.
    """

    uuid: str | None
    history: str = ""
    is_past: bool = False
    numbers: Mapping[str, int] = {}
    now: float = 0.0
    key: MarkKey | None = None


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """`details`: for operators."""

    verdict: WitnessVerdict
    details: str = ""


def proven_marks(seen: WitnessRecord, key: MarkKey | None) -> tuple[CounterMark, ...]:
    """Returns the marks with a right seal, of the first `MAX_MARKS`: a hostile sender may name any number of them."""
    if key is None:
        return ()
    return tuple(mark for mark in seen.marks[:MAX_MARKS] if key.has_sealed(seen.uuid, seen.history, mark))


def judge(seen: WitnessRecord, shown: DatabaseState) -> Judgement:
    """Compares what a witness has seen with what a database shows. Only sealed marks are evidence of a loss."""
    if shown.uuid is None:
        return Judgement(verdict=WitnessVerdict.UNKNOWN, details=f"the cloud {seen.uuid} is expected")
    if seen.uuid != shown.uuid:
        details = f"this service belongs to the cloud {seen.uuid}, and the database to the cloud {shown.uuid}"
        return Judgement(verdict=WitnessVerdict.OTHER_CLOUD, details=details)
    proven = proven_marks(seen, shown.key)
    if seen.history != shown.history:
        if shown.is_past:
            return Judgement(verdict=WitnessVerdict.PAST, details=f"the history {seen.history} has ended")
        if not proven:
            return Judgement(verdict=WitnessVerdict.UNSEALED, details="it names a history without a sealed mark of it")
        return Judgement(verdict=WitnessVerdict.LOST, details=f"the database does not know the history {seen.history}")
    lost = _loss_of(proven, shown)
    if lost is not None:
        return Judgement(verdict=WitnessVerdict.LOST, details=lost)
    if len(proven) < len(seen.marks):
        return Judgement(verdict=WitnessVerdict.UNSEALED, details="it has marks without a right seal")
    return Judgement(verdict=WitnessVerdict.AGREES)


def _loss_of(marks: tuple[CounterMark, ...], shown: DatabaseState) -> str | None:
    """Returns how the database shows less than these marks; None if it does not."""
    for mark in marks:
        number = shown.numbers.get(mark.counter)
        if number is not None and number < mark.number:
            return f"change {mark.number} of counter {mark.counter} was seen, and the database ends at {number}"
        if number is None and mark.at > shown.now - COUNTER_RETENTION:
            return f"change {mark.number} of counter {mark.counter} was seen, and the database has no such counter"
    return None


def is_shown(seen: WitnessRecord, state: CloudState) -> bool:
    """Returns whether a state itself shows the newest that a witness has seen, so that nothing need be compared."""
    if (seen.uuid, seen.history) != (state.uuid, state.history):
        return False
    return all(
        any(mark.counter == newest.counter and mark.number >= newest.number for mark in state.marks)
        for newest in newest_mark(seen)
    )


def newest_mark(seen: WitnessRecord) -> tuple[CounterMark, ...]:
    """Returns the newest mark alone; nothing if there is none."""
    return tuple(sorted(seen.marks, key=lambda mark: mark.at)[-1:])


def learned(seen: WitnessRecord | None, state: CloudState) -> WitnessRecord:
    """Returns what a witness keeps after it has accepted a state: the newest mark of each counter. A new history
    replaces all marks.
    """
    if seen is None or (seen.uuid, seen.history) != (state.uuid, state.history):
        return WitnessRecord(uuid=state.uuid, history=state.history, marks=state.marks)
    newest = {mark.counter: mark for mark in seen.marks}
    for mark in state.marks:
        previous = newest.get(mark.counter)
        if previous is None or previous.number < mark.number:
            newest[mark.counter] = mark
    marks = sorted(newest.values(), key=lambda mark: mark.at)[-MAX_MARKS:]
    return WitnessRecord(uuid=seen.uuid, history=seen.history, marks=tuple(marks))
