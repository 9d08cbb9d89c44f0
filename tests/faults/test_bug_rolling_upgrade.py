"""A conductor newer than its scheduler put creates into ERROR, and an older compute refused every message."""

from pathlib import Path

import pytest

from tests.faults.cloud import CONTROLLERS, Cloud
from tests.faults.storms import Storm, live
from tests.faults.world import Faults

OLD = {
    "schedulers": {*CONTROLLERS["scheduler"]},
    "conductors": {*CONTROLLERS["conductor"]},
    "one of each": {CONTROLLERS["scheduler"][0], CONTROLLERS["conductor"][0], "host-0"},
}


@pytest.mark.parametrize("old", OLD)
def test_all_invariants_hold_beside_services_of_the_last_release(tmp_path: Path, old: str) -> None:
    cloud = Cloud(1, tmp_path, hosts=3)
    cloud.world.last_release = OLD[old]
    try:
        live(cloud, Storm(faults=Faults(lose=0.05)), requests=6)
        assert cloud.violations() == []
        # Calls of this release may be refused, and then have another way; those that both know never are.
        refused = {*cloud.world.refused}
        assert refused.isdisjoint({"scheduler.select_destinations", "compute.build_and_run_instance"})
        assert refused.isdisjoint({"conductor.heartbeat", "conductor.build_succeeded", "conductor.instance_deleted"})
    finally:
        cloud.world.close()
