"""The gauges of the whole cloud on the page of a conductor.

They are read in the background while the page is read, so that neither a slow database nor a broker that is away delays the
page. After a failed reading the page has no sample of them: an old figure is worse than none.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from minova import errors, metrics
from minova.health.readings import Reading
from minova.messaging.queue_depths import Depth
from minova.service import PeriodicTask, start_periodic

# Seconds between two readings, and after the last reading of the page until they pause.
INTERVAL = 15.0
IDLE_AFTER = 300.0
# The node's own counts, by resource class.
USED = {"VCPU": "vcpus_used", "MEMORY_MB": "memory_mb_used", "DISK_GB": "local_gb_used"}
_OF_INVENTORY = ("host", "provider", "resource_class")
Families = list[GaugeMetricFamily]


class Gauges(Collector):
    """`read`: returns the families with their samples, and raises MinovaError if that is not possible. `empty`: the same families
    without samples.
    """

    binary = "gauges"

    def __init__(
        self,
        name: str,
        read: Callable[[], Families],
        empty: Families,
        stopping: threading.Event,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._read = read
        self._stopping = stopping
        self._ticks = ticks
        self._shown_at = ticks()
        self._empty = self._families = empty

    def start(self) -> None:
        metrics.REGISTRY.register(self)
        task = PeriodicTask(name=self._name, interval=INTERVAL, work=self.refresh, at_once=True, in_safe_mode=True)
        start_periodic(task, self._stopping)

    def stop(self) -> None:
        metrics.REGISTRY.unregister(self)

    def refresh(self) -> None:
        if self._ticks() - self._shown_at > IDLE_AFTER:
            self._families = self._empty
            return
        try:
            self._families = self._read()
        except errors.ServiceUnavailable:  # the outage has its own line in the log and its own gauge
            self._families = self._empty

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return self._empty

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self._shown_at = self._ticks()
        yield from self._families


def cloud_families(reading: Reading | None) -> Families:
    """Returns the gauges of a reading of the database; None: without samples."""
    if reading is None:
        reading = Reading(services=(), inventories=(), nodes=(), tasks=(), guests={}, servers={})
    return [
        *_services(reading),
        *_resources(reading),
        _family(
            "minova_host_disk_available_gb",
            "Disk space that the disks of guests of this node may still grow by, as its driver reports it.",
            ("host", "node"),
            (
                ((node.host, node.node), node.disk_available_least)
                for node in reading.nodes
                if node.disk_available_least is not None
            ),
        ),
        _family(
            "minova_guests",
            "Guests by host and power state: running, paused, shutdown, crashed, suspended, nostate.",
            ("host", "state"),
            reading.guests.items(),
        ),
        _family(
            "minova_servers",
            "Servers by vm_state.",
            ("state",),
            (((state,), count) for state, count in reading.servers.items()),
        ),
        *_tasks(reading),
    ]


def queue_families(depths: dict[str, Depth]) -> Families:
    return [
        _family(
            "minova_queue_messages",
            "Messages that wait in a queue of services.",
            ("queue",),
            (((name,), depth.messages) for name, depth in depths.items()),
        ),
        _family(
            "minova_queue_consumers",
            "Processes that read a queue of services.",
            ("queue",),
            (((name,), depth.consumers) for name, depth in depths.items()),
        ),
    ]


def _services(reading: Reading) -> Iterator[GaugeMetricFamily]:
    counts: dict[tuple[str, str, str], int] = {}
    for service in reading.services:
        key = (service.binary, service.state, "disabled" if service.disabled else "enabled")
        counts[key] = counts.get(key, 0) + 1
    yield _family(
        "minova_services",
        "Services by kind, state (up, down, in_doubt) and status (enabled, disabled).",
        ("binary", "state", "status"),
        counts.items(),
    )
    yield _family(
        "minova_service_up",
        "1 while the service counts as up.",
        ("host", "binary"),
        (((service.host, service.binary), service.state != "down") for service in reading.services),
    )
    yield _family(
        "minova_service_report_age_seconds",
        "Time since the last report of the service.",
        ("host", "binary"),
        (((service.host, service.binary), service.age) for service in reading.services if service.age is not None),
    )


def _resources(reading: Reading) -> Iterator[GaugeMetricFamily]:
    what = {
        "total": "What the provider has of the resource: MEMORY_MB in MB, DISK_GB in GB.",
        "reserved": "The part of the total that servers do not get.",
        "capacity": "What may be allocated: (total - reserved) * allocation ratio.",
        "allocated": "What consumers hold.",
    }
    names = {"total": "minova_resource_size", **{name: f"minova_resource_{name}" for name in list(what)[1:]}}
    for figure, text in what.items():
        samples = ((inventory[:3], getattr(inventory, figure)) for inventory in reading.inventories)
        yield _family(names[figure], text, _OF_INVENTORY, samples)
    used = (
        ((node.host, node.node, resource), getattr(node, column))
        for node in reading.nodes
        for resource, column in USED.items()
    )
    yield _family("minova_resource_used", "What the node itself counts as used.", _OF_INVENTORY, used)


def _tasks(reading: Reading) -> Iterator[GaugeMetricFamily]:
    labels = ("kind", "step")
    yield _family(
        "minova_tasks_in_progress",
        "Tasks of all conductors: kind build, delete, move or the name of a server action.",
        labels,
        (((task.kind, task.step), task.number) for task in reading.tasks),
    )
    yield _family(
        "minova_oldest_task_seconds",
        "Age of the oldest of these tasks.",
        labels,
        (((task.kind, task.step), task.age) for task in reading.tasks),
    )
    yield _family(
        "minova_tasks_overdue",
        "Tasks whose time is over.",
        labels,
        (((task.kind, task.step), task.overdue) for task in reading.tasks),
    )


def _family(
    name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, float(number))
    return family
