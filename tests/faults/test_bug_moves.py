"""Faults that a hostile review has found in moves and evacuations."""

import math
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from minova import errors
from minova.db import quotas
from minova.db.models import InstanceAction, Task
from minova.objects.servers.states import PowerState
from minova.virt.fake import FakeDriver
from tests.faults.cloud import LARGER
from tests.faults.mover import Mover
from tests.faults.test_crash_table import state_of, wait_until
from tests.faults.test_evacuation import (
    dead_host,
    evacuate,
    finished,
    force,
    host_of,
    power_back,
    power_cut,
)

pytestmark = pytest.mark.timeout(300)


def other(mover: Mover) -> str:
    (host,) = {*mover.cloud.hosts} - {mover.source}
    return host


def phase(mover: Mover) -> str | None:
    with mover.cloud.db.read() as session:
        payload: Any = session.scalar(select(Task.payload))
    return None if payload is None else payload.get("phase")


def wait_for(mover: Mover, wanted: str) -> None:
    mover.wait(lambda: phase(mover) == wanted, step=0.01)


def message(mover: Mover) -> str | None:
    """Of the newest action."""
    with mover.cloud.db.read() as session:
        return session.scalar(select(InstanceAction.message).order_by(InstanceAction.id.desc()).limit(1))


def reset(mover: Mover) -> None:
    mover.cloud.conductor.reset_server_state(mover.cloud.user(), instance_uuid=mover.uuid, vm_state="active")


# -- law 3: a copy is removed only if the row's host has proven its own ----------------------------------------------------


def broken(mover: Mover, failures: int = 1) -> str:
    """The destination could not start the guest: its source has the only copy that is known to start."""
    destination = other(mover)
    mover.cloud.drivers[destination].fail("define_moved", [RuntimeError("no")] * failures)
    mover.do("resize", LARGER)
    assert mover.state == ("error", None, destination)
    return destination


def test_bug_a_reset_of_the_state_removes_the_last_copy(mover: Mover) -> None:
    destination = broken(mover)
    reset(mover)
    mover.world.run(90.0)
    assert mover.domains()[mover.source] is PowerState.SHUTDOWN
    assert mover.migration().cleanup_host == mover.source
    # What shows that the copy is good.
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.wait(lambda: mover.migration().cleanup_host is None)
    assert mover.domains() == {destination: PowerState.RUNNING}
    mover.require_sound()


def test_bug_an_evacuation_removes_the_last_copy(tmp_path: Path) -> None:
    """The server's disks were made anew from its image: only the source of the move still has what was in them."""
    mover = Mover(tmp_path, hosts=3)
    try:
        source = mover.source
        for host in {*mover.cloud.hosts} - {source}:
            mover.cloud.drivers[host].fail("define_moved", [RuntimeError("no")])
        mover.do("resize", LARGER)
        destination = str(mover.row.host)
        power_cut(mover.cloud, destination)
        force(mover.cloud, destination, down=True)
        evacuate(mover.cloud, mover.uuid)
        mover.wait()
        assert mover.row.vm_state == "active"
        assert mover.row.host not in {source, destination}
        mover.cloud.act(mover.uuid, "reboot_hard")
        mover.world.run(90.0)
        assert mover.domains()[source] is PowerState.SHUTDOWN
        mover.delete()
        mover.wait(lambda: mover.domains().keys() <= {destination}, 90.0)
    finally:
        mover.cloud.world.close()


def test_bug_a_source_that_is_forced_down_while_it_takes_its_guest_back_loses_the_other_copy(mover: Mover) -> None:
    destination = other(mover)
    mover.cloud.drivers[mover.source].fail("stop_export", [RuntimeError("no")])
    mover.ask("migrate")
    wait_for(mover, "restore")
    power_cut(mover.cloud, mover.source)
    force(mover.cloud, mover.source, down=True)
    mover.wait()
    assert mover.state == ("active", None, mover.source)
    mover.world.run(90.0)
    assert mover.migration().cleanup_host == destination
    # The row's host shows that it has the guest's disks.
    power_back(mover.cloud, mover.source)
    force(mover.cloud, mover.source, down=False)
    mover.world.run(60.0)
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.wait(lambda: mover.migration().cleanup_host is None, 90.0)
    mover.require_sound()


# -- the destination is lost after the switch ------------------------------------------------------------------------------


def test_bug_a_server_is_stuck_whose_destination_is_forced_down_before_it_starts(mover: Mover) -> None:
    destination = other(mover)
    mover.ask("resize", LARGER)
    wait_for(mover, "start")
    power_cut(mover.cloud, destination)
    force(mover.cloud, destination, down=True)
    mover.wait(seconds=90.0)
    assert mover.state == ("active", None, mover.source)
    assert mover.row.flavor.flavorid == "1"
    assert mover.domains()[mover.source] is PowerState.RUNNING
    assert mover.migration().status == "reverted"
    # The destination's room is taken until it has removed its copy.
    owed = mover.holders()
    assert ("VCPU", LARGER.vcpus) in owed["migration"]
    assert ("VCPU", mover.row.flavor.vcpus) in owed["instance"]
    assert "could not be moved" in str(message(mover))
    # It has something left, which it removes when it is back.
    assert mover.migration().cleanup_host == destination
    power_back(mover.cloud, destination)
    force(mover.cloud, destination, down=False)
    mover.wait(lambda: mover.migration().cleanup_host is None, 90.0)
    assert mover.domains() == {mover.source: PowerState.RUNNING}
    assert set(mover.holders()) == {"instance"}
    mover.require_sound()


def test_bug_a_destination_that_was_forced_down_without_being_off_started_the_guest_beside_its_source(
    mover: Mover,
) -> None:
    destination = other(mover)
    driver = mover.cloud.drivers[destination]
    power_on = driver.power_on

    def after_all(*arguments: Any, **named: Any) -> PowerState:
        driver.power_on = power_on  # type: ignore[method-assign]
        force(mover.cloud, destination, down=True)
        mover.wait(lambda: mover.state == ("active", None, mover.source))
        return power_on(*arguments, **named)

    driver.power_on = after_all  # type: ignore[method-assign]
    mover.ask("resize", LARGER)
    mover.wait(lambda: mover.migration().status == "reverted")
    assert mover.domains() == {mover.source: PowerState.RUNNING, destination: PowerState.PAUSED}
    force(mover.cloud, destination, down=False)
    mover.wait(lambda: mover.domains() == {mover.source: PowerState.RUNNING}, 90.0)


def test_bug_a_source_that_was_forced_down_without_being_off_started_its_guest_after_the_evacuation(
    tmp_path: Path,
) -> None:
    mover = Mover(tmp_path, hosts=3)
    try:
        mover.do("resize", LARGER)
        source = mover.source
        driver = mover.cloud.drivers[source]
        power_on = driver.power_on
        evacuated_to: list[str] = []

        def after_all(*arguments: Any, **named: Any) -> PowerState:
            driver.power_on = power_on  # type: ignore[method-assign]
            force(mover.cloud, source, down=True)
            mover.wait(seconds=900.0, step=5.0)
            evacuate(mover.cloud, mover.uuid)
            mover.wait(lambda: mover.state[2] != source and mover.is_at_rest(), 300.0)
            evacuated_to.append(str(mover.row.host))
            return power_on(*arguments, **named)

        driver.power_on = after_all  # type: ignore[method-assign]
        mover.ask("revert_resize")
        mover.wait(lambda: bool(evacuated_to), 1500.0)
        mover.world.run(1.0)
        assert mover.domains()[source] is PowerState.PAUSED
        assert mover.domains()[evacuated_to[0]] is PowerState.RUNNING
    finally:
        mover.cloud.world.close()


def test_a_destination_that_is_only_silent_keeps_the_server(mover: Mover) -> None:
    destination = other(mover)
    mover.ask("migrate")
    wait_for(mover, "start")
    mover.world.keep_down([destination], 150.0)
    mover.world.run(120.0)
    assert mover.state == ("active", "resize_finish", destination)
    assert mover.domains().get(mover.source) is PowerState.SHUTDOWN
    mover.wait(seconds=300.0)
    assert mover.row.vm_state == "resized"


def test_bug_both_hosts_are_forced_down_after_the_switch(mover: Mover) -> None:
    """The server is in ERROR at its source, from which it can be evacuated. The destination keeps its copy."""
    destination = other(mover)
    mover.ask("migrate")
    wait_for(mover, "start")
    for host in (destination, mover.source):
        power_cut(mover.cloud, host)
        force(mover.cloud, host, down=True)
    mover.wait(seconds=120.0)
    assert mover.state == ("error", None, mover.source)
    power_back(mover.cloud, destination)
    force(mover.cloud, destination, down=False)
    mover.world.run(60.0)
    assert (mover.migration().cleanup_host, mover.migration().hold) == (destination, "unproven")


def test_bug_a_resize_on_one_host_is_stuck_if_it_is_forced_down(tmp_path: Path) -> None:
    mover = Mover(tmp_path, hosts=1, allow_resize_to_same_host=True, fake_vcpus=4)
    try:
        mover.ask("resize", LARGER)
        wait_for(mover, "start")
        power_cut(mover.cloud, mover.source)
        force(mover.cloud, mover.source, down=True)
        mover.wait(seconds=90.0)
        assert mover.state == ("error", None, mover.source)
        assert mover.row.flavor == LARGER
        assert set(mover.holders()) == {"instance"}
    finally:
        mover.cloud.world.close()


# -- a move waits for a silent source --------------------------------------------------------------------------------------


def test_bug_a_move_goes_on_while_its_source_may_have_started_the_guest_again(mover: Mover) -> None:
    mover.ask("migrate")
    wait_for(mover, "release")
    mover.world.keep_down([mover.source], 150.0)
    mover.world.run(120.0)
    assert (phase(mover), mover.row.host) == ("release", mover.source)
    assert mover.domains().keys() == {mover.source}
    mover.wait(seconds=300.0)
    assert mover.row.vm_state == "resized"


def test_bug_a_source_that_cannot_start_its_guest_again_loses_the_other_copy(mover: Mover) -> None:
    mover.cloud.drivers[mover.source].fail("stop_export", [RuntimeError("no"), RuntimeError("no")])
    mover.ask("migrate")
    mover.wait()
    assert mover.state == ("error", None, mover.source)
    mover.world.run(90.0)
    assert mover.migration().cleanup_host == other(mover)
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.wait(lambda: mover.migration().cleanup_host is None, 90.0)
    mover.require_sound()


# -- servers that leave RESIZED without a confirmation ---------------------------------------------------------------------


def used(mover: Mover) -> dict[str, int]:
    with mover.cloud.db.read() as session:
        counted = quotas.usages_of(session, "p")
        assert {name: counted[name] for name in ("cores", "ram")} == quotas.counted(session, "p", ["cores", "ram"])
    return {name: counted[name] for name in ("cores", "ram")}


def test_bug_a_resized_server_that_is_restored_keeps_its_move_open(tmp_path: Path) -> None:
    mover = Mover(tmp_path, reclaim_instance_interval=3600)
    try:
        mover.do("resize", LARGER)
        destination = str(mover.row.host)
        mover.cloud.conductor.delete_server(mover.cloud.user(), instance_uuid=mover.uuid)
        mover.wait()
        assert (mover.row.vm_state, mover.migration().status) == ("soft-delete", "finished")
        mover.cloud.act(mover.uuid, "restore")
        mover.wait()
        assert mover.state == ("active", None, destination)
        assert mover.migration().status == "confirmed"
        assert used(mover) == {"cores": LARGER.vcpus, "ram": LARGER.memory_mb}
        mover.wait(lambda: mover.migration().cleanup_host is None)
        assert mover.domains() == {destination: PowerState.RUNNING}
        assert set(mover.holders()) == {"instance"}
        mover.require_sound()
    finally:
        mover.cloud.world.close()


def test_bug_a_resized_server_whose_state_is_reset_keeps_its_move_open(mover: Mover) -> None:
    mover.do("resize", LARGER)
    destination = str(mover.row.host)
    reset(mover)
    assert (mover.state, mover.migration().status) == (("active", None, destination), "confirmed")
    mover.world.run(60.0)
    assert mover.domains().keys() == {mover.source, destination}
    mover.cloud.act(mover.uuid, "reboot_hard")
    mover.wait(lambda: mover.migration().cleanup_host is None, 90.0)
    assert mover.domains() == {destination: PowerState.RUNNING}
    mover.require_sound()


# -- deletion --------------------------------------------------------------------------------------------------------------


def test_bug_a_deletion_leaves_the_row_with_the_other_host_of_its_move(tmp_path: Path) -> None:
    mover = Mover(tmp_path, conductor__delete_timeout=30)
    try:
        mover.do("resize", LARGER)
        destination = str(mover.row.host)
        mover.cloud.drivers[mover.source].fail("destroy", [RuntimeError("no")] * 5)
        mover.cloud.delete_asked.add(mover.uuid)
        mover.cloud.conductor.delete_server(mover.cloud.user(), instance_uuid=mover.uuid)
        mover.wait(lambda: mover.row.vm_state == "deleted", 300.0)
        assert mover.row.host == destination
        mover.wait(lambda: mover.domains() == {}, 300.0)
        mover.wait(lambda: mover.migration().cleanup_host is None, 60.0)
        assert mover.holders() == {}
        mover.require_sound()
    finally:
        mover.cloud.world.close()


def test_bug_files_of_a_deleted_server_stay_on_a_destination_that_was_down(mover: Mover) -> None:
    """It has no domain yet, by which an audit would find them."""
    mover.ask("migrate")
    wait_for(mover, "import")
    destination = other(mover)
    power_cut(mover.cloud, destination)
    force(mover.cloud, destination, down=True)
    mover.delete()
    assert mover.migration().cleanup_host == destination
    removed: list[str] = []
    destroy = mover.cloud.drivers[destination].destroy

    def noted(uuid: str, *args: Any) -> Any:
        removed.append(uuid)
        return destroy(uuid, *args)

    mover.cloud.drivers[destination].destroy = noted  # type: ignore[method-assign,assignment]
    power_back(mover.cloud, destination)
    force(mover.cloud, destination, down=False)
    mover.wait(lambda: mover.migration().cleanup_host is None, 90.0)
    assert mover.uuid in removed


# -- evacuations -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "then",
    ["returns", pytest.param("forced down", marks=pytest.mark.nightly("half of it is that of a host that returns"))],
)
def test_bug_an_evacuation_takes_a_silent_host_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Its new host falls silent when the guest runs: on the next host it would run twice."""
    cloud, uuid, _ = dead_host(tmp_path)
    silent: list[str] = []
    power_on = FakeDriver.power_on

    def falls_silent(driver: FakeDriver, instance: Any, **options: Any) -> PowerState:
        state = power_on(driver, instance, **options)
        if not silent:
            silent.append(next(host for host, each in cloud.drivers.items() if each is driver))
            cloud.world.keep_down(silent, math.inf)
        return state

    monkeypatch.setattr(FakeDriver, "power_on", falls_silent)
    try:
        evacuate(cloud, uuid)
        cloud.world.run(150.0)
        (first,) = silent
        assert (host_of(cloud, uuid), state_of(cloud, uuid)[1]) == (first, "rebuild_spawning")
        assert cloud.running() == {(first, uuid)}
        with cloud.db.read() as session:
            text = session.scalar(select(InstanceAction.message).order_by(InstanceAction.id.desc()).limit(1))
        assert "waits until it is back, or is forced down" in str(text)
        if then == "returns":
            power_back(cloud, first)
        else:
            power_cut(cloud, first)
            force(cloud, first, down=True)
        wait_until(cloud, lambda: finished(cloud, uuid), 300.0)
        assert state_of(cloud, uuid) == ("active", None)
        last = host_of(cloud, uuid)
        assert (last == first) == (then == "returns")
        assert cloud.running() == {(last, uuid)}
    finally:
        cloud.world.close()


# -- a confirmation that is refused ----------------------------------------------------------------------------------------


def confirmations(mover: Mover) -> int:
    with mover.cloud.db.read() as session:
        return session.scalar(select(func.count()).where(InstanceAction.action == "confirmResize")) or 0


def test_bug_a_confirmation_that_was_refused_is_repeated_in_each_window(tmp_path: Path) -> None:
    """Each time with an action, a fault and a notification of its own."""
    mover = Mover(tmp_path, resize_confirm_window=60)
    try:
        mover.do("migrate")
        destination = str(mover.row.host)
        mover.cloud.drivers[destination].fail("guest_side", [errors.GuestMissing("gone")] * 3)
        mover.world.run(840.0)  # 14 windows
        assert confirmations(mover) == 3
        assert mover.state == ("resized", None, destination)
        mover.do("confirm_resize")
        assert mover.state == ("active", None, destination)
        mover.require_sound()
    finally:
        mover.cloud.world.close()


@pytest.mark.nightly("as the test above, whose refusal has another reason; fifteen seconds")
def test_bug_a_file_system_that_is_mounted_late_ends_automatic_confirmation(tmp_path: Path) -> None:
    """The next window after a refusal is twice as long, and confirms what is there by then."""
    mover = Mover(tmp_path, resize_confirm_window=60)
    try:
        mover.do("migrate")
        destination = str(mover.row.host)
        missing = [errors.GuestMissing("not mounted"), errors.GuestMissing("not mounted")]
        mover.cloud.drivers[destination].fail("guest_side", missing)
        mover.world.run(360.0)  # refused after 60 s and after 120 s more
        assert confirmations(mover) == 2
        assert mover.state == ("resized", None, destination)
        mover.wait(lambda: mover.state == ("active", None, destination), 300.0)
        assert confirmations(mover) == 3
        mover.require_sound()
    finally:
        mover.cloud.world.close()
