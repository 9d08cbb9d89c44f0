"""A locked server is moved by nobody without the override, and no order about its move counts."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select

from minova import errors
from minova.context import RequestContext
from minova.db.models import InstanceAction
from minova.objects.actions.moves import MoveRequest
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.servers.server_changes import ServerChanges
from tests.faults.cloud import LARGER
from tests.faults.mover import Mover
from tests.faults.test_evacuation import force, power_cut

pytestmark = pytest.mark.timeout(300)
CTX = RequestContext(request_id="req-order", user_id="u", project_id="p", is_admin=True)
Order = Callable[..., None]


def begin(mover: Mover, kind: str, **arguments: Any) -> Order:
    def order(**more: Any) -> None:
        mover.cloud.conductor.start_action(CTX, instance_uuid=mover.uuid, action=kind, arguments=arguments, **more)

    return order


def move(kind: str, **request: Any) -> Callable[[Mover], Order]:
    return lambda mover: begin(mover, kind, **msgspec.to_builtins(MoveRequest(**request)))


def settle(kind: str) -> Callable[[Mover], Order]:
    def resized(mover: Mover) -> Order:
        mover.do("resize", LARGER)
        return begin(mover, kind)

    return resized


def evacuation(mover: Mover) -> Order:
    power_cut(mover.cloud, mover.source)
    force(mover.cloud, mover.source, down=True)
    return lambda **more: mover.cloud.conductor.evacuate_server(
        CTX, instance_uuid=mover.uuid, request=EvacuationRequest(), **more
    )


ORDERS: dict[str, Callable[[Mover], Order]] = {
    "migrate": move("migrate"),
    "live migrate": move("live_migrate"),
    "resize": move("resize", flavor=LARGER),
    "confirm": settle("confirm_resize"),
    "revert": settle("revert_resize"),
    "evacuate": evacuation,
}


def lock(mover: Mover) -> None:
    ctx = msgspec.structs.replace(CTX, request_id="req-lock")
    mover.cloud.conductor.update_server(ctx, instance_uuid=mover.uuid, changes=ServerChanges(lock=True))


def actions(mover: Mover) -> int:
    with mover.cloud.db.read() as session:
        return session.scalar(select(func.count()).select_from(InstanceAction)) or 0


def require_locked(mover: Mover, order: Order) -> None:
    """The order is refused, and changes nothing."""
    before = (mover.state, actions(mover), mover.migration())
    with pytest.raises(errors.Conflict, match=f"^Instance {mover.uuid} is locked$"):
        order()
    assert (mover.state, actions(mover), mover.migration()) == before


@pytest.mark.parametrize("name", ORDERS)
def test_a_locked_server_does_not_move_without_the_override(mover: Mover, name: str) -> None:
    order = ORDERS[name](mover)
    lock(mover)
    require_locked(mover, order)
    order(override_lock=True)
    mover.wait(seconds=120.0)
    assert mover.row.locked_by == "owner"
    assert mover.migration().status in {"finished", "completed", "confirmed", "reverted", "accepted", "done"}


@pytest.mark.parametrize(
    ("method", "status"), [("cancel_move", "cancelled"), ("force_complete_migration", "completed")]
)
def test_no_order_about_the_migration_of_a_locked_server_counts_without_the_override(
    mover: Mover, method: str, status: str
) -> None:
    rounds: list[int] = []

    def order(**more: Any) -> None:
        call = getattr(mover.cloud.conductor, method)
        call(CTX, instance_uuid=mover.uuid, migration_uuid=mover.migration().uuid, **more)

    def give_orders() -> None:
        rounds.append(1)
        mover.world.run(1.0)
        if len(rounds) == 2:
            lock(mover)
            require_locked(mover, order)
        if len(rounds) == 5:
            order(override_lock=True)

    source = mover.cloud.drivers[mover.source]
    source.live_rounds, source.between_rounds = 1000, give_orders
    mover.ask("live_migrate")
    mover.wait(lambda: bool(rounds) and mover.is_at_rest(), step=0.5)
    assert 5 <= len(rounds) < 10
    assert mover.migration().status == status
