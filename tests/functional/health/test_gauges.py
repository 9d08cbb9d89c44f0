"""The gauges of a real cloud in one process: its services, resources, guests, tasks and queues."""

from pathlib import Path

from minova.cmd.startup.gauges import queue_names
from minova.db.engine import Database
from minova.health import readings
from minova.health.gauges import cloud_families
from minova.messaging.queue_depths import depths
from tests.cluster import Cluster, configure
from tests.functional.placement.audit_cases import boot, task_for
from tests.functional.placement.cases import hosts
from tests.tables import make_tables
from tests.waiting import wait_for

DOWN_TIME = 60.0


def gauges(db: Database) -> dict[tuple[str, ...], float]:
    with db.read() as session:
        families = cloud_families(readings.read(session, db, DOWN_TIME))
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_services_resources_and_queues_of_a_cloud(tmp_path: Path) -> None:
    with Cluster(tmp_path, ["hv1", "hv2"]) as cloud:
        up = ("minova_services", "minova-compute", "up", "enabled")
        wait_for("both computes", lambda: gauges(cloud.db).get(up) == 2)
        wait_for("inventories", lambda: ("minova_resource_size", "hv2", "hv2", "VCPU") in gauges(cloud.db))
        shown = gauges(cloud.db)
        assert shown["minova_service_up", "controller", "minova-conductor"] == 1
        assert 0 <= shown["minova_service_report_age_seconds", "hv1", "minova-compute"] < DOWN_TIME
        assert shown["minova_resource_reserved", "hv1", "hv1", "MEMORY_MB"] == 512
        assert shown["minova_resource_used", "hv1", "hv1", "MEMORY_MB"] == 512
        assert shown["minova_resource_allocated", "hv1", "hv1", "MEMORY_MB"] == 0

        depth_by_queue = depths(cloud.rpc("conductor", configure(tmp_path / "own")), queue_names(cloud.db, DOWN_TIME))
        assert set(depth_by_queue) == {"conductor", "conductor_api", "scheduler", "compute.hv1", "compute.hv2"}
        assert depths(cloud.rpc("conductor", configure(tmp_path / "own")), ["absent", "conductor"]).keys() == {
            "conductor"
        }
        assert depth_by_queue["compute.hv1"].messages == 0


def test_guests_and_tasks_by_their_states(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    db = Database(url)
    hosts(db, "a", "b")
    boot(db, "one", "a", allocated="a")
    boot(db, "two", "a", allocated="a")
    task_for(db, "one", "action")
    try:
        db.advance_clock()
        shown = gauges(db)
    finally:
        db.close()
    assert sum(value for key, value in shown.items() if key[:2] == ("minova_guests", "a")) == 2
    assert sum(value for key, value in shown.items() if key[0] == "minova_servers") == 2
    assert shown["minova_tasks_in_progress", "action", "action"] == 1
    assert shown["minova_tasks_overdue", "action", "action"] == 1
    assert shown["minova_oldest_task_seconds", "action", "action"] == 0  # no conductor has taken it over yet
