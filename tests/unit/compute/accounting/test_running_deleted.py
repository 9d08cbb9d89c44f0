"""What becomes of domains of deleted instances, by the operator's options."""

import msgspec
import pytest

from minova.compute.accounting.audit import audit_node
from minova.compute.accounting.running_deleted import RunningDeleted
from minova.objects.catalogue.flavor import Overhead
from minova.objects.servers.build import AuditInputs
from minova.objects.servers.states import PowerState
from tests.unit.compute.accounting.test_audit import SETTINGS, a_domain, a_view

REAP, LOG, SHUTDOWN = (RunningDeleted(action=action) for action in ("reap", "log", "shutdown"))


@pytest.mark.parametrize(
    ("policy", "seconds", "changes", "wanted"),
    [
        (RunningDeleted(), 0, {}, "reap"),
        (RunningDeleted(timeout=60), 59, {}, None),
        (RunningDeleted(timeout=60), 60, {}, "reap"),
        (RunningDeleted(looks=False), 99, {}, None),
        (RunningDeleted(action="noop"), 99, {}, None),
        (LOG, 0, {}, "log"),
        (SHUTDOWN, 0, {}, "shutdown"),
        (SHUTDOWN, 0, {"power_state": PowerState.SHUTDOWN}, None),
        (LOG, 0, {"power_state": PowerState.SHUTDOWN}, "log"),
        (REAP, 0, {"ours": False}, None),
    ],
)
def test_what_is_done_with_a_domain(
    policy: RunningDeleted, seconds: float, changes: dict[str, object], wanted: str | None
) -> None:
    assert policy.asked_of(a_domain("d", **changes), seconds) == wanted


@pytest.mark.parametrize(
    ("policy", "seconds", "changes", "wanted"),
    [
        (RunningDeleted(interval=60), 0, {}, "shutdown"),
        (RunningDeleted(interval=60), 59, {"power_state": PowerState.SHUTDOWN}, None),
        (RunningDeleted(interval=60), 60, {}, "reap"),
        (RunningDeleted(interval=60, timeout=90), 89, {}, "shutdown"),
        (RunningDeleted(interval=60, timeout=90), 90, {}, "reap"),
        (RunningDeleted(interval=60, looks=False), 99, {}, None),
        (RunningDeleted(action="noop"), 99, {}, None),
        (LOG, 99, {}, "log"),
        (SHUTDOWN, 99, {}, "shutdown"),
        (SHUTDOWN, 99, {"power_state": PowerState.SHUTDOWN}, None),
        (REAP, 99, {"ours": False}, None),
    ],
)
def test_a_domain_of_a_purged_instance_is_stopped_first_and_removed_at_a_later_check(
    policy: RunningDeleted, seconds: float, changes: dict[str, object], wanted: str | None
) -> None:
    assert policy.asked_of_purged(a_domain("d", **changes), seconds) == wanted


@pytest.mark.parametrize(
    ("policy", "deleted", "ours", "unexpected_domains"),
    [
        (REAP, {"gone": 0.0}, True, ["gone", "moved"]),
        (RunningDeleted(timeout=60), {"gone": 10.0}, True, ["moved"]),
        (RunningDeleted(timeout=60), {"gone": 60.0}, True, ["gone", "moved"]),
        (LOG, {"gone": 9999.0}, True, ["moved"]),
        (SHUTDOWN, {"gone": 9999.0}, True, ["moved"]),
        (RunningDeleted(looks=False), {"gone": 9999.0}, True, ["moved"]),
        (REAP, {"gone": 0.0}, False, []),
    ],
)
def test_an_audit_removes_those_of_deleted_instances_only_where_they_are_to_be_reaped(
    policy: RunningDeleted, deleted: dict[str, float], ours: bool, unexpected_domains: list[str]
) -> None:
    view = a_view(*(a_domain(uuid, ours=ours) for uuid in ("gone", "moved")))
    settings = msgspec.structs.replace(SETTINGS, running_deleted=policy)
    inputs = AuditInputs(unexpected_domains=("gone", "moved"), deleted=deleted)
    finding = audit_node(view, inputs, settings, new_uuid="new", overhead=lambda flavor: Overhead())
    assert [domain.uuid for domain in finding.unexpected_domains] == unexpected_domains
    # Until they are gone they count.
    assert finding.node_usage.node.memory_mb_used == 512 + 600
