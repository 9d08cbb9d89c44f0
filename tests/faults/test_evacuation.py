"""Evacuations in a whole cloud of fake hosts: one host dies, and a process is killed at each step on the way.

MINOVA_TABLE=all tries every step (tools/check nightly); otherwise one of STRIDE.
"""

import itertools
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.db.models import Allocation, Consumer, Instance, Migration, Service
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.servers.states import PowerState
from tests.faults.cloud import CONTROLLERS, Cloud
from tests.faults.mover import double_all
from tests.faults.test_crash_table import (
    DOWN_FOR,
    PROMPT,
    RESTART_WITHIN,
    STABLE_WITHIN,
    UNDISTURBED,
    Trap,
    is_at_rest,
    state_of,
    unfinished,
    wait_until,
)
from tests.faults.world import Faults
from tests.nightly import daily

pytestmark = pytest.mark.timeout(900)
STRIDE = 1 if os.environ.get("MINOVA_TABLE") == "all" else 11


def host_of(cloud: Cloud, uuid: str) -> str:
    with cloud.db.read() as session:
        return str(session.scalar(select(Instance.host).where(Instance.uuid == uuid)))


def migrations(cloud: Cloud, uuid: str) -> list[str]:
    with cloud.db.read() as session:
        return list(
            session.scalars(select(Migration.status).where(Migration.instance_uuid == uuid).order_by(Migration.id))
        )


def holders(cloud: Cloud) -> dict[str, int]:
    """By kind of consumer: how many hold something."""
    with cloud.db.read() as session:
        query = select(Consumer.consumer_type).join(Allocation, Allocation.consumer_uuid == Consumer.uuid)
        kinds = [*session.execute(query.add_columns(Consumer.uuid).distinct())]
    return {kind: sum(row[0] == kind for row in kinds) for kind in sorted({row[0] for row in kinds})}


def force(cloud: Cloud, host: str, *, down: bool) -> None:
    with cloud.db.read() as session:
        uuid = session.scalar(select(Service.uuid).where(Service.host == host))
    cloud.conductor.update_service(cloud.user(), service_uuid=str(uuid), forced_down=down)


def power_cut(cloud: Cloud, host: str) -> None:
    """The host is dead until `power_back`."""
    cloud.world.keep_down([host], math.inf)
    for domain in cloud.drivers[host].domains():
        cloud.drivers[host].turn(domain.uuid, PowerState.SHUTDOWN)


def power_back(cloud: Cloud, host: str) -> None:
    process = cloud.world.processes[host]
    cloud.world._down_until.pop(host, None)
    cloud.world.start(host, process.contract, process.boot)


def evacuate(cloud: Cloud, uuid: str, **request: object) -> None:
    cloud.conductor.evacuate_server(cloud.user(), instance_uuid=uuid, request=EvacuationRequest(**request))  # type: ignore[arg-type]


def dead_host(folder: Path, hosts: int = 3, **overrides: object) -> tuple[Cloud, str, str]:
    """A cloud whose host with the only server is dead and fenced: the cloud, the server and its host."""
    cloud = Cloud(1, folder, hosts=hosts, **{**PROMPT, **overrides})
    cloud.world.faults = Faults(others_first=0.0)
    cloud.world.down_for = DOWN_FOR
    cloud.world.run(30.0)
    cloud.create(1, 1)
    cloud.world.run(30.0)
    (uuid,) = cloud.acknowledged
    source = host_of(cloud, uuid)
    assert state_of(cloud, uuid) == ("active", None)
    power_cut(cloud, source)
    force(cloud, source, down=True)
    double_all(cloud)
    return cloud, uuid, source


def test_a_server_of_a_dead_host_runs_on_another_one(tmp_path: Path) -> None:
    cloud, uuid, source = dead_host(tmp_path)
    try:
        evacuate(cloud, uuid)
        assert wait_until(cloud, lambda: is_at_rest(cloud, uuid), UNDISTURBED)
        assert (state_of(cloud, uuid), migrations(cloud, uuid)) == (("active", None), ["done"])
        host = host_of(cloud, uuid)
        assert host != source
        assert cloud.running() == {(host, uuid)}
        # What it held on its old host stays until that host has removed the guest.
        assert holders(cloud) == {"INSTANCE": 1, "MIGRATION": 1}
        # The second answer to a request that came twice would not be the refusal.
        doubled, cloud.world.faults = cloud.world.faults, Faults(others_first=0.0)
        with pytest.raises(errors.BadRequest, match="1 evacuations from it are not completed"):
            force(cloud, source, down=False)
        cloud.world.faults = doubled
        power_back(cloud, source)
        assert wait_until(cloud, lambda: migrations(cloud, uuid) == ["completed"], STABLE_WITHIN)
        assert holders(cloud) == {"INSTANCE": 1}
        assert cloud.drivers[source].domains() == ()
        force(cloud, source, down=False)
        cloud.world.run(90.0)
        assert (cloud.violations(), unfinished(cloud), cloud.running()) == ([], [], {(host, uuid)})
    finally:
        cloud.world.close()


def finished(cloud: Cloud, uuid: str) -> bool:
    return is_at_rest(cloud, uuid) and not set(migrations(cloud, uuid)) & {"accepted", "pre-migrating"}


KILLED = {
    "conductor": CONTROLLERS["conductor"],
    "scheduler": CONTROLLERS["scheduler"],
    "destination": ("host-0", "host-1", "host-2"),
}


@contextmanager
def killed_at(cloud: Cloud, names: tuple[str, ...], step: int, uuid: str, status: str) -> Iterator[Trap]:
    """What stands in the block is done while the process that takes this step is killed. Afterwards that process is back."""
    trap = Trap(cloud, names, step)
    yield trap
    wait_until(cloud, lambda: trap.killed is not None or is_last(cloud, uuid, status), UNDISTURBED * 2)
    trap.disarm()
    if trap.killed is not None:
        assert wait_until(cloud, lambda: cloud.world.processes[str(trap.killed)].alive, RESTART_WITHIN)


def is_last(cloud: Cloud, uuid: str, status: str) -> bool:
    return finished(cloud, uuid) and migrations(cloud, uuid)[-1:] == [status]


def cleaned(cloud: Cloud, uuid: str, source: str) -> None:
    """The old host is back, has removed what it had, and serves again."""
    assert wait_until(cloud, lambda: set(migrations(cloud, uuid)) <= {"completed"}, STABLE_WITHIN + RESTART_WITHIN)
    force(cloud, source, down=False)
    cloud.world.run(60.0)
    assert (cloud.violations(), unfinished(cloud), holders(cloud)) == ([], [], {"INSTANCE": 1})


@pytest.mark.parametrize(
    "killed",
    daily(["conductor", "scheduler", "destination"], ("conductor",), "storms kill all kinds of processes each day"),
)
def test_a_process_may_die_at_each_step(tmp_path: Path, killed: str) -> None:
    """Each round evacuates the server from its host, which returns afterwards."""
    cloud, uuid, source = dead_host(tmp_path)
    try:
        for step in itertools.count(1, STRIDE):
            before = len(migrations(cloud, uuid))
            names = tuple(name for name in KILLED[killed] if name != source)
            with killed_at(cloud, names, step, uuid, "done") as trap, suppress(errors.ServiceUnavailable):
                evacuate(cloud, uuid)
            assert wait_until(cloud, lambda: finished(cloud, uuid), STABLE_WITHIN), (step, state_of(cloud, uuid))
            if len(migrations(cloud, uuid)) == before:  # the conductor had written nothing
                evacuate(cloud, uuid)
                assert wait_until(cloud, lambda: finished(cloud, uuid), STABLE_WITHIN), step
            host = host_of(cloud, uuid)
            assert (state_of(cloud, uuid), cloud.running()) == (("active", None), {(host, uuid)}), step
            assert (host != source, migrations(cloud, uuid)[-1]) == (True, "done"), step
            power_back(cloud, source)
            cleaned(cloud, uuid, source)
            if trap.killed is None:
                break
            source = host
            power_cut(cloud, source)
            force(cloud, source, down=True)
        assert step > (2 if killed == "scheduler" else 3)
    finally:
        cloud.world.close()


@pytest.mark.nightly("a cell of test_crash_table_of_moves.py is for each day")
def test_the_old_host_may_die_at_each_step_of_its_cleanup(tmp_path: Path) -> None:
    cloud, uuid, source = dead_host(tmp_path)
    try:
        for step in itertools.count(1, STRIDE):
            evacuate(cloud, uuid)
            assert wait_until(cloud, lambda: finished(cloud, uuid), UNDISTURBED)
            host = host_of(cloud, uuid)
            power_back(cloud, source)
            with killed_at(cloud, (source,), step, uuid, "completed") as trap:
                pass
            cleaned(cloud, uuid, source)
            assert cloud.running() == {(host, uuid)}, step
            if trap.killed is None:
                break
            source = host
            power_cut(cloud, source)
            force(cloud, source, down=True)
        assert step > 3
    finally:
        cloud.world.close()


@pytest.mark.parametrize("away", daily(["database", "broker"], ("database",), "storms lose messages each day"))
def test_the_database_or_the_broker_may_be_away(tmp_path: Path, away: str) -> None:
    cloud, uuid, source = dead_host(tmp_path)
    try:
        chances = {"database_away": 0.2} if away == "database" else {"lose": 0.2}
        cloud.world.faults = Faults(others_first=0.0, **chances)
        while not migrations(cloud, uuid):
            with suppress(errors.ServiceUnavailable):
                evacuate(cloud, uuid)
            cloud.world.run(2.0)
        assert wait_until(cloud, lambda: finished(cloud, uuid), 300.0)
        assert state_of(cloud, uuid) == ("active", None)
        power_back(cloud, source)
        assert wait_until(cloud, lambda: migrations(cloud, uuid)[-1] in {"completed", "error"}, 300.0)
        cloud.world.faults = Faults(others_first=0.0)
        cloud.world.run(120.0)
        assert (cloud.violations(), unfinished(cloud), holders(cloud)) == ([], [], {"INSTANCE": 1})
    finally:
        cloud.world.close()


def test_a_server_that_fits_nowhere_is_as_it_was(tmp_path: Path) -> None:
    cloud, uuid, source = dead_host(tmp_path, hosts=1)
    try:
        evacuate(cloud, uuid)
        assert wait_until(cloud, lambda: finished(cloud, uuid), UNDISTURBED)
        assert (state_of(cloud, uuid), host_of(cloud, uuid)) == (("active", None), source)
        assert (migrations(cloud, uuid), holders(cloud)) == (["error"], {"INSTANCE": 1})
        force(cloud, source, down=False)
        power_back(cloud, source)
        cloud.world.run(90.0)
        cloud.act(uuid, "reboot_hard")
        cloud.world.run(30.0)
        assert (cloud.violations(), unfinished(cloud), cloud.running()) == ([], [], {(source, uuid)})
    finally:
        cloud.world.close()


def test_every_destination_fails_and_the_server_is_as_it_was(tmp_path: Path) -> None:
    """What the destinations have made is removed, also when a later evacuation succeeds."""
    cloud, uuid, source = dead_host(tmp_path)
    try:
        for host in set(cloud.hosts) - {source}:
            cloud.drivers[host].fail("power_on", [errors.HypervisorError("no"), errors.HypervisorError("no")])
        for tries in (1, 2):
            evacuate(cloud, uuid)
            assert wait_until(cloud, lambda: finished(cloud, uuid), UNDISTURBED)
            assert (state_of(cloud, uuid), host_of(cloud, uuid)) == (("active", None), source)
            assert (migrations(cloud, uuid), holders(cloud)) == (["error"] * tries, {"INSTANCE": 1})
        evacuate(cloud, uuid)
        assert wait_until(cloud, lambda: finished(cloud, uuid), UNDISTURBED)
        assert migrations(cloud, uuid) == ["error", "error", "done"]
        power_back(cloud, source)
        cloud.world.run(90.0)
        assert migrations(cloud, uuid) == ["error", "error", "completed"]
        assert (cloud.violations(), cloud.running(), holders(cloud)) == (
            [],
            {(host_of(cloud, uuid), uuid)},
            {"INSTANCE": 1},
        )
        assert sum(len(driver.domains()) for driver in cloud.drivers.values()) == 1
    finally:
        cloud.world.close()


def test_a_destination_dies_and_the_next_one_takes_over(tmp_path: Path) -> None:
    cloud, uuid, source = dead_host(tmp_path)
    try:
        evacuate(cloud, uuid)
        wait_until(cloud, lambda: host_of(cloud, uuid) != source, UNDISTURBED)
        first = host_of(cloud, uuid)
        cloud.world.keep_down([first], math.inf)
        force(cloud, first, down=True)
        assert wait_until(cloud, lambda: finished(cloud, uuid), STABLE_WITHIN)
        if state_of(cloud, uuid) == ("active", None) and host_of(cloud, uuid) == first:
            evacuate(cloud, uuid)  # it had arrived
            assert wait_until(cloud, lambda: finished(cloud, uuid), STABLE_WITHIN)
        last = host_of(cloud, uuid)
        assert last not in {source, first}
        for host in (source, first):
            power_back(cloud, host)
        cloud.world.run(120.0)
        assert (cloud.running(), holders(cloud)) == ({(last, uuid)}, {"INSTANCE": 1})
        assert set(migrations(cloud, uuid)) == {"completed"}
    finally:
        cloud.world.close()


@pytest.mark.parametrize("when", daily(["rebuilding", "done"], ("rebuilding",), "the server is at rest again then"))
def test_a_deletion_frees_both_sides(tmp_path: Path, when: str) -> None:
    cloud, uuid, source = dead_host(tmp_path)
    try:
        evacuate(cloud, uuid)
        if when == "done":
            assert wait_until(cloud, lambda: finished(cloud, uuid), UNDISTURBED)
        cloud.delete_asked.add(uuid)
        cloud.conductor.delete_server(cloud.user(), instance_uuid=uuid)
        cloud.world.run(60.0)
        assert holders(cloud) == ({} if when == "rebuilding" else {"MIGRATION": 1})
        power_back(cloud, source)
        cloud.world.run(120.0)
        assert (holders(cloud), cloud.running(), cloud.violations()) == ({}, set(), [])
        force(cloud, source, down=False)
    finally:
        cloud.world.close()


@pytest.mark.parametrize("evacuated", [True, False])
def test_a_host_that_returns_starts_nothing_while_it_is_forced_down(tmp_path: Path, evacuated: bool) -> None:
    cloud, uuid, source = dead_host(tmp_path, resume_guests_state_on_host_boot=True)
    try:
        power_back(cloud, source)
        cloud.world.run(120.0)
        assert (cloud.running(), state_of(cloud, uuid)) == (set(), ("active", None))
        if evacuated:
            evacuate(cloud, uuid)
            assert wait_until(cloud, lambda: set(migrations(cloud, uuid)) == {"completed"}, 120.0)
        force(cloud, source, down=False)
        cloud.world.run(90.0)
        host = host_of(cloud, uuid)
        assert (host != source) == evacuated
        assert (cloud.running(), state_of(cloud, uuid), cloud.violations()) == ({(host, uuid)}, ("active", None), [])
    finally:
        cloud.world.close()


def test_a_host_that_is_only_silent_is_not_evacuated(tmp_path: Path) -> None:
    cloud, uuid, source = dead_host(tmp_path)
    try:
        force(cloud, source, down=False)
        cloud.world.run(120.0)
        with pytest.raises(errors.BadRequest, match="is still in use"):
            evacuate(cloud, uuid)
        force(cloud, source, down=True)
        with pytest.raises(errors.BadRequest, match="can't be the same"):
            evacuate(cloud, uuid, host=source)
        evacuate(cloud, uuid, host="host-2" if source != "host-2" else "host-1", stops=True)
        with pytest.raises(errors.Conflict, match="while its evacuation"):
            evacuate(cloud, uuid)
        assert wait_until(cloud, lambda: finished(cloud, uuid), UNDISTURBED)
        assert state_of(cloud, uuid) == ("stopped", None)
        cloud.world.run(90.0)
        assert (state_of(cloud, uuid), cloud.running()) == (("stopped", None), set())
        cloud.act(uuid, "start")
        cloud.world.run(30.0)
        assert cloud.running() == {(host_of(cloud, uuid), uuid)}
    finally:
        cloud.world.close()
