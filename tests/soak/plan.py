"""Which fault comes when, drawn from the seed. Pure: the same seed and length give the same plan."""

from collections.abc import Callable, Sequence
from random import Random

import msgspec

APIS = ("api-1", "api-2")
CONDUCTORS = ("conductor-1", "conductor-2", "conductor-3")
SCHEDULERS = ("scheduler-1", "scheduler-2")
COMPUTES = tuple(f"compute-{number}" for number in range(1, 9))
SERVICES = (*APIS, *CONDUCTORS, *SCHEDULERS, *COMPUTES)
DATABASE, BROKER = "database", "broker"

# Seconds from one fault to the next, and from the start to the first.
PAUSES = (1.5, 5.0)
FIRST = 3.0
# A restarted service needs so long before it can fail anew.
REST = 5.0


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: seconds from the start. `length`: seconds until it is put right. `step`: what a clock is moved by."""

    at: float
    kind: str
    targets: tuple[str, ...]
    length: float
    step: float = 0.0


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """`targets` are drawn from these, `count` of them (least, most), and hit for a time of `length` (least, most)."""

    targets: Sequence[str]
    count: tuple[int, int] = (1, 1)
    length: tuple[float, float]
    steps: tuple[float, ...] = (0.0,)


HOUR = 3600.0
KINDS: dict[str, Kind] = {
    "kill a compute": Kind(targets=COMPUTES, length=(0.5, 15.0)),
    "kill several computes": Kind(targets=COMPUTES, count=(2, 5), length=(1.0, 12.0)),
    "kill a conductor": Kind(targets=CONDUCTORS, length=(0.5, 12.0)),
    "kill all conductors": Kind(targets=CONDUCTORS, count=(3, 3), length=(1.0, 8.0)),
    "kill a scheduler": Kind(targets=SCHEDULERS, length=(0.5, 8.0)),
    "kill all schedulers": Kind(targets=SCHEDULERS, count=(2, 2), length=(1.0, 6.0)),
    "kill an API": Kind(targets=APIS, length=(0.5, 5.0)),
    "stop (SIGSTOP)": Kind(targets=SERVICES, length=(1.0, 13.0)),
    "terminate (SIGTERM)": Kind(targets=SERVICES, length=(0.5, 3.0)),
    "rename a host": Kind(targets=COMPUTES, length=(0.5, 3.0)),
    "clock of a service": Kind(targets=SERVICES, length=(3.0, 15.0), steps=(HOUR, -HOUR)),
    "clock of the database": Kind(targets=(DATABASE,), length=(3.0, 15.0), steps=(HOUR, -HOUR)),
    "restart the broker": Kind(targets=(BROKER,), length=(0.0, 4.0)),
    "kill the broker": Kind(targets=(BROKER,), length=(0.0, 4.0)),
    "restart the database": Kind(targets=(DATABASE,), length=(0.0, 3.0)),
    "kill the database": Kind(targets=(DATABASE,), length=(0.0, 3.0)),
}


def plan(seed: int, seconds: float, kinds: Sequence[str] = tuple(KINDS)) -> tuple[Fault, ...]:
    """Faults of the first `seconds`, in their order. Each kind comes once before any comes again."""
    random = Random(f"soak {seed}")
    free_at: dict[str, float] = {}
    faults: list[Fault] = []
    deck: list[str] = []
    at = FIRST
    while True:
        deck = deck or random.sample(sorted(kinds), len(kinds))
        fault = _draw(random, deck.pop(), at, lambda name: free_at.get(name, 0.0) <= at)  # noqa: B023  - called at once
        if fault is not None:
            if fault.at + fault.length > seconds:
                return tuple(faults)
            faults.append(fault)
            free_at |= dict.fromkeys(fault.targets, fault.at + fault.length + REST)
        at += random.uniform(*PAUSES)
        if at > seconds:
            return tuple(faults)


def _draw(random: Random, name: str, at: float, is_free: Callable[[str], bool]) -> Fault | None:
    """None: too few targets have recovered from what happened to them before."""
    kind = KINDS[name]
    length, step = round(random.uniform(*kind.length), 1), random.choice(kind.steps)
    count = random.randint(*kind.count)
    free = [target for target in kind.targets if is_free(target)]
    if len(free) < count:
        return None
    return Fault(
        at=round(at, 1), kind=name, targets=tuple(sorted(random.sample(free, count))), length=length, step=step
    )
