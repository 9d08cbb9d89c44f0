"""A late message of a move that had ended was executed if the server's next move waited for the same phase of the same host: a host defined
and started the guest as the earlier move had described it.
"""

import pytest

from minova import errors
from minova.context import RequestContext
from minova.objects.servers.moves import MovePhase, PhaseKey
from tests.faults.mover import Mover
from tests.faults.test_orders_of_live_migrations import phase

pytestmark = pytest.mark.timeout(300)
CTX = RequestContext(request_id="req-late", user_id="u", project_id="p", is_admin=True)


@pytest.mark.parametrize("at", [MovePhase.CLAIM, MovePhase.EXPORT, MovePhase.IMPORT, MovePhase.START])
def test_bug_late_phase_of_an_ended_move_is_begun(mover: Mover, at: MovePhase) -> None:
    mover.do("migrate")
    ended = mover.migration()
    mover.do("revert_resize")
    mover.ask("migrate")
    mover.wait(lambda: phase(mover) == at, step=0.01)
    host = ended.source_compute if at is MovePhase.EXPORT else ended.dest_compute
    now = mover.migration()
    assert (now.source_compute, now.dest_compute) == (ended.source_compute, ended.dest_compute)
    for migration, is_late in ((ended, True), (now, False)):
        key = PhaseKey(migration_uuid=migration.uuid, instance_uuid=mover.uuid, phase=at, attempt=migration.attempt)
        if is_late:
            with pytest.raises(errors.StaleAttempt):
                mover.cloud.conductor.begin_phase(CTX, phase=key, host=host)
        else:
            mover.cloud.conductor.begin_phase(CTX, phase=key, host=host)
    mover.wait()
    mover.do("confirm_resize")
    mover.require_sound()
