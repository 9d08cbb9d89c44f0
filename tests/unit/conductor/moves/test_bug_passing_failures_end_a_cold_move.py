"""libvirt restarts while a cold move shuts its guest down. The source was told to take the guest back, could not do that in the same
second, and the server ended in ERROR with its guest off. A destination that met the same at the start ended in ERROR, too.
"""

import pytest

from minova.conductor.moves.plan import PASSING, MovePlan, waits
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
