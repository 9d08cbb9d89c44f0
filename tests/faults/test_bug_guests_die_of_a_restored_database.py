"""What happened after a restore, row by row, with safe mode ended by force: the rules of removal alone must hold.

Each test restores a backup, lets all services go on for minutes, and compares the guests. At the end the operator adopts what hosts
have reported: books and hosts agree.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from minova.conductor.tasks.history import CONFIRM
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.listing import now
from minova.db.models import Instance, Task, UnexpectedGuest
from minova.db.recovery import cloud as records
from minova.db.recovery import unexpected
from minova.objects.servers.states import PowerState
from minova.placement.audit import gather
from tests.faults.cloud import CONTROLLERS, Cloud

pytestmark = pytest.mark.timeout(300)
ROOMY: dict[str, object] = {
    "fake_vcpus": 64,
    "fake_memory_mb": 65536,
    "fake_local_gb": 1000,
    "report_interval": 10,
    "reclaim_instance_interval": 120,
    "shelved_offload_time": -1,
}
CHANGES = ("prepare", "rebuild", "destroy", "hard_reboot")


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    new_cloud = Cloud(1, tmp_path, hosts=2, **ROOMY)
    new_cloud.world.run(30.0)
    yield new_cloud
    new_cloud.world.close()


def until(cloud: Cloud, true: Callable[[], bool], seconds: float = 120.0) -> None:
    for _ in range(int(seconds * 20)):
        if true():
            return
        cloud.world.run(0.05)
    raise AssertionError("not in time")


def rows(cloud: Cloud) -> dict[str, tuple[str, str | None]]:
    with cloud.db.read() as session:
        instance_rows = session.execute(select(Instance.uuid, Instance.vm_state, Instance.host, Instance.task_state))
        return {
            uuid: (vm_state if task is None else f"{vm_state}/{task}", host)
            for uuid, vm_state, host, task in instance_rows
        }


def step(cloud: Cloud) -> set[str]:
    with cloud.db.read() as session:
        return set(session.scalars(select(Task.step)))


def boot(cloud: Cloud, number: int = 1) -> str:
    before = set(rows(cloud))
    cloud.create(number, 1)
    until(cloud, lambda: {state for uuid, (state, _) in rows(cloud).items() if uuid not in before} == {"active"})
    (uuid,) = set(rows(cloud)) - before
    return uuid


def act(cloud: Cloud, uuid: str, kind: str, after: str) -> None:
    cloud.act(uuid, kind)
    until(cloud, lambda: rows(cloud)[uuid][0] == after)


def restore(cloud: Cloud) -> None:
    """The operator forces the end of safe mode without adopting anything; then everything goes on for minutes."""
    cloud.world.run(1.0)
    cloud.restore()
    cloud.world.run(20.0 + CONFIRM)

    def end_by_force() -> None:
        with cloud.db.write() as session:
            row = records.record(session, cloud.db.now())
            if row is not None and row.safe_since is not None:
                records.end_safe_mode(session, row, cloud.db.now(), forced=True)

    end_by_force()
    cloud.world.run(400.0)


def reported(cloud: Cloud) -> dict[str, UnexpectedGuest]:
    with cloud.db.read() as session:
        return {guest.uuid: guest for guest in unexpected.guests(session)}


def adopt_all(cloud: Cloud) -> None:
    for uuid in reported(cloud):

        def work(session: object, uuid: str = uuid) -> None:
            (guest,) = unexpected.guests(session, uuid)  # type: ignore[arg-type]
            Adoption().adopt(session, guest, now(), cloud.db.now())  # type: ignore[arg-type]

        cloud.db.run(work)
    cloud.world.run(130.0)
    assert reported(cloud) == {}
    with cloud.db.read() as session:
        assert gather.findings(session) == []


def test_a_guest_made_since_stays_and_is_adopted(cloud: Cloud) -> None:
    cloud.back_up()
    uuid = boot(cloud)
    before = cloud.running()
    restore(cloud)
    assert cloud.running() == before
    assert {uuid: guest.reason for uuid, guest in reported(cloud).items()} == {uuid: "no_row"}
    with cloud.db.read() as session:
        assert [finding.kind.value for finding in gather.findings(session)] == ["guest without server"]
    adopt_all(cloud)
    assert rows(cloud)[uuid][0] == "active"
    for kind, after in (("stop", "stopped"), ("start", "active"), ("rebuild", "active")):
        act(cloud, uuid, kind, after)
    cloud.conductor.delete_server(cloud.user(1), instance_uuid=uuid)
    cloud.world.run(400.0)
    assert cloud.running() == set()


@pytest.mark.parametrize("at", ["schedule", "build"])
def test_a_build_in_progress_is_not_begun_anew(cloud: Cloud, at: str) -> None:
    """Its row said schedule: it was built a second time. Its row said build: it was BUILD for ever."""
    if at == "schedule":
        # Otherwise a scheduler answers before the test looks.
        cloud.world.keep_down(CONTROLLERS["scheduler"], 20.0)
    cloud.create(1, 1)
    until(cloud, lambda: step(cloud) == {at})
    cloud.back_up()
    until(cloud, lambda: {state for state, _ in rows(cloud).values()} == {"active"})
    (uuid,), before = rows(cloud), cloud.running()
    restore(cloud)
    assert cloud.running() == before
    adopt_all(cloud)
    ((host, _),) = before
    assert rows(cloud)[uuid] == ("active", host)


def test_a_guest_unshelved_since_stays(cloud: Cloud) -> None:
    uuid = boot(cloud)
    act(cloud, uuid, "shelve", "shelved")
    act(cloud, uuid, "shelve_offload", "shelved_offloaded")
    cloud.back_up()
    act(cloud, uuid, "unshelve", "active")
    before = cloud.running()
    restore(cloud)
    assert cloud.running() == before
    assert reported(cloud)[uuid].reason == "newer"
    adopt_all(cloud)
    assert rows(cloud)[uuid][0] == "active"


def test_a_guest_started_since_runs_on(cloud: Cloud) -> None:
    uuid = boot(cloud)
    act(cloud, uuid, "stop", "stopped")
    cloud.back_up()
    act(cloud, uuid, "start", "active")
    before = cloud.running()
    restore(cloud)
    assert cloud.running() == before
    assert reported(cloud)[uuid].reason == "newer"
    adopt_all(cloud)
    assert rows(cloud)[uuid][0] == "active"


def test_a_guest_restored_from_its_deletion_since_is_not_reclaimed(cloud: Cloud) -> None:
    uuid = boot(cloud)
    cloud.conductor.delete_server(cloud.user(1), instance_uuid=uuid)
    until(cloud, lambda: rows(cloud)[uuid][0] == "soft-delete")
    cloud.back_up()
    act(cloud, uuid, "restore", "active")
    before = cloud.running()
    restore(cloud)
    assert cloud.running() == before
    adopt_all(cloud)
    assert rows(cloud)[uuid][0] == "active"


def test_a_rebuild_in_progress_is_not_done_again(cloud: Cloud) -> None:
    uuid = boot(cloud)
    cloud.act(uuid, "rebuild")
    cloud.back_up()
    until(cloud, lambda: rows(cloud)[uuid][0] == "active")
    cloud.world.run(5.0)
    (domain,) = [each_domain for driver in cloud.drivers.values() for each_domain in driver._domains.values()]
    restore(cloud)
    (after,) = [each_domain for driver in cloud.drivers.values() for each_domain in driver._domains.values()]
    assert after == domain, "its disk and its run are those of before"
    assert after.power_state is PowerState.RUNNING
    assert rows(cloud)[uuid][0] == "active", "the repeated request is only reported"


def test_a_guest_deleted_since_is_missed(cloud: Cloud) -> None:
    """The restored row says that it exists, and its host does not have it."""
    uuid = boot(cloud)
    cloud.back_up()
    cloud.conductor.delete_server(cloud.user(1), instance_uuid=uuid)
    cloud.world.run(200.0)
    restore(cloud)
    assert reported(cloud)[uuid].reason == "no_guest"
