"""Evacuations in a whole cloud of fake hosts: one host dies, and a process is killed at each step on the way."""

import math
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.conductor.tasks import worker
from minova.db.models import Allocation, Consumer, Instance, Migration, Service
from minova.objects.servers.evacuation import EvacuationRequest
from minova.objects.servers.states import PowerState
from tests.faults.cloud import Cloud
from tests.faults.test_crash_table import (
    DOWN_FOR,
    PROMPT,
    RENEWALS,
    STABLE_WITHIN,
    UNDISTURBED,
    is_at_rest,
    state_of,
    unfinished,
    wait_until,
)
from tests.faults.world import Faults

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _fewer_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RENEWALS", RENEWALS)


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
    cloud.conductor.update_service(cloud._user(), service_uuid=str(uuid), forced_down=down)


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
    cloud.conductor.evacuate_server(cloud._user(), instance_uuid=uuid, request=EvacuationRequest(**request))  # type: ignore[arg-type]


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
        with pytest.raises(errors.BadRequest, match="1 evacuations from it are not completed"):
            force(cloud, source, down=False)
        power_back(cloud, source)
        assert wait_until(cloud, lambda: migrations(cloud, uuid) == ["completed"], STABLE_WITHIN)
        assert holders(cloud) == {"INSTANCE": 1}
        assert cloud.drivers[source].domains() == ()
        force(cloud, source, down=False)
        cloud.world.run(90.0)
        assert (cloud.violations(), unfinished(cloud), cloud.running()) == ([], [], {(host, uuid)})
    finally:
        cloud.world.close()
