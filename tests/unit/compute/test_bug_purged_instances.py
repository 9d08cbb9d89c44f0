"""What a host does with domains of purged instances: stopped and reported, then removed. Others are left alone."""

from typing import Any

import pytest

from minova.compute.accounting.running_deleted import RunningDeleted
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.states import PowerState
from tests.fakes.computes import NODE, Compute
from tests.unit.compute.periodic.test_periodic_tasks import work

RUNNING, OFF = PowerState.RUNNING, PowerState.SHUTDOWN
CLEAN_UP = "cleanup_running_deleted_instances"


def compute_with_purged_domain(**options: Any) -> Compute:
    """The host comes back with a guest whose row was purged, one that no row has ever known, and a stranger's."""
    compute = Compute(**options).start()
    for uuid in ("purged", "unknown"):
        compute.hypervisor.add_domain(uuid, NODE, 256, attempt=1)
    compute.hypervisor.add_domain("stranger", NODE, 256, ours=False)
    compute.conductor.purged = {"purged", "stranger"}
    return compute


def test_it_is_stopped_and_reported_and_reaped_at_a_later_look() -> None:
    compute = compute_with_purged_domain()
    now = [1000.0]
    compute.ticks = lambda: now[0]
    work(compute, CLEAN_UP)
    assert compute.domains() == {"purged": OFF, "unknown": RUNNING, "stranger": RUNNING}
    audit = compute.conductor.audits[compute.row.uuid]
    assert audit is not None
    assert audit.unexpected_domains == ("purged",)
    now[0] += 1799
    work(compute, CLEAN_UP)
    assert "purged" in compute.domains()
    now[0] += 1
    work(compute, CLEAN_UP)
    assert compute.domains() == {"unknown": RUNNING, "stranger": RUNNING}


def test_it_is_not_reaped_when_a_row_turns_up_after_all() -> None:
    compute = compute_with_purged_domain()
    now = [1000.0]
    compute.ticks = lambda: now[0]
    work(compute, CLEAN_UP)
    compute.boot("other")
    compute.conductor.instances["purged"] = compute.conductor.instances["other"]
    now[0] += 1800
    work(compute, CLEAN_UP)
    assert "purged" in compute.domains()


DOMAIN = DomainView(uuid="u", name="n", memory_mb=1, vcpus=1, power_state=RUNNING)


@pytest.mark.parametrize(
    ("policy", "known_for", "asked"),
    [
        (RunningDeleted(action="noop"), 1e9, None),
        (RunningDeleted(looks=False), 1e9, None),
        (RunningDeleted(action="log"), 1e9, "log"),
        (RunningDeleted(action="shutdown"), 1e9, "shutdown"),
        (RunningDeleted(action="reap", interval=60), 0.0, "shutdown"),
        (RunningDeleted(action="reap", interval=60), 60.0, "reap"),
        (RunningDeleted(action="reap", interval=60, timeout=100), 99.0, "shutdown"),
        (RunningDeleted(action="reap", interval=60, timeout=100), 100.0, "reap"),
    ],
)
def test_what_the_options_ask(policy: RunningDeleted, known_for: float, asked: str | None) -> None:
    assert policy.asked_of_purged(DOMAIN, known_for) == asked
