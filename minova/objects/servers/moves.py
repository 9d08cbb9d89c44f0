"""Moves of servers as hosts get and report them. Pure.

A move is a row (`Migration`) and a task. The task is in one phase at a time, and each phase is the work of one host::

    schedule      no host: the scheduler chooses the destination         accepted
    claim         destination: claims under its limits                   pre-migrating   resize_prep
    export        source: shuts the guest down, serves its disks         migrating       resize_migrating
    import        destination: pulls the disks                           post-migrating  resize_migrated
    release       source: the guest is off, and nothing serves its disks any more
    -- the switch: the row has the destination, the new flavor and the next attempt --
    start         destination: defines the guest, and starts it          finished        resize_finish

    before the switch, after a failure:
    restore       source: the guest is as it was before                  error
    discard       destination: removes its copy

    a finished move, confirmed:
    show there    destination: shows that it has the guest               confirming
    leave         source: removes what it kept for a revert              confirmed
    reverted:
    show          source: shows that it has its copy still               reverting       resize_reverting
    discard, then restore                                                reverted
    a side that has nothing to show:                                     finished, as before

A live migration, whose task state is `migrating` to its end::

    schedule      no host                                                accepted
    queue         no host: other live migrations occupy one of the two   queued
    describe      source: describes the guest                            pre-migrating
    check         destination: claims, and checks whether it can run it  pre-migrating
    prepare       destination: makes disks, networks and filters         pre-migrating
    migrate       source: the guest leaves                               migrating
    land          destination: the guest is here whole. Only if the source has reported it before libvirt has ended it there
    hold          source: holds the disks, so that nothing continues the guest here. Likewise
    -- the switch: the row has the destination and the next attempt --
    arrive        destination: the guest runs here                       post-migrating
    leave         source: removes its copy                               post-migrating, completed

    in doubt:
    look          source: what it has of the guest
    look there    destination: what it has of the guest; then the verdict (`conductor/moves/resolver.py`)

    the guest stays:
    -- after the switch: the row has the source and its attempt again --
    stay          source: the guest runs as before                       error, cancelled
    discard       destination: removes its copy

    both run:
    halt          source: pauses its guest
    halt there    destination: pauses its guest                          error

    the memory is lost in post-copy:
    close         source: ends what is left of its guest, which has the disks open
    -- the switch: the row has the destination, in ERROR --
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import Count, Line, Reason
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.disk_export import DiskExport, FileName, TransferKey
from minova.objects.servers.failures import kind_of
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import GuestReport, LiveDestination, LiveSource
from minova.objects.servers.migration import Migration
from minova.objects.servers.states import PowerState


class MovePhase(StrEnum):
    SCHEDULE = "schedule"
    CLAIM = "claim"
    EXPORT = "export"
    IMPORT = "import"
    RELEASE = "release"
    START = "start"
    RESTORE = "restore"
    DISCARD = "discard"
    LEAVE = "leave"
    SHOW = "show"
    SHOW_THERE = "show there"
    QUEUE = "queue"
    DESCRIBE = "describe"
    CHECK = "check"
    PREPARE = "prepare"
    MIGRATE = "migrate"
    LAND = "land"
    HOLD = "hold"
    ARRIVE = "arrive"
    LOOK = "look"
    LOOK_THERE = "look there"
    STAY = "stay"
    HALT = "halt"
    HALT_THERE = "halt there"
    CLOSE = "close"


# The phases of a move that wait for no host.
OF_NO_HOST = frozenset({MovePhase.SCHEDULE, MovePhase.QUEUE})

# The phases of a move whose work is the destination's. All others are the source's.
AT_DESTINATION = frozenset(
    {
        *(MovePhase.CLAIM, MovePhase.IMPORT, MovePhase.START, MovePhase.DISCARD, MovePhase.SHOW_THERE),
        *(MovePhase.CHECK, MovePhase.PREPARE, MovePhase.LAND, MovePhase.ARRIVE),
        *(MovePhase.LOOK_THERE, MovePhase.HALT_THERE),
    }
)
# The phases in which a move can still be taken back at once, without a revert.
BEFORE_SWITCH = frozenset(
    {
        *(MovePhase.SCHEDULE, MovePhase.CLAIM, MovePhase.EXPORT, MovePhase.IMPORT, MovePhase.RELEASE),
        *(MovePhase.QUEUE, MovePhase.DESCRIBE, MovePhase.CHECK, MovePhase.PREPARE),
    }
)


class MigrationOrder(StrEnum):
    """What the source shall do with a live migration in progress. It learns that when it reports the progress."""

    NONE = ""
    ABORT = "abort"
    FORCE_COMPLETE = "force complete"


class PhaseKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a host names when it reports: the fence of moves. `attempt`: of the migration, as the host got it. `round`: of looks, in
    each of which both hosts say what they have; None: the sender does not know rounds.
    """

    migration_uuid: Line
    instance_uuid: Line
    phase: MovePhase
    attempt: Count
    round: Count | None = None


class MoveMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a move for its host.

    `instance`: as its row is now; after the switch it has the destination, the new flavor and the new attempt.
    `export`: what the source serves, for `import`. `key`: of the transfer of this move alone.
    `live_source`, `live_destination`: what the two hosts have said about a guest that migrates live.
    `block`: whether its disks are copied; None: unless both hosts have them.
    `lacks_images`: the digests of the files of the server's image that the image service does not give to the destination: `export`
    must serve them.
    `availability_zone`: of the host, for a guest with a config drive; empty: the default zone.
    `round`: see `PhaseKey`.
    `switched_back`: for `stay`: the row had the destination, to which Neutron may have bound the interfaces; None: an earlier release
    does not say.
    """

    migration: Migration
    instance: Instance
    phase: MovePhase
    limits: HostLimits = HostLimits()
    export: DiskExport | None = None
    key: TransferKey | None = None
    live_source: LiveSource | None = None
    live_destination: LiveDestination | None = None
    block: bool | None = None
    lacks_images: Annotated[tuple[FileName, ...], Meta(max_length=8)] = ()
    availability_zone: str = ""
    round: Count | None = None
    switched_back: bool | None = None

    @property
    def phase_key(self) -> PhaseKey:
        return PhaseKey(
            migration_uuid=self.migration.uuid,
            instance_uuid=self.instance.uuid,
            phase=self.phase,
            attempt=self.migration.attempt,
            round=self.round,
        )


class PhaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a phase ended on its host. `failure` None: with success; else it is for administrators, and `kind` is one of
    `objects/servers/failures.py`.

    `export`, `live_source`, `live_destination`, `lacks_images`: see `MoveMessage`. `power_state`: of the guest on this host, if it is known.
    `guest`: what the host has of the guest, if it was asked for that, or if the guest could not arrive. `handing_over`: the guest
    stands still at the source, and libvirt has yet to end it there.
    """

    power_state: PowerState | None = None
    export: DiskExport | None = None
    live_source: LiveSource | None = None
    live_destination: LiveDestination | None = None
    guest: GuestReport | None = None
    handing_over: bool = False
    lacks_images: Annotated[tuple[FileName, ...], Meta(max_length=8)] = ()
    failure: Reason | None = None
    kind: Line = ""

    @classmethod
    def failed(cls, error: Exception, guest: GuestReport | None = None) -> "PhaseResult":
        """Returns the result of a phase that this error has ended."""
        return cls(failure=str(error) or type(error).__name__, kind=kind_of(error), guest=guest)
