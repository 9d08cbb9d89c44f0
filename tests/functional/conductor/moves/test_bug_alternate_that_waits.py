"""A live migration whose first destination cannot take the guest, while its alternate migrates another one."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db.models import Instance
from minova.objects.actions.moves import LIVE_MIGRATE, MoveRequest
from minova.objects.servers.states import PowerState
from tests.faults.mover import Mover
from tests.faults.world import Process

pytestmark = pytest.mark.timeout(300)
# Statuses of a migration that has left its first destination.
LATER = {"queued", "error", "completed"}


class Exports:
    """What the source serves ends with its process: a destination with an older description meets a closed port."""

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._served_by: list[Process] = []
        for driver in mover.cloud.drivers.values():
            driver.prepare_live = self._around(driver.prepare_live, self._require_served)  # type: ignore[method-assign]
        source = mover.cloud.drivers[mover.source]
        source.live_source = self._around(source.live_source, self._serve)  # type: ignore[method-assign]

    def _around(self, operation: Any, before: Any) -> Any:
        def begin(instance: Any, *more: Any) -> Any:
            if instance.uuid == self._mover.uuid:
                before()
            return operation(instance, *more)

        return begin

    def _serve(self) -> None:
        self._served_by.append(self._mover.world.processes[self._mover.source])

    def _require_served(self) -> None:
        if self._served_by[-1] is not self._mover.world.processes[self._mover.source]:
            raise errors.HypervisorError("connection refused")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_bug_live_migration_ended_where_its_alternate_was_busy(tmp_path: Path, *, is_restarted: bool) -> None:
    """It failed, too, if minova-compute on its source was restarted while it waited."""
    mover = Mover(tmp_path, hosts=4)
    alternates: list[str] = []

    def refuse(*_: object, **__: object) -> None:
        raise errors.HypervisorError("no")

    def ask_meanwhile() -> None:
        mover.ask("live_migrate")
        mover.wait(lambda: mover.migration().instance_uuid == mover.uuid and mover.migration().status in LATER)
        assert mover.migration().status == "queued"
        alternates.append(mover.migration().dest_compute)
        if is_restarted:
            process = mover.world.processes[mover.source]
            mover.world.kill(process)
            mover.wait(lambda: mover.world.processes[mover.source] is not process)

    try:
        mover.cloud.create(2, 1)
        mover.wait()
        (other,) = mover.cloud.acknowledged - {mover.uuid}
        with mover.cloud.db.read() as session:
            busy = str(session.scalar(select(Instance.host).where(Instance.uuid == other)))
        first, there = sorted({*mover.cloud.hosts} - {mover.source, busy})
        mover.cloud.drivers[first].check_live = refuse  # type: ignore[method-assign]
        mover.cloud.drivers[busy].live_rounds = 1
        mover.cloud.drivers[busy].between_rounds = ask_meanwhile
        Exports(mover)
        request = msgspec.to_builtins(MoveRequest(host=there))
        admin = msgspec.structs.replace(mover.cloud.user(), is_admin=True)
        mover.cloud.conductor.start_action(admin, instance_uuid=other, action=LIVE_MIGRATE.kind, arguments=request)
        mover.wait()
        (alternate,) = alternates
        assert alternate in {busy, there}
        assert mover.state == ("active", None, alternate)
        assert mover.domains() == {alternate: PowerState.RUNNING}
        assert mover.migration().status == "completed"
    finally:
        mover.cloud.world.close()
