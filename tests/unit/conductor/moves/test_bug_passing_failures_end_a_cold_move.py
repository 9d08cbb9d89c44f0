"""libvirt restarts while a cold move shuts its guest down. The source was told to take the guest back, could not do that in the same
second, and the server ended in ERROR with its guest off. A destination that met the same at the start ended in ERROR, too.
"""

import msgspec
import pytest

from minova.conductor.moves.plan import MOST_STARTS, PASSING, MovePlan, waits
from minova.objects.servers.failures import Failure
from minova.objects.servers.moves import MovePhase


def is_waited_for(phase: MovePhase, kind: str) -> bool:
    return waits(MovePlan(migration_uuid="m", phase=phase), Failure(kind=kind, details="x"))


@pytest.mark.parametrize("kind", sorted(PASSING))
def test_bug_the_only_host_that_can_start_the_guest_is_asked_again(kind: str) -> None:
    assert is_waited_for(MovePhase.RESTORE, kind)
    assert is_waited_for(MovePhase.START, kind)


@pytest.mark.parametrize("phase", [MovePhase.CLAIM, MovePhase.EXPORT, MovePhase.IMPORT, MovePhase.RELEASE])
def test_a_move_that_can_go_back_does_so_at_once(phase: MovePhase) -> None:
    assert not is_waited_for(phase, "HypervisorUnavailable")


@pytest.mark.parametrize("phase", [MovePhase.RESTORE, MovePhase.START])
def test_a_failure_that_stays_ends_the_move(phase: MovePhase) -> None:
    assert not is_waited_for(phase, "HypervisorError")


def test_bug_a_destination_that_cannot_start_the_guest_was_waited_for_without_end() -> None:
    busy = Failure(kind="GuestBusy", details="a job is stuck")
    plan = MovePlan(migration_uuid="m", phase=MovePhase.START, asks=MOST_STARTS - 1)
    assert waits(plan, busy)
    assert not waits(msgspec.structs.replace(plan, asks=MOST_STARTS), busy)
    # No other host has the server's disks then.
    assert waits(msgspec.structs.replace(plan, phase=MovePhase.RESTORE, asks=10 * MOST_STARTS), busy)


@pytest.mark.parametrize("phase", [MovePhase.RESTORE, MovePhase.START])
def test_bug_a_full_disk_ended_the_move_at_once(phase: MovePhase) -> None:
    full = Failure(kind="DiskFull", details="no space")
    plan = MovePlan(migration_uuid="m", phase=phase, asks=MOST_STARTS - 1)
    assert waits(plan, full)
    assert not waits(msgspec.structs.replace(plan, asks=MOST_STARTS), full)
