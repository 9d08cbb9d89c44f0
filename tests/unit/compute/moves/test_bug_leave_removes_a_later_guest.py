"""A host was asked a second time to remove what a move had left there, after an unshelve had brought the server back: the request
named no host, and the guest was removed with its disks.
"""

from typing import Any

import pytest

from minova import errors
from minova.compute.moves.move_records import MoveRecords
from minova.compute.moves.phases import ColdPhases
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.moves import MoveMessage, MovePhase
from minova.objects.servers.states import PowerState
from minova.virt.driver.disks import LeftDisks
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute
from tests.unit.compute.moves.test_phases import Check

ATTEMPT = 2


def leave(compute: Compute, *, is_source: bool, deleted: bool = False, **of_row: Any) -> None:
    here, there = ("source", "dest") if is_source else ("dest", "source")
    places: dict[str, Any] = {
        f"{here}_compute": HOST,
        f"{here}_node": NODE,
        f"{there}_compute": "other",
        f"{there}_node": "other-node",
    }
    migration = Migration(
        uuid="m",
        instance_uuid="i",
        migration_type=MigrationType.MIGRATION,
        status="completed",
        attempt=ATTEMPT,
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
        **places,
    )
    nothing: Any = None
    collaborators = compute.manager.collaborators
    records = MoveRecords(compute.hypervisor, collaborators.nodes, collaborators.builder.domains.records)
    phases = ColdPhases(compute.conf, HOST, compute.hypervisor, nothing, collaborators.nodes, records, nothing).phases()
    instance = Instance(uuid="i", display_name="vm", flavor=FLAVOR, project_id="p", deleted=deleted, **of_row)
    phases[MovePhase.LEAVE](CTX, MoveMessage(migration=migration, instance=instance, phase=MovePhase.LEAVE), Check())


def with_guest(attempt: int) -> Compute:
    compute = Compute().start()
    compute.hypervisor.add_domain("i", NODE, 512, attempt=attempt)
    return compute


@pytest.mark.parametrize(("is_source", "attempt"), [(True, ATTEMPT), (True, ATTEMPT + 1), (False, ATTEMPT + 1)])
def test_bug_guest_that_has_come_back_is_removed(is_source: bool, attempt: int) -> None:
    compute = with_guest(attempt)
    with pytest.raises(errors.GuestStateUnexpected, match="later attempt"):
        leave(compute, is_source=is_source)
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_bug_disks_that_have_come_back_are_removed() -> None:
    compute = Compute().start()
    compute.hypervisor.disks_left = [LeftDisks(uuid="i", attempt=ATTEMPT + 1, disk_gb=1)]
    with pytest.raises(errors.GuestStateUnexpected, match="later attempt"):
        leave(compute, is_source=True)
    assert compute.hypervisor.destroyed == []


@pytest.mark.parametrize(("is_source", "attempt"), [(True, ATTEMPT - 1), (False, ATTEMPT)])
def test_what_the_move_has_left_is_removed(is_source: bool, attempt: int) -> None:
    compute = with_guest(attempt)
    leave(compute, is_source=is_source)
    assert compute.domains() == {}


def test_bug_debt_that_no_host_could_pay() -> None:
    """A restored database has lost a revert and another move from here: the copy is later than the move that it knows."""
    compute = with_guest(ATTEMPT + 1)
    with pytest.raises(errors.GuestStateUnexpected, match="later attempt"):
        leave(compute, is_source=True, host=None, attempt=ATTEMPT + 2)
    with pytest.raises(errors.GuestStateUnexpected, match="later attempt"):
        leave(compute, is_source=True, host="other", attempt=ATTEMPT + 1)
    leave(compute, is_source=True, host="other", attempt=ATTEMPT + 2)
    assert compute.domains() == {}


def test_what_is_left_of_a_deleted_server_is_removed() -> None:
    compute = with_guest(ATTEMPT + 1)
    leave(compute, is_source=True, deleted=True)
    assert compute.domains() == {}
