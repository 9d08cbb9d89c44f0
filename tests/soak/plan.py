"""Which fault comes when, drawn from the seed. Pure: the same seed and length give the same plan."""

from collections.abc import Iterator, Sequence
from random import Random

import msgspec

APIS = ("api-1", "api-2")
CONDUCTORS = ("conductor-1", "conductor-2", "conductor-3")
SCHEDULERS = ("scheduler-1", "scheduler-2")
COMPUTES = tuple(f"compute-{number}" for number in range(1, 9))
SERVICES = (*APIS, *CONDUCTORS, *SCHEDULERS, *COMPUTES)
DATABASE, BROKER = "database", "broker"

# Runs in CI: one of these seeds a run, for so many seconds.
CI_SEEDS = (1, 5, 6, 7, 13, 23, 29)
CI_SECONDS = 36.0

# Seconds from one fault to the next, and from the start to the first.
PAUSES = (1.5, 5.0)
FIRST = 3.0
# A restarted service needs so long before it can fail anew.
REST = 5.0

# In every second run, on average, the cloud begins as one in the middle of its upgrade: on the new tables, with all conductors
# and some of the other services of the last release. Each is replaced after so many seconds, at most this share of the run.
OLD_AT_START = 0.5
UPGRADED_AFTER, UPGRADED_SHARE = (4.0, 30.0), 0.4
OLD_BESIDE_CONDUCTORS = {APIS: (0, 2), SCHEDULERS: (0, 2), COMPUTES: (2, 8)}


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
    "power of a host fails": Kind(targets=COMPUTES, length=(8.0, 20.0)),
    "rename a host": Kind(targets=COMPUTES, length=(0.5, 3.0)),
    "clock of a service": Kind(targets=SERVICES, length=(3.0, 15.0), steps=(HOUR, -HOUR)),
    "clock of the database": Kind(targets=(DATABASE,), length=(3.0, 15.0), steps=(HOUR, -HOUR)),
    "restart the broker": Kind(targets=(BROKER,), length=(0.0, 4.0)),
    "kill the broker": Kind(targets=(BROKER,), length=(0.0, 4.0)),
    "alarm of the broker": Kind(targets=(BROKER,), length=(1.0, 12.0)),
    "restart the database": Kind(targets=(DATABASE,), length=(0.0, 3.0)),
    "kill the database": Kind(targets=(DATABASE,), length=(0.0, 3.0)),
    "restore an older backup": Kind(targets=(DATABASE,), length=(2.0, 25.0)),
    "promote a lagging replica": Kind(targets=(DATABASE,), length=(2.0, 8.0)),
    # Its configuration names those of another cloud by mistake.
    "another cloud's database for a controller": Kind(targets=(*CONDUCTORS, *SCHEDULERS, *APIS), length=(1.0, 6.0)),
    "another cloud's conductor for a compute": Kind(targets=COMPUTES, length=(2.0, 12.0)),
    "upgrade computes after a rollback": Kind(targets=COMPUTES, count=(1, 4), length=(10.0, 25.0)),
    "upgrade a scheduler after a rollback": Kind(targets=SCHEDULERS, length=(10.0, 25.0)),
    "upgrade an API after a rollback": Kind(targets=APIS, length=(8.0, 20.0)),
}
# At the start of a run only, so not drawn from the deck.
UPGRADE = "upgrade from the last release"
ALL_KINDS = (*KINDS, UPGRADE)

# The database loses the changes of the last `length` seconds. No change is taken until an operator has brought database and hosts
# together, so one of these comes at most every APART seconds, and none in CI, whose runs are short.
BACK_IN_TIME = frozenset({"restore an older backup", "promote a lagging replica"})
APART = 120.0
# A host whose power fails is away for minutes: its servers are evacuated, and it removes what it has of them before it serves again.
# A service that is started with another cloud's configuration takes its time, too.
CI_KINDS = tuple(kind for kind in ALL_KINDS if kind not in BACK_IN_TIME and not kind.startswith(("power", "another")))
# They wait for these and these for them. The last release knows nothing of safe mode, in which no host is renamed.
# An evacuation that the database loses would leave a guest at a host of which the database knows nothing. A host at another cloud
# reports nothing to its own.
NOT_WHILE_BACK_IN_TIME = frozenset(
    kind for kind in ALL_KINDS if kind.startswith(("upgrade", "rename", "power", "another"))
)

# One service at a time is pointed at the other cloud: nothing else may write there meanwhile. It starts twice, and its cloud's conductor
# or database once, within so many seconds on a busy machine.
ANOTHER, MISLED = "another", 20.0

# What is not mixed with the last release, and why. Besides, a service has one fault at a time: one that runs the last release is
# not killed, renamed or stepped meanwhile, because it lacks what the new release has against that (identity, monotonic time).
#
# - Conductors do not go back: all of the new release would have to stop first, and [upgrade_levels] be pinned in all services
#   (docs/operators/upgrade.md, Rollback).
# - While one of the last release runs, the other services do not go back either: it does not correct the version with which a
#   service of the new release has registered (docs/operators/upgrade.md, Rollback).
# - It belongs to whichever cloud answers it.
# - It also compares leases and heartbeats with the wall clock, so that steps and outages let them lapse (decision 0018), and
#   keeps the names of services in memory, so that no host may be renamed (decision 0022), and knows no evacuation.
NOT_BESIDE_OLD_CONDUCTORS = frozenset(
    kind
    for kind in KINDS
    if kind.startswith(("upgrade", "clock", "rename", "power", "another"))
    or kind.endswith(("the broker", "the database"))
)
# The clock of the cloud follows the wall clock until an hour after the last lease of an old conductor (decision 0018).
NOT_AFTER_OLD_CONDUCTORS = "clock of the database"
# A compute of the last release does not know the domains marked with a former name of its host (decision 0022).
RENAME, ROLLBACK_OF_COMPUTES = "rename a host", "upgrade computes after a rollback"


def plan(seed: int, seconds: float, kinds: Sequence[str] = ALL_KINDS) -> tuple[Fault, ...]:
    """Faults of the first `seconds`, in their order. Each kind comes once before any comes again, as far as it may come."""
    random = Random(f"soak {seed}")
    faults = list(_upgrade(random, seconds)) if UPGRADE in kinds and random.random() < OLD_AT_START else []
    free_at = {target: fault.length + REST for fault in faults for target in fault.targets}
    # From this second on every conductor is of the new release.
    conductors_new_at = max((fault.length + REST for fault in faults if fault.targets[0] in CONDUCTORS), default=0.0)
    drawable = sorted(set(kinds) - {UPGRADE} - ({NOT_AFTER_OLD_CONDUCTORS} if faults else set()))
    renamed: set[str] = set()
    deck: list[str] = []
    at, back_in_time_at = FIRST, FIRST
    while drawable and at <= seconds:
        if not deck:
            dealt = _dealt(random, drawable, back_in_time=at >= back_in_time_at)
            deck = random.sample(dealt, len(dealt))
        name = _next(deck, only_beside_old=at < conductors_new_at)
        if name is not None:
            not_these = renamed if name == ROLLBACK_OF_COMPUTES else set()
            free = [each for each in KINDS[name].targets if free_at.get(each, 0.0) <= at and each not in not_these]
            fault = _draw(random, name, at, free)
            if name.startswith(ANOTHER) and free_at.get(ANOTHER, 0.0) > at:
                fault = None
            if fault is not None:
                if fault.at + fault.length > seconds:
                    break
                faults.append(fault)
                back_in_time_at = at + APART if name in BACK_IN_TIME else back_in_time_at
                free_at |= dict.fromkeys(fault.targets, fault.at + fault.length + REST)
                if name.startswith(ANOTHER):
                    free_at[ANOTHER] = fault.at + fault.length + MISLED
                renamed |= set(fault.targets) if name == RENAME else set()
        at += random.uniform(*PAUSES)
    return tuple(faults)


def of_the_last_release(faults: Sequence[Fault]) -> frozenset[str]:
    """Services that run the last release at the start."""
    return frozenset(target for fault in faults if fault.kind == UPGRADE for target in fault.targets)


def _upgrade(random: Random, seconds: float) -> Iterator[Fault]:
    """Which services begin with the last release, and when each is replaced."""
    least, most = UPGRADED_AFTER
    old = list(CONDUCTORS)
    for services, count in OLD_BESIDE_CONDUCTORS.items():
        old += random.sample(services, random.randint(*count))
    for target in old:
        length = random.uniform(least, max(least, min(most, UPGRADED_SHARE * seconds)))
        yield Fault(at=0.0, kind=UPGRADE, targets=(target,), length=round(length, 1))


def _dealt(random: Random, drawable: Sequence[str], *, back_in_time: bool) -> list[str]:
    """The kinds of a new deck: at most one of those that take the database back in time."""
    these = [kind for kind in drawable if kind in BACK_IN_TIME]
    others = [kind for kind in drawable if kind not in BACK_IN_TIME]
    return [*others, random.choice(these)] if these and back_in_time else others


def _next(deck: list[str], *, only_beside_old: bool) -> str | None:
    """Take the next kind that may come now from the deck; None: there is none."""
    for index in range(len(deck) - 1, -1, -1):
        if not only_beside_old or deck[index] not in NOT_BESIDE_OLD_CONDUCTORS:
            return deck.pop(index)
    return None


def _draw(random: Random, name: str, at: float, free: Sequence[str]) -> Fault | None:
    """None: too few targets have recovered from what happened to them before."""
    kind = KINDS[name]
    length, step = round(random.uniform(*kind.length), 1), random.choice(kind.steps)
    count = random.randint(*kind.count)
    if len(free) < count:
        return None
    return Fault(
        at=round(at, 1), kind=name, targets=tuple(sorted(random.sample(free, count))), length=length, step=step
    )
