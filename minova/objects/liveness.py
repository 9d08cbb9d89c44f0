"""Which services are up, computed from heartbeat times alone.

A service's silence is measured against the newest heartbeat of all (conductors write their own while they work and messages
come through), so that a time in which no conductor could hear or write makes no service look dead.

When many services fall silent together, and no service but conductors is heard since, then what carries the messages may be at
fault. Such services are in doubt: they count as up until their silence has lasted MASS_SILENCE_GRACE times the down time. A
service that is heard well after the last of them shows that messages come through, and ends the doubt at once.
"""

from collections.abc import Collection, Mapping

import msgspec

# Below this many silent hosts "together" is no evidence: in a cloud of two, one dead host is half of it.
MASS_SILENCE_MIN = 10
MASS_SILENCE_SHARE = 1 / 3
# Down times that the silent are given the benefit of the doubt.
MASS_SILENCE_GRACE = 5
# Every living service beats at least twice in a down time. So one that has not been heard for half of it is overdue, and one
# that is heard half a down time after another was heard last shows that the other ought to have been heard.
OVERDUE_AFTER = 1 / 2


class Verdict(msgspec.Struct, frozen=True):
    """Ids of services that count as dead, and of those that count as up although no heartbeat arrives."""

    down: frozenset[int]
    in_doubt: frozenset[int]


def judge(last_seen: Mapping[int, float], down_time: float, conductors: Collection[int] = ()) -> Verdict:
    """`last_seen` in seconds on one clock, by service id; `down_time` in seconds. `conductors`: ids of services that write their
    heartbeats themselves, which says nothing of messages.
    """
    if not last_seen:
        return Verdict(frozenset(), frozenset())
    newest = max(last_seen.values())
    silent = frozenset(key for key, seen in last_seen.items() if newest - seen > down_time)
    # The overdue count too, for else the first third of all would be dead before the others are silent.
    overdue = frozenset(key for key, seen in last_seen.items() if newest - seen > down_time * OVERDUE_AFTER)
    together = _together(last_seen, overdue, down_time)
    if not silent or not together:
        return Verdict(silent, frozenset())
    latest = max(last_seen[key] for key in together)
    witnessed = any(
        seen - latest > down_time * OVERDUE_AFTER for key, seen in last_seen.items() if key not in conductors
    )
    if witnessed or newest - latest > down_time * MASS_SILENCE_GRACE:
        return Verdict(silent, frozenset())
    return Verdict(silent - together, silent & together)


def _together(last_seen: Mapping[int, float], overdue: frozenset[int], down_time: float) -> frozenset[int]:
    """The overdue ones that fell silent together with so many others that the messages may be at fault."""
    if not _is_mass(overdue, last_seen):
        return frozenset()
    latest = max(last_seen[key] for key in overdue)
    # Those that died long before the others are dead all the same; only a common end is suspicious.
    together = frozenset(key for key in overdue if latest - last_seen[key] <= down_time)
    return together if _is_mass(together, last_seen) else frozenset()


def _is_mass(some: Collection[int], of: Collection[int]) -> bool:
    return len(some) >= MASS_SILENCE_MIN and len(some) > len(of) * MASS_SILENCE_SHARE
