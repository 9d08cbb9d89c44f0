"""The kinds of fault, each a storm of its own: what may happen at every message and transaction, and what happens once."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from minova.objects.actions.moves import CONFIRM_RESIZE, LIVE_MIGRATE, MIGRATE, RESIZE, REVERT_RESIZE
from minova.objects.actions.table import RUN_BY_HOSTS
from minova.objects.servers.states import PowerState
from tests.faults.cloud import CONTROLLERS, DELETE_PORT, Cloud
from tests.faults.world import DATABASE, HANGS, Faults

# Seconds of the fake clock: while faults happen, and then at most, until everything that waits is found.
STORM, QUIET = 150.0, 1200.0
# In every storm the broker delivers so many of the messages twice.
DOUBLE = 0.5
# The quiet is looked at so often, and must be so twice in a row.
LOOK = 60.0
# Server actions that users ask for.
KINDS = (*(action.kind for action in RUN_BY_HOSTS), DELETE_PORT)
# What users ask for whose servers move.
MOVES = (MIGRATE.kind, RESIZE.kind, LIVE_MIGRATE.kind, CONFIRM_RESIZE.kind, REVERT_RESIZE.kind)
HOUR = 3600.0
LONGER_THAN_A_BUILD = 250.0
# An instance that is deleted is purged after so long in the storm of hosts that come back later.
RETENTION = 200
PURGE_INTERVAL = 600.0


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """`events` queues what happens once or a few times. `lasts`: until all who come back have come back."""

    faults: Faults = Faults()
    events: Callable[[Cloud], None] = lambda cloud: None
    lasts: float = STORM * 1.3
    overrides: dict[str, object] = {}
    # Nothing of it is a reason for a server to end in error.
    no_errors: bool = False


def live(
    cloud: Cloud, storm: Storm, requests: int, double: float = DOUBLE, kinds: Sequence[str] = KINDS, acts: int = 2
) -> None:
    """Users come and go while the storm lasts; then it is over and everybody who died comes back.

    `double`: the chance of a second delivery of each message.
    `kinds`, `acts`: of the server actions that users ask for, and how many for each request for servers.
    """
    world = cloud.world
    world.run(30.0)
    world.faults = msgspec.structs.replace(storm.faults, double=double)
    for number in range(1, requests + 1):
        count = world.random.choice([1, 1, 1, 2, 5])
        world.later(world.random.uniform(0, STORM), None, partial(cloud.create, number, count))
        if world.random.random() < 0.5:
            world.later(world.random.uniform(0, STORM * 1.2), None, cloud.delete_one)
        if world.random.random() < 0.3:
            state = world.random.choice([PowerState.SHUTDOWN, PowerState.CRASHED, PowerState.RUNNING])
            world.later(world.random.uniform(0, STORM * 1.2), None, partial(cloud.turn_one, state))
        for _ in range(acts):
            kind = world.random.choice(kinds)
            world.later(world.random.uniform(0, STORM * 1.2), None, partial(cloud.act_on_one, kind))
    storm.events(cloud)
    world.run(storm.lasts)
    world.faults = Faults(others_first=storm.faults.others_first)
    until, well = world.now + QUIET, 0
    while world.now < until and well < 2:
        world.run(LOOK)
        well = 0 if cloud.violations() else well + 1


def violations(cloud: Cloud, storm: Storm) -> list[str]:
    """What is not as it must be after this storm."""
    return cloud.violations() + (cloud.in_error() if storm.no_errors else [])


def several_hosts(cloud: Cloud) -> None:
    """Two hosts or all die together, twice, for a moment or for longer than a build may take."""
    world = cloud.world
    for moment in (world.random.uniform(10, STORM / 2), world.random.uniform(STORM / 2, STORM)):
        names = world.random.sample(cloud.hosts, world.random.randint(2, len(cloud.hosts)))
        away = world.random.choice([2.0, 30.0, LONGER_THAN_A_BUILD])
        world.later(moment, None, partial(world.keep_down, names, away))


def a_controller_for_good(cloud: Cloud) -> None:
    """One conductor and one scheduler die and never come back."""
    world = cloud.world
    for names in CONTROLLERS.values():
        name = world.random.choice(names)
        world.later(world.random.uniform(10, STORM), None, partial(world.keep_down, [name], math.inf))


def all_controllers(cloud: Cloud) -> None:
    """No conductor and no scheduler for an hour."""
    world = cloud.world
    names = [name for kind in CONTROLLERS.values() for name in kind]
    world.later(world.random.uniform(10, STORM), None, partial(world.keep_down, names, HOUR))


def clock_steps(cloud: Cloud) -> None:
    """The clocks of the database and of processes go an hour forth or back, and right again some time later. A user asks for a
    server right after each step of the database's clock, before a service has sent its next heartbeat.
    """
    world = cloud.world
    for name in (DATABASE, *(name for kind in CONTROLLERS.values() for name in kind), *cloud.hosts):
        if name != DATABASE and world.random.random() < 0.5:
            continue
        begin = world.random.uniform(10, STORM)
        step, end = world.random.choice([HOUR, -HOUR]), begin + world.random.uniform(5, 200)
        world.later(begin, None, partial(world.steps.__setitem__, name, step))
        world.later(end, None, partial(world.steps.__setitem__, name, 0.0))
        if name == DATABASE:
            for number, moment in ((1001, begin), (1002, end)):
                world.later(moment + world.random.uniform(0.1, 4), None, partial(cloud.create, number, 1))


def a_host_comes_back_late(cloud: Cloud) -> None:
    """A host is away until those of its instances that were deleted meanwhile are purged."""
    world = cloud.world
    host = world.random.choice(cloud.hosts)
    begin = world.random.uniform(STORM / 2, STORM)
    world.later(begin, None, partial(world.keep_down, [host], RETENTION + 2 * PURGE_INTERVAL))
    for moment in range(5):
        world.later(begin + 60.0 + moment, None, partial(cloud.delete_one, host))


def hosts_are_renamed(cloud: Cloud) -> None:
    world = cloud.world
    for host in world.random.sample(cloud.hosts, 2):
        world.later(world.random.uniform(10, STORM), None, partial(cloud.rename, host, f"{host}-renamed"))


def mixed_versions(cloud: Cloud) -> None:
    """Services of the last release work beside the others: other ones after each quarter of the storm, at the end none."""
    world = cloud.world
    names = [*(name for kind in CONTROLLERS.values() for name in kind), *cloud.hosts]
    for quarter in range(4):
        old = set(world.random.sample(names, world.random.randint(1, 4)))
        world.later(quarter * STORM / 4, None, partial(setattr, world, "last_release", old))
    world.later(STORM, None, partial(setattr, world, "last_release", set[str]()))


# Hosts with room for every server that is asked for.
ROOMY: dict[str, object] = {"fake_vcpus": 32, "fake_memory_mb": 65536, "fake_local_gb": 1000}

STORMS: dict[str, Storm] = {
    "calm": Storm(),
    "messages are lost": Storm(faults=Faults(lose=0.1)),
    "casts come late": Storm(faults=Faults(delay=0.3)),
    "processes die": Storm(faults=Faults(kill=0.01)),
    "all at once": Storm(faults=Faults(lose=0.05, delay=0.2, kill=0.005, step=0.002)),
    "the database is away for a second": Storm(faults=Faults(database_away=0.01)),
    "answers to commits are lost": Storm(faults=Faults(lose_commit=0.05)),
    "several hosts die together": Storm(events=several_hosts, lasts=STORM * 1.3 + LONGER_THAN_A_BUILD),
    "controllers die for good": Storm(faults=Faults(lose=0.1), events=a_controller_for_good),
    "all controllers are dead for an hour": Storm(events=all_controllers, lasts=STORM * 1.3 + HOUR),
    "clocks step": Storm(events=clock_steps, lasts=STORM * 1.3 + 200, overrides=ROOMY, no_errors=True),
    "clocks step and processes die": Storm(faults=Faults(kill=0.01), events=clock_steps, lasts=STORM * 1.3 + 200),
    "drivers are slow and hang": Storm(faults=Faults(slow=0.3, hang=0.03), lasts=STORM * 1.3 + HANGS),
    "hypervisors go away": Storm(faults=Faults(hypervisor_away=0.05)),
    "processes die while drivers are slow": Storm(
        faults=Faults(slow=0.2, hang=0.02, hypervisor_away=0.02, kill=0.005), lasts=STORM * 1.3 + HANGS
    ),
    "versions are mixed": Storm(faults=Faults(lose=0.02), events=mixed_versions),
    "hosts are renamed": Storm(events=hosts_are_renamed, lasts=STORM * 1.3 + 120),
    "a host comes back late": Storm(
        events=a_host_comes_back_late,
        lasts=STORM * 1.3 + RETENTION + 2 * PURGE_INTERVAL,
        overrides={"conductor__deleted_retention": RETENTION, "running_deleted_instance_poll_interval": 60},
    ),
}
