"""A live migration whose first destination cannot take the guest, while its alternate migrates another one."""

from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.conductor.moves.destinations.live_queue import LiveQueue
from minova.objects.servers.states import PowerState
from tests.faults.mover import Mover

pytestmark = pytest.mark.timeout(300)


def test_bug_live_migration_ended_where_its_alternate_was_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mover = Mover(tmp_path, hosts=3)
    busy: list[str] = []
    may_go = LiveQueue.may_go

    def may_go_unless_busy(queue: LiveQueue, session: Any, migration: Any) -> bool:
        return migration.dest_compute not in busy and may_go(queue, session, migration)

    def refuse(*_: object, **__: object) -> None:
        (alternate,) = {*mover.cloud.hosts} - {mover.source, str(mover.migration().dest_compute)}
        busy.append(alternate)
        raise errors.HypervisorError("no")

    try:
        monkeypatch.setattr(LiveQueue, "may_go", may_go_unless_busy)
        for host in {*mover.cloud.hosts} - {mover.source}:
            mover.cloud.drivers[host].check_live = refuse  # type: ignore[method-assign]
        mover.ask("live_migrate")
        mover.wait(lambda: mover.migration() is not None and mover.migration().status in {"queued", "error"})
        assert mover.migration().status == "queued"
        (alternate,) = busy
        del mover.cloud.drivers[alternate].check_live
        busy.clear()
        mover.wait()
        assert mover.state == ("active", None, alternate)
        assert mover.domains() == {alternate: PowerState.RUNNING}
    finally:
        mover.cloud.world.close()
