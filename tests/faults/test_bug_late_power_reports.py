"""A report that a guest is off came late or twice, when its user had started it again. Its row became `stopped`, and the next audit asked
the guest to shut down.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from minova.conductor.hosts.compute_nodes import ComputeNodes
from minova.context import RequestContext
from minova.db.models import Instance
from minova.objects.actions.power import START
from minova.objects.servers.states import PowerState
from tests.faults.cloud import Cloud
from tests.faults.world import Faults

pytestmark = pytest.mark.timeout(600)
ROUNDS = 8


def a_story(folder: Path) -> list[str]:
    """Guests shut themselves down, and their users start them as soon as they can. Every message comes twice."""
    cloud = Cloud(1, folder, hosts=2)
    try:
        cloud.world.run(30.0)
        cloud.create(1, 4)
        cloud.world.run(60.0)
        cloud.world.faults = Faults(double=1.0)
        for _ in range(ROUNDS):
            for host, uuid in sorted(cloud.running()):
                cloud.drivers[host].turn(uuid, PowerState.SHUTDOWN)
            for _ in range(30):
                cloud.world.run(1.0)
                with cloud.db.read() as session:
                    off = (Instance.vm_state == "stopped", Instance.task_state.is_(None))
                    stopped = sorted(session.scalars(select(Instance.uuid).where(*off)))
                for uuid in stopped:
                    cloud.act(uuid, START.kind)
        cloud.world.faults = Faults()
        cloud.world.run(200.0)
        return cloud.violations()
    finally:
        cloud.world.close()


def test_a_late_report_stops_no_guest_that_was_started_since(tmp_path: Path) -> None:
    assert a_story(tmp_path) == []


@pytest.mark.nightly("shows that the test above can fail, with a story as long as its own")
def test_reports_without_a_proof_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = ComputeNodes.report_power_states

    def at_once(
        self: ComputeNodes,
        ctx: RequestContext,
        host: str,
        states: Mapping[str, int],
        reasons: Mapping[str, str] | None = None,
        after: Any = None,
    ) -> dict[str, int]:
        follow(self, ctx, host, states, reasons)
        return {}

    monkeypatch.setattr(ComputeNodes, "report_power_states", at_once)
    assert any("was stopped without its user" in violation for violation in a_story(tmp_path))
