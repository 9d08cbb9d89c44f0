"""Moves through the real services in a simulated world: what is left where, with nothing and with everything going wrong."""

import math
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.conductor.moves import plan
from minova.context import RequestContext
from minova.db import quotas
from minova.db.models import ComputeNode, Inventory, RequestSpecRow
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.states import PowerState
from tests.faults.cloud import CONTROLLERS, FLAVOR, LARGER
from tests.faults.mover import Mover
from tests.faults.test_evacuation import evacuate
from tests.nightly import daily

pytestmark = pytest.mark.timeout(300)


def test_a_migration_is_confirmed(mover: Mover) -> None:
    mover.do("migrate")
    vm_state, _, host = mover.state
    assert vm_state == "resized"
    assert host not in (None, mover.source)
    assert mover.domains() == {mover.source: PowerState.SHUTDOWN, host: PowerState.RUNNING}
    assert set(mover.holders()) == {"instance", "migration"}
    assert mover.migration().status == "finished"
    mover.do("confirm_resize")
    assert mover.state == ("active", None, host)
    assert mover.domains() == {host: PowerState.RUNNING}
    assert mover.migration().status == "confirmed"
    mover.require_sound()


def test_a_resize_is_reverted(mover: Mover) -> None:
    mover.do("resize", LARGER)
    assert mover.row.flavor.flavorid == "2"
    mover.do("revert_resize")
    assert mover.state == ("active", None, mover.source)
    assert mover.row.flavor == FLAVOR
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    assert mover.migration().status == "reverted"
    mover.require_sound()


def test_a_resize_is_confirmed(mover: Mover) -> None:
    mover.do("resize", LARGER)
    mover.do("confirm_resize")
    assert mover.row.flavor == LARGER
    assert mover.row.host != mover.source
    mover.require_sound()


def test_a_stopped_server_is_migrated_and_stays_off(mover: Mover) -> None:
    mover.cloud.act(mover.uuid, "stop")
    mover.wait()
    mover.do("migrate")
    assert set(mover.domains().values()) == {PowerState.SHUTDOWN}
    mover.do("confirm_resize")
    assert mover.row.vm_state == "stopped"
    mover.require_sound()


def test_a_server_goes_there_and_back_again(mover: Mover) -> None:
    for _ in range(3):
        mover.do("migrate")
        mover.do("revert_resize")
        mover.do("migrate")
        mover.do("confirm_resize")
    assert list(mover.domains().values()) == [PowerState.RUNNING]
    mover.require_sound()


@pytest.mark.parametrize("operation", ["export_disks", "import_disks"])
def test_a_failure_before_the_switch_leaves_the_server_as_it_was(mover: Mover, operation: str) -> None:
    for driver in mover.cloud.drivers.values():
        driver.fail(operation, [RuntimeError("no")])
    mover.do("resize", LARGER)
    assert mover.state == ("active", None, mover.source)
    assert mover.row.flavor == FLAVOR
    assert mover.migration().status == "error"
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    mover.require_sound()


def test_a_failure_after_the_switch_leaves_the_server_in_error_at_its_destination(mover: Mover) -> None:
    for driver in mover.cloud.drivers.values():
        driver.fail("define_moved", [RuntimeError("no")])
    mover.do("resize", LARGER)
    vm_state, _, host = mover.state
    assert vm_state == "error"
    assert host != mover.source
    assert mover.row.flavor == LARGER
    # The source's copy may be the only one that can be read.
    mover.world.run(90.0)
    assert mover.domains()[mover.source] is PowerState.SHUTDOWN
    assert mover.migration().cleanup_host == mover.source
    mover.delete()
    mover.require_sound()
    assert mover.domains() == {}


@pytest.mark.parametrize(
    "phase",
    daily(
        ["resize_prep", "resize_migrating", "resize_migrated", "resize_finish", "resized"],
        ("resize_migrating", "resize_finish"),
        "one step before the switch and one behind it run each day",
    ),
)
def test_a_deletion_during_a_move_frees_both_sides(mover: Mover, phase: str) -> None:
    mover.ask("migrate")
    mover.wait(lambda: phase in mover.state, step=0.01)
    mover.delete()
    assert mover.domains() == {}
    assert mover.holders() == {}
    assert mover.migration().status == "error"
    mover.require_sound()


def test_a_move_is_confirmed_when_its_owner_does_not(tmp_path: Path) -> None:
    mover = Mover(tmp_path, resize_confirm_window=60)
    try:
        mover.do("migrate")
        assert mover.row.vm_state == "resized"
        mover.wait(lambda: mover.row.vm_state == "active", 200.0, step=10.0)
        mover.require_sound()
    finally:
        mover.cloud.world.close()


def test_bug_a_guest_that_went_off_before_the_confirmation_is_active(mover: Mover) -> None:
    mover.do("migrate")
    mover.cloud.drivers[str(mover.row.host)].power_off(mover.uuid)
    mover.wait(lambda: mover.row.power_state == PowerState.SHUTDOWN, 200.0, step=10.0)
    mover.ask("confirm_resize")
    mover.wait(lambda: mover.row.vm_state != "resized", step=0.1)
    assert mover.row.vm_state == "stopped"
    mover.require_sound()


def test_bug_a_renamed_host_never_removes_what_a_move_has_left(mover: Mover) -> None:
    mover.do("migrate")
    mover.world.keep_down([mover.source], math.inf)
    mover.world.run(120.0)
    mover.do("confirm_resize")
    assert mover.migration().cleanup_host == mover.source
    mover.cloud.rename(mover.source, "renamed")
    mover.wait(lambda: mover.migration().cleanup_host is None, 200.0, step=5.0)
    assert set(mover.holders()) == {"instance"}
    mover.require_sound()


def figures(mover: Mover) -> dict[str, tuple[int, int, dict[str, str]]]:
    """By host what its row says: guests, guests at work, and the counters of servers."""
    with mover.cloud.db.read() as session:
        return {
            node.host: (node.running_vms, node.current_workload, node.stats)
            for node in session.scalars(select(ComputeNode))
        }


@pytest.mark.parametrize("kinds", [["migrate"], ["migrate", "revert_resize"], ["live_migrate"]])
def test_bug_a_host_counts_a_guest_that_has_moved_away_until_its_audit(tmp_path: Path, kinds: list[str]) -> None:
    mover = Mover(tmp_path, update_resources_interval=100_000)
    try:
        for kind in kinds:
            mover.do(kind)
        mover.world.run(5.0)
        seen = figures(mover)
        assert {host: figures[:2] for host, figures in seen.items()} == {
            str(mover.row.host): (1, 0),
            mover.other: (0, 0),
        }
        assert {name: int(count) for name, count in seen[mover.other][2].items() if int(count)} == {}
        assert seen[str(mover.row.host)][2]["num_instances"] == "1"
    finally:
        mover.cloud.world.close()


SMALLER = Flavor(flavorid="3", name="m3", vcpus=1, memory_mb=256, root_gb=1)


def used(mover: Mover) -> dict[str, tuple[int, int]]:
    """What the only node counts as used, {class: (Placement, the node's row)}."""
    with mover.cloud.db.read() as session:
        classes = {row.resource_class: row.used for row in session.scalars(select(Inventory))}
        node = session.scalars(select(ComputeNode)).one()
    return {"VCPU": (classes["VCPU"], node.vcpus_used), "MEMORY_MB": (classes["MEMORY_MB"], node.memory_mb_used)}


@pytest.mark.parametrize(
    ("flavor", "end"),
    daily(
        [(LARGER, "confirm_resize"), (LARGER, "revert_resize"), (LARGER, "reset"), (SMALLER, "confirm_resize")],
        [(LARGER, "revert_resize"), (SMALLER, "confirm_resize")],
        "one of each size and of each end runs each day",
    ),
)
def test_a_resize_on_the_same_host_needs_room_for_the_larger_size_alone(
    tmp_path: Path, flavor: Flavor, end: str
) -> None:
    mover = Mover(tmp_path, hosts=1, allow_resize_to_same_host=True, fake_vcpus=2, cpu_allocation_ratio=1.0)
    try:
        reserved = used(mover)["MEMORY_MB"][1] - FLAVOR.memory_mb
        mover.do("resize", flavor)
        assert mover.state == ("resized", None, mover.source)
        assert mover.domains() == {mover.source: PowerState.RUNNING}
        larger = max(flavor, FLAVOR, key=lambda size: size.memory_mb)
        held = {"VCPU": (larger.vcpus, larger.vcpus), "MEMORY_MB": (larger.memory_mb, larger.memory_mb + reserved)}
        assert used(mover) == held
        mover.world.run(120.0)  # audits
        assert used(mover) == held
        if end == "reset":
            ctx = RequestContext(request_id="req-reset", user_id="u", project_id="p", is_admin=True)
            mover.cloud.conductor.reset_server_state(ctx, instance_uuid=mover.uuid, vm_state="active")
        else:
            mover.do(end)
        now = FLAVOR if end == "revert_resize" else flavor
        assert mover.row.flavor == now
        assert mover.domains() == {mover.source: PowerState.RUNNING}
        assert mover.holders() == {
            "instance": {("VCPU", now.vcpus), ("MEMORY_MB", now.memory_mb), ("DISK_GB", now.root_gb)}
        }
        mover.require_sound()
        assert used(mover)["VCPU"] == (now.vcpus, now.vcpus)
    finally:
        mover.cloud.world.close()


def test_a_resize_on_the_same_host_that_does_not_fit_leaves_the_server_as_it_was(tmp_path: Path) -> None:
    mover = Mover(tmp_path, hosts=1, allow_resize_to_same_host=True, fake_vcpus=1, cpu_allocation_ratio=1.0)
    try:
        with pytest.raises(errors.BadRequest, match="No valid host"):
            mover.ask("resize", LARGER)
        assert mover.state == ("active", None, mover.source)
        assert used(mover)["VCPU"] == (1, 1)
        assert mover.cloud.violations() == []
    finally:
        mover.cloud.world.close()


def test_a_move_never_changes_the_stored_request(mover: Mover) -> None:
    def stored() -> object:
        with mover.cloud.db.read() as session:
            (row,) = session.scalars(select(RequestSpecRow)).all()
            return row.spec

    before = stored()
    for kind, flavor in (("resize", LARGER), ("revert_resize", None), ("resize", LARGER), ("confirm_resize", None)):
        mover.do(kind, flavor)
        assert stored() == before, kind
    mover.do("live_migrate", host=mover.other)
    assert stored() == before


def test_a_source_that_is_down_at_the_confirmation_pays_later(mover: Mover) -> None:
    mover.do("migrate")
    mover.world.keep_down([mover.source], 300.0)
    mover.world.run(120.0)
    mover.do("confirm_resize")
    assert mover.row.vm_state == "active"
    assert mover.migration().cleanup_host == mover.source
    assert set(mover.holders()) == {"instance", "migration"}
    assert mover.source in mover.domains()
    mover.wait(lambda: mover.migration().cleanup_host is None, 600.0, step=10.0)
    assert list(mover.domains()) == [mover.row.host]
    mover.require_sound()


def test_bug_a_revert_with_its_source_down_removes_the_only_guest(mover: Mover) -> None:
    mover.do("migrate")
    destination = str(mover.row.host)
    mover.world.keep_down([mover.source], 300.0)
    mover.world.run(120.0)
    with pytest.raises(errors.Conflict, match=f"source host {mover.source} is down"):
        mover.ask("revert_resize")
    assert mover.state == ("resized", None, destination)
    assert mover.domains()[destination] is PowerState.RUNNING


def test_bug_a_confirmation_with_its_destination_down_removes_the_last_copy(mover: Mover) -> None:
    mover.do("migrate")
    mover.world.keep_down([str(mover.row.host)], 300.0)
    mover.world.run(120.0)
    with pytest.raises(errors.Conflict):
        mover.ask("confirm_resize")
    assert mover.domains()[mover.source] is PowerState.SHUTDOWN


def test_bug_a_revert_that_fails_half_is_confirmed_later(mover: Mover) -> None:
    mover.do("migrate")
    destination = str(mover.row.host)
    mover.cloud.drivers[destination].fail("destroy", [RuntimeError("no")])
    mover.ask("revert_resize")
    mover.wait(seconds=120.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    mover.require_sound()


def test_a_revert_waits_for_a_destination_that_is_silent(mover: Mover) -> None:
    mover.do("migrate")
    destination = str(mover.row.host)
    mover.world.keep_down([destination], 300.0)
    mover.world.run(120.0)
    mover.ask("revert_resize")
    mover.world.run(60.0)
    assert mover.state == ("resized", "resize_reverting", destination)
    assert mover.domains()[mover.source] is PowerState.SHUTDOWN
    mover.wait(seconds=600.0, step=10.0)
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    mover.require_sound()


def test_a_destination_that_dies_during_the_copy_gives_the_guest_back_and_cleans_up_later(mover: Mover) -> None:
    mover.ask("migrate")
    mover.wait(lambda: "resize_migrating" in mover.state, step=0.01)
    (destination,) = {*mover.cloud.hosts} - {mover.source}
    mover.world.keep_down([destination], 300.0)
    mover.wait(seconds=250.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    # The destination may have files: its room is taken until it has removed them.
    assert set(mover.holders()) == {"instance", "migration"}
    mover.wait(lambda: mover.migration().cleanup_host is None, 600.0, step=10.0)
    assert set(mover.holders()) == {"instance"}
    mover.require_sound()


def test_a_move_counts_the_larger_size_until_it_is_over(mover: Mover) -> None:
    def used() -> tuple[int, int]:
        with mover.cloud.db.read() as session:
            counted = quotas.usages_of(session, "p")
            assert {name: counted[name] for name in ("cores", "ram")} == quotas.counted(session, "p", ["cores", "ram"])
        return counted["cores"], counted["ram"]

    assert used() == (1, 512)
    mover.do("resize", LARGER)
    assert used() == (2, 1024)
    mover.do("revert_resize")
    assert used() == (1, 512)
    mover.do("resize", LARGER)
    mover.do("confirm_resize")
    assert used() == (2, 1024)


@pytest.mark.parametrize(
    ("older", "than_evacuations"),
    [({"compute": "1.3"}, {"compute": "1.2"}), ({"conductor": "1.8"}, {"conductor": "1.8"})],
)
def test_a_server_does_not_move_while_an_older_service_runs(
    mover: Mover, older: dict[str, str], than_evacuations: dict[str, str]
) -> None:
    for name in CONTROLLERS["conductor"]:
        collaborators = mover.world.processes[name].manager.collaborators
        collaborators.actions._levels = lambda: older
        collaborators.evacuations._levels = lambda: than_evacuations
    for kind, flavor in (("migrate", None), ("resize", LARGER), ("live_migrate", None)):
        with pytest.raises(errors.PeerTooOld):
            mover.ask(kind, flavor)
    with pytest.raises(errors.PeerTooOld):
        evacuate(mover.cloud, mover.uuid)
    mover.world.run(5.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.migration() is None
    assert set(mover.holders()) == {"instance"}


def test_bug_hypervisor_that_restarts_while_its_guest_is_shut_down_left_it_off_in_error(mover: Mover) -> None:
    source = mover.cloud.drivers[mover.source]
    source.fail("export_disks", [errors.HypervisorUnavailable("it restarts")])
    source.fail("start", [errors.HypervisorUnavailable("it restarts")] * 3)
    mover.do("migrate")
    assert mover.state == ("active", None, mover.source)
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    mover.require_sound()


def test_bug_hypervisor_that_restarts_when_the_guest_starts_left_it_off_in_error(mover: Mover) -> None:
    there = mover.other
    mover.cloud.drivers[there].fail("define_moved", [errors.HypervisorUnavailable("it restarts")] * 3)
    mover.do("migrate")
    assert mover.state == ("resized", None, there)
    assert mover.domains()[there] is PowerState.RUNNING


def test_bug_move_waited_without_end_for_a_destination_that_could_not_start_its_guest(
    mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MOST_STARTS", 4)
    there, source = mover.other, mover.source
    mover.cloud.drivers[there].fail("define_moved", [errors.GuestBusy("a job is stuck")] * 4)
    mover.do("migrate")
    assert mover.state == ("error", None, there)
    assert mover.migration().status == "error"
    assert mover.migration().cleanup_host == source, "it keeps its copy"
    mover.delete()
    mover.require_sound()
