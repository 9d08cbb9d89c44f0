"""A conductor newer than its scheduler put creates into ERROR, and an older compute refused every message."""

from pathlib import Path

import pytest

from minova.contracts.base import numbers
from tests.faults.cloud import CONTROLLERS, Cloud
from tests.faults.storms import Storm, live
from tests.faults.world import LAST_RELEASE, Faults
from tests.nightly import daily

OLD = {
    "schedulers": {*CONTROLLERS["scheduler"]},
    "conductors": {*CONTROLLERS["conductor"]},
    "one of each": {CONTROLLERS["scheduler"][0], CONTROLLERS["conductor"][0], "host-0"},
}


def is_newer(call: str, version: str) -> bool:
    """Whether a call, such as `compute.build_and_run_instance`, came in a version that the last release does not serve."""
    return numbers(version) > numbers(LAST_RELEASE["contracts"][call.partition(".")[0]]["version"])


@pytest.mark.parametrize("old", daily(OLD, ("one of each",), "one of each has the services of both others"))
def test_all_invariants_hold_beside_services_of_the_last_release(tmp_path: Path, old: str) -> None:
    cloud = Cloud(1, tmp_path, hosts=3)
    cloud.begin_as_last_release(OLD[old])
    try:
        live(cloud, Storm(faults=Faults(lose=0.05)), requests=6)
        assert cloud.violations() == []
        # Calls in the form of this release may be refused, and then have another way; those that both releases know never are.
        assert [call for call in cloud.world.refused if not is_newer(*call)] == []
        refused = {method for method, _ in cloud.world.refused}
        assert refused.isdisjoint({"scheduler.select_destinations", "compute.build_and_run_instance"})
        assert refused.isdisjoint({"conductor.heartbeat", "conductor.instance_deleted"})
    finally:
        cloud.world.close()
