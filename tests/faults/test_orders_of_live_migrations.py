"""Users abort, force and delete a live migration at each of its phases, in each order and twice: each time the guest runs once, where its
row says, and both hosts count only that.

The ordinary run has the phases with most at stake; MINOVA_TABLE=all all of them (tools/check nightly).
"""

import itertools
import os
from contextlib import suppress

import pytest
from sqlalchemy import select

from minova import errors
from minova.context import RequestContext
from minova.db.models import Task
from minova.objects.servers.states import PowerState
from tests.faults.mover import Mover

pytestmark = pytest.mark.timeout(1200)
PHASES = ("describe", "check", "prepare", "migrate", "arrive", "leave")
CORE = ("prepare", "migrate")
ORDERS = (("abort", "force"), ("force", "abort"), ("abort", "abort"))
IS_WHOLE = os.environ.get("MINOVA_TABLE") == "all"


def phase(mover: Mover) -> str | None:
    with mover.cloud.db.read() as session:
        payload = session.scalar(select(Task.payload))
    return None if payload is None else str(payload.get("phase"))


class Orders:
    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._requests = itertools.count()

    def __call__(self, what: str) -> bool:
        """Returns whether it was accepted. It is refused once it comes too late, or too early."""
        mover = self._mover
        ctx = RequestContext(request_id=f"req-order-{next(self._requests)}", user_id="u", project_id="p", is_admin=True)
        conductor = mover.cloud.conductor
        order = conductor.cancel_move if what == "abort" else conductor.force_complete_migration
        with suppress(errors.Conflict):
            order(ctx, instance_uuid=mover.uuid, migration_uuid=mover.migration().uuid)
            return True
        return False


@pytest.mark.parametrize("orders", ORDERS, ids="-".join)
def test_orders_at_each_phase_leave_one_guest(mover: Mover, orders: tuple[str, str]) -> None:
    give = Orders(mover)
    for driver in mover.cloud.drivers.values():
        driver.between_rounds = lambda: mover.world.run(1.0)
    for at in PHASES if IS_WHOLE else CORE:
        before, there = mover.row.host, mover.other
        mover.ask("live_migrate")
        mover.wait(lambda at=at: phase(mover) == at, step=0.01)  # type: ignore[misc]
        accepted = [give(order) for order in orders]
        mover.wait()
        status = mover.migration().status
        # The first order holds; an abort after it may still be accepted as long as nothing has left.
        if orders[0] == "abort" and accepted[0]:
            assert (status, mover.row.host) == ("cancelled", before), at
        elif not any(accepted):
            assert (status, mover.row.host) == ("completed", there), at
        assert (at in {"arrive", "leave"}) is (status == "completed" and not any(accepted)), (at, accepted)
        mover.wait(lambda: list(mover.domains()) == [mover.row.host], 60.0)
        assert mover.domains() == {mover.row.host: PowerState.RUNNING}
        assert set(mover.holders()) == {"instance"}
    mover.require_sound()


@pytest.mark.parametrize("at", PHASES if IS_WHOLE else ("migrate",))
def test_a_deletion_beside_an_order_leaves_nothing(mover: Mover, at: str) -> None:
    give = Orders(mover)
    for driver in mover.cloud.drivers.values():
        driver.between_rounds = lambda: mover.world.run(1.0)
    mover.ask("live_migrate")
    mover.wait(lambda: phase(mover) == at, step=0.01)
    give("abort")
    give("force")
    mover.delete()
    mover.wait(lambda: not mover.domains(), 90.0)
    assert mover.holders() == {}
    mover.require_sound()
