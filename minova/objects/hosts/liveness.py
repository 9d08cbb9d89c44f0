"""Computes which services are up, from heartbeat times alone.

A service's silence is measured from the newest heartbeat of all services. (Conductors write their own heartbeats while
they work and messages come through.) So if no conductor could receive or write for some time, no service looks dead
because of that.

If many services fall silent together, and no service except conductors has been heard since, the message transport may
be at fault. Such services are in doubt: they count as up until their silence has lasted MASS_SILENCE_GRACE times the
down time. A heartbeat that arrives well after the last of theirs shows that messages come through, and ends the doubt
at once.
"""

from collections.abc import Collection, Mapping

import msgspec

# With fewer silent hosts than this, "together" is no evidence: in a cloud of two hosts, one dead host is half of them.
MASS_SILENCE_MIN = 10
MASS_SILENCE_SHARE = 1 / 3
# For how many down times silent services are in doubt.
MASS_SILENCE_GRACE = 5
# Every living service sends at least two heartbeats in a down time. So a service without a heartbeat for half a down
# time is overdue. And a heartbeat that arrives half a down time after the last heartbeat of another service shows that
# the other service should have sent one.
OVERDUE_AFTER = 1 / 2


class LivenessVerdict(msgspec.Struct, frozen=True):
    """Ids of the services that count as dead, and of those that count as up although no heartbeats arrive."""

    down: frozenset[int]
    in_doubt: frozenset[int]


def judge(last_seen: Mapping[int, float], down_time: float, conductors: Collection[int] = ()) -> LivenessVerdict:
    """Judges the services.

    `last_seen`: by service id, in seconds on one clock.
    `down_time`: in seconds.
    `conductors`: ids of services that write their heartbeats themselves, which proves nothing about messages.
    """
    if not last_seen:
        return LivenessVerdict(frozenset(), frozenset())
    newest = max(last_seen.values())
    silent = frozenset(key for key, seen_at in last_seen.items() if newest - seen_at > down_time)
    # Overdue services count, too: otherwise the first third of all would be dead before the others are silent.
    overdue = frozenset(key for key, seen_at in last_seen.items() if newest - seen_at > down_time * OVERDUE_AFTER)
    together = _together(last_seen, overdue, down_time)
    if not silent or not together:
        return LivenessVerdict(silent, frozenset())
    latest = max(last_seen[key] for key in together)
    witnessed = any(
        seen_at - latest > down_time * OVERDUE_AFTER for key, seen_at in last_seen.items() if key not in conductors
    )
    if witnessed or newest - latest > down_time * MASS_SILENCE_GRACE:
        return LivenessVerdict(silent, frozenset())
    return LivenessVerdict(silent - together, silent & together)


def _together(last_seen: Mapping[int, float], overdue: frozenset[int], down_time: float) -> frozenset[int]:
    """Returns the overdue services that fell silent together with so many others that the message transport may be at
    fault.
    """
    if not _is_mass(overdue, last_seen):
        return frozenset()
    latest = max(last_seen[key] for key in overdue)
    # Services that died long before the others are dead in any case: only a simultaneous silence is suspicious.
    together = frozenset(key for key in overdue if latest - last_seen[key] <= down_time)
    return together if _is_mass(together, last_seen) else frozenset()


def _is_mass(some: Collection[int], of: Collection[int]) -> bool:
    return len(some) >= MASS_SILENCE_MIN and len(some) > len(of) * MASS_SILENCE_SHARE
