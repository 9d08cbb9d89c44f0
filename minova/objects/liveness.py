"""Which services are up, computed from heartbeat times alone.

Age is measured from the newest heartbeat of all (conductors beat in every flush), so that a conductor's own silence
makes nobody look dead. When many hosts fall silent together the fault is the message bus, not the hosts.
"""

from collections.abc import Mapping

# Below this many silent hosts "together" is no evidence: in a cloud of two, one dead host is half of it.
MASS_SILENCE_MIN = 10
MASS_SILENCE_SHARE = 1 / 3


def silent(last_seen: Mapping[int, float], down_time: float) -> set[int]:
    """Ids of the services that count as dead. `last_seen` in seconds on one clock; `down_time` in seconds."""
    if not last_seen:
        return set()
    newest = max(last_seen.values())
    dead = {key for key, seen in last_seen.items() if newest - seen > down_time}
    # Those that died long before the others are dead all the same; only a common end is suspicious.
    if len(dead) < MASS_SILENCE_MIN or len(dead) <= len(last_seen) * MASS_SILENCE_SHARE:
        return dead
    latest = max(last_seen[key] for key in dead)
    together = {key for key in dead if latest - last_seen[key] <= down_time}
    if len(together) >= MASS_SILENCE_MIN and len(together) > len(last_seen) * MASS_SILENCE_SHARE:
        return dead - together
    return dead
