"""Makes the gauges of the whole cloud, for the page of a conductor."""

import threading
from collections.abc import Iterable

from oslo_config import cfg

from minova.cmd.startup import database
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.conductor.audiences import API_TOPIC
from minova.contracts.scheduler import SchedulerApi
from minova.db.engine import Database
from minova.health import readings
from minova.health.gauges import Families, Gauges, cloud_families, queue_families
from minova.messaging.queue_depths import depths
from minova.messaging.rpc import Rpc
from minova.service import Runnable

# Queues that any service of the kind reads.
SHARED_QUEUES = (ConductorApi.TOPIC, API_TOPIC, SchedulerApi.TOPIC)


def compose(conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event) -> list[Runnable]:
    """Returns nothing if the page is off."""
    if not conf.prometheus.enabled:
        return []
    db = database.of_its_own(conf)
    down_time = float(conf.service_down_time)

    def cloud() -> Families:
        with db.read() as session:
            return cloud_families(readings.read(session, db, down_time))

    def queues() -> Families:
        return queue_families(depths(rpc, queue_names(db, down_time)))

    return [
        Gauges("read_gauges", cloud, cloud_families(None), stopping),
        Gauges("read_queues", queues, queue_families({}), stopping),
    ]


def queue_names(db: Database, down_time: float) -> Iterable[str]:
    """Returns the queues of living services. The queue of a host that is down holds messages that expire."""
    with db.read() as session:
        hosts = readings.living_hosts(session, down_time, db)
    return [*SHARED_QUEUES, *(f"{ComputeApi.TOPIC}.{host}" for host in hosts)]
