"""The first hundred hosts that still had to remove something were read before those were left out that may not be asked now,
or that ask by themselves. So a hundred of these kept all later ones waiting.
"""

from minova.db.servers import migrations
from minova.objects.servers.migration import Hold, MigrationType
from tests.functional.conductor.conductor_harness import ConductorHarness
from tests.functional.conductor.hosts.test_bug_old_migration_proves_removal import is_to_go, moved, set_row

MOST = 3


def owed(
    harness: ConductorHarness, uuid: str, kind: MigrationType = MigrationType.MIGRATION, hold: Hold = Hold.NONE
) -> None:
    moved(harness, uuid, "a", "b", 2, status="error", kind=kind, cleanup_host="a", hold=hold)


def asked(harness: ConductorHarness, after: int = 0) -> dict[int, str]:
    with harness.db.read() as session:
        debts = migrations.to_clean(session, {"a"}, MOST, after=after)
    return {number: migration.instance_uuid for number, migration in debts.items()}


def test_bug_copies_that_are_held_and_evacuations_keep_others_waiting(harness: ConductorHarness) -> None:
    first, second, free = (harness.active("a") for _ in range(3))
    for _ in range(MOST):
        owed(harness, first, hold=Hold.UNPROVEN)
        owed(harness, second, kind=MigrationType.EVACUATION)
    owed(harness, free)
    assert [*asked(harness).values()] == [free]


def test_bug_hosts_that_fail_again_and_again_keep_others_waiting(harness: ConductorHarness) -> None:
    servers = [harness.active("a") for _ in range(MOST + 1)]
    for uuid in servers:
        owed(harness, uuid)
    first = asked(harness)
    assert [*first.values(), *asked(harness, after=max(first)).values()] == servers


def test_a_copy_of_a_deleted_server_is_not_held(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    owed(harness, uuid, hold=Hold.LAST)
    assert asked(harness) == {}
    set_row(harness, uuid, deleted_at=harness.conductor.worker.at())
    assert [*asked(harness).values()] == [uuid]


def test_bug_an_audit_removes_a_copy_that_is_held(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    owed(harness, uuid, hold=Hold.UNPROVEN)
    set_row(harness, uuid, host="b", node="b-node", attempt=2, vm_state="error")
    assert not is_to_go(harness, "a", uuid, 1)
