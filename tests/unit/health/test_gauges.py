"""The gauges of the whole cloud: what they count, and what the page shows while the database does not answer."""

import threading
from collections.abc import Iterable

from prometheus_client.core import Metric

from minova import errors
from minova.health.gauges import IDLE_AFTER, Families, Gauges, cloud_families, queue_families
from minova.health.readings import InventoryReading, NodeReading, Reading, ServiceReading, TaskReading
from minova.messaging.queue_depths import Depth

READING = Reading(
    services=(
        ServiceReading("c1", "minova-compute", "up", False, 3.5),
        ServiceReading("c2", "minova-compute", "down", True, 90.0),
        ServiceReading("c3", "minova-compute", "down", True, None),
    ),
    inventories=(InventoryReading("c1", "c1.node", "VCPU", 8, 1, 28, 5),),
    nodes=(NodeReading("c1", "c1.node", 4, 2048, 20, 100), NodeReading("c2", "c2.node", 0, 512, 0, None)),
    tasks=(TaskReading("build", "schedule", 3, 12.0, 1),),
    guests={("c1", "running"): 4, ("c1", "paused"): 1},
    servers={"active": 5},
)


def samples(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_services_by_kind_state_and_status() -> None:
    shown = samples(cloud_families(READING))
    assert shown["minova_services", "minova-compute", "up", "enabled"] == 1
    assert shown["minova_services", "minova-compute", "down", "disabled"] == 2
    assert shown["minova_service_up", "c1", "minova-compute"] == 1
    assert shown["minova_service_up", "c2", "minova-compute"] == 0
    assert shown["minova_service_report_age_seconds", "c2", "minova-compute"] == 90
    assert ("minova_service_report_age_seconds", "c3", "minova-compute") not in shown


def test_resources_guests_and_tasks() -> None:
    shown = samples(cloud_families(READING))
    resources = {
        name.removeprefix("minova_resource_"): value
        for (name, *labels), value in shown.items()
        if labels == ["c1", "c1.node", "VCPU"]
    }
    assert resources == {"size": 8, "reserved": 1, "capacity": 28, "allocated": 5, "used": 4}
    assert shown["minova_host_disk_available_gb", "c1", "c1.node"] == 100
    assert ("minova_host_disk_available_gb", "c2", "c2.node") not in shown
    assert shown["minova_guests", "c1", "paused"] == 1
    assert shown["minova_servers", "active"] == 5
    assert shown["minova_oldest_task_seconds", "build", "schedule"] == 12
    assert shown["minova_tasks_overdue", "build", "schedule"] == 1


def test_queues() -> None:
    shown = samples(queue_families({"conductor": Depth(7, 2)}))
    assert shown == {("minova_queue_messages", "conductor"): 7, ("minova_queue_consumers", "conductor"): 2}


class Source:
    """A database that may be away."""

    def __init__(self) -> None:
        self.reads = 0
        self.is_up = True

    def read(self) -> Families:
        self.reads += 1
        if not self.is_up:
            raise errors.ServiceUnavailable("away")
        return queue_families({"conductor": Depth(self.reads, 1)})


def test_an_old_figure_is_not_shown_while_the_database_does_not_answer() -> None:
    source = Source()
    gauges = Gauges("test", source.read, queue_families({}), threading.Event())
    gauges.refresh()
    assert samples(gauges.collect())["minova_queue_messages", "conductor"] == 1
    source.is_up = False
    gauges.refresh()
    assert samples(gauges.collect()) == {}
    assert [family.name for family in gauges.describe()] == ["minova_queue_messages", "minova_queue_consumers"]


def test_the_database_is_read_only_while_the_page_is_read() -> None:
    now, source = 0.0, Source()
    gauges = Gauges("test", source.read, queue_families({}), threading.Event(), lambda: now)
    gauges.refresh()
    now = IDLE_AFTER + 1
    gauges.refresh()
    assert source.reads == 1
    assert samples(gauges.collect()) == {}
    gauges.refresh()
    assert source.reads == 2
