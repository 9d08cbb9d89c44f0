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

    a finished move:
    leave         source: removes what it kept for a revert              confirming, confirmed
    discard, then restore                                                reverting, reverted     resize_reverting
"""

from enum import StrEnum

import msgspec

from minova.objects.hosts.bounds import Count, Line, Reason
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.disk_export import DiskExport, TransferKey
from minova.objects.servers.instance import Instance
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


# The phases of a move whose work is the destination's. All others but `schedule` are the source's.
AT_DESTINATION = frozenset({MovePhase.CLAIM, MovePhase.IMPORT, MovePhase.START, MovePhase.DISCARD})
# The phases in which a move can still be taken back without a revert.
BEFORE_SWITCH = frozenset({MovePhase.SCHEDULE, MovePhase.CLAIM, MovePhase.EXPORT, MovePhase.IMPORT, MovePhase.RELEASE})


class PhaseKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a host names when it reports: the fence of moves. `attempt`: of the migration, as the host got it."""

    migration_uuid: Line
    instance_uuid: Line
    phase: MovePhase
    attempt: Count


class MoveMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a move for its host.

    `instance`: as its row is now; after the switch it has the destination, the new flavor and the new attempt.
    `export`: what the source serves, for `import`. `key`: of the transfer of this move alone.
    `availability_zone`: of the host, for a guest with a config drive; empty: the default zone.
    """

    migration: Migration
    instance: Instance
    phase: MovePhase
    limits: HostLimits = HostLimits()
    export: DiskExport | None = None
    key: TransferKey | None = None
    availability_zone: str = ""

    @property
    def phase_key(self) -> PhaseKey:
        return PhaseKey(
            migration_uuid=self.migration.uuid,
            instance_uuid=self.instance.uuid,
            phase=self.phase,
            attempt=self.migration.attempt,
        )


class PhaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a phase ended on its host. `failure` None: with success; else it is for administrators, and `kind` is one of
    `objects/servers/failures.py`.

    `export`: see `MoveMessage`. `power_state`: of the guest on this host, if it is known.
    """

    power_state: PowerState | None = None
    export: DiskExport | None = None
    failure: Reason | None = None
    kind: Line = ""
