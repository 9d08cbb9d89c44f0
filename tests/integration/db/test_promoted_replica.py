"""A replica of PostgreSQL that lacks the last changes is promoted under a cloud that runs: nothing dies, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.cmd.commands import recovery
from minova.compute.periodic import periodic_tasks
from minova.db.recovery import cloud
from minova.objects.hosts.cloud import LOST
from tests.cluster import Cluster, configure
from tests.functional.test_safe_mode import make_image, make_server, refused, status_of
from tests.servers.postgresql import PostgreSQL, Replica
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def primary() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def replica(primary: PostgreSQL, tmp_path: Path) -> Iterator[Replica]:
    with Replica(primary, tmp_path / "replica") as server:
        yield server


def test_a_lagging_replica_is_promoted(
    primary: PostgreSQL, replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_tasks, "GUESTS_INTERVAL", 2.0)
    conf = configure(tmp_path / "operator")
    with Cluster(tmp_path, ["a"], database_url=primary.fresh_url(), report_interval=2) as cluster:
        driver = cluster.driver("a")
        image = make_image(cluster.url)
        first = make_server(cluster.url, image)
        wait_for("the replica has all", replica.has_all)
        replica.lag()
        wait_for("the replica receives nothing more", replica.is_cut_off)
        second = make_server(cluster.url, image)
        running = {domain.uuid: domain.power_state for domain in driver.domains()}
        assert running.keys() == {first, second}
        # A loss shorter than one renewal of the lease leaves no trace in the change counters (decision 0045).
        before = counted(cluster)
        wait_for("the conductor counts a change", lambda: counted(cluster) > before)
        cluster.db.engine.dispose()  # its connection ends with the primary

        replica.take_over()
        wait_for("changes are refused", lambda: refused(cluster.url))
        wait_for("the cloud is in safe mode", lambda: state(cluster).safe_reason == LOST)
        wait_for("the host has reported", lambda: recovery.find(cluster.db, conf).silent.get("host") is None)
        assert {domain.uuid: domain.power_state for domain in driver.domains()} == running

        findings = recovery.find(cluster.db, conf)
        assert [(thing.id, thing.where, thing.can_be_adopted) for thing in findings.things] == [(second, "a", True)]
        left = recovery.bring_together(cluster.db, findings, (), conf)
        recovery.end(cluster.db, findings, (), left=left, leave_rest=False)
        wait_for("changes are taken again", lambda: refused(cluster.url) is None)
        assert {status_of(cluster.url, uuid) for uuid in (first, second)} == {"ACTIVE"}
        assert {domain.uuid: domain.power_state for domain in driver.domains()} == running
        make_server(cluster.url, image)


def counted(cluster: Cluster) -> int:
    with cluster.db.read() as session:
        row, marks = cloud.record_and_marks(session, cluster.db.now())
        assert row is not None
        return sum(mark.number for mark in marks)


def state(cluster: Cluster) -> cloud.CloudRecord:
    with cluster.db.read() as session:
        cloud_record = cloud.record(session, cluster.db.now())
    assert cloud_record is not None
    return cloud_record
