"""Which worker of pytest-xdist runs which tests: `python -m pytest --numprocesses 3`; tools/test does so.

The tests of a file stay together, since they may share a deployment. Tests that mostly wait, those with real servers, begin at
once on some workers and keep the processors free for the others, which begin with those that compute.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

WAITING = "tests/integration/"
# Every third worker begins with what computes.
COMPUTING_WORKERS = 3
# Files whose tests are handed out one by one: they are long, and share nothing.
SEPARATE = ("tests/faults/", "tests/integration/db/test_conductor_on_servers.py")
VIRT = "tests/integration/virt/"
KEYSTONE = "tests/integration/keystone/"
# Scopes whose tests are handed out together, by how they begin: those with Keystone share one, and of those with guests two files
# take pages of the machine's memory, and another compares how much it has.
TOGETHER = {
    KEYSTONE: KEYSTONE,
    f"{VIRT}test_numa_guests.py": f"{VIRT}memory",
    f"{VIRT}test_pinned_guest.py": f"{VIRT}memory",
    f"{VIRT}test_guest.py": f"{VIRT}memory",
}
# What takes longest begins first, so that no worker is left alone with it at the end.
LONGEST = (
    "tests/integration/test_soak.py",
    "tests/integration/test_rolling_upgrade.py",
    VIRT,
    KEYSTONE,
    "tests/integration/neutron/",
    "tests/integration/test_openstack_client.py",
    "tests/integration/test_host_identity.py",
    "tests/integration/test_wheel.py",
    "tests/integration/test_cloud.py",
    "tests/integration/test_servers_away.py",
    "tests/faults/test_the_harness_itself.py",
    "tests/faults/",
    "tests/functional/compute/test_tracker_laws.py",
    "tests/security/test_fuzzing.py",
    "tests/security/test_rogue_compute.py",
    "tests/functional/placement/test_whole_model.py",
    "tests/functional/conductor/",
)


class Distribution(LoadScopeScheduling):  # type: ignore[misc]  # of a library without types
    def __init__(self, config: pytest.Config, log: Producer) -> None:
        # The order stays as pytest-randomly has shuffled it, apart from what `_assign_work_unit` prefers.
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        for start, scope in TOGETHER.items():
            if nodeid.startswith(start):
                return scope
        return nodeid if nodeid.startswith(SEPARATE) else nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """A test in which its worker died has failed. It is not begun again beside the others, on the worker that follows."""
        units = self.assigned_work[node].values()
        crashed = next(((unit, test) for unit in units for test, ended in unit.items() if not ended), None)
        if crashed is not None:
            unit, test = crashed
            unit[test] = True
        following: str | None = super().remove_node(node)
        return following if crashed is None else crashed[1]

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Put the next file for this worker in front, and assign it."""
        waits = int(node.gateway.id.removeprefix("gw")) % COMPUTING_WORKERS != COMPUTING_WORKERS - 1
        chosen = min(self.workqueue, key=lambda scope: (scope.startswith(WAITING) != waits, _rank(scope)))
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    """`min` takes the first of those that are alike."""
    return next((rank for rank, start in enumerate(LONGEST) if scope.startswith(start)), len(LONGEST))
