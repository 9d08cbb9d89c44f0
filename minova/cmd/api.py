"""minova-api: the only service that people and tools talk to. With [api] workers it starts that many copies of
itself.
"""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, cast

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.api.app import make_app
from minova.api.listener.workers import ListenerWorker, ListenerWorkers, inherited
from minova.api.repeated_calls import RepeatingConductor
from minova.api.server import ApiService, listen_of
from minova.cmd.startup import clients, database
from minova.cmd.startup.launch import launch
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database
from minova.db.recovery import reports
from minova.db.recovery.cloud import STORE, CloudRecord
from minova.db.recovery.cloud_watch import CloudWatch
from minova.hardware.pci_alias import parse_aliases
from minova.messaging.rpc import Rpc
from minova.objects.hosts.cloud import WitnessRecord
from minova.service import Runnable, until_available
from minova.witness import Witness

LOG = logging.getLogger(__name__)

# -P: Python imports nothing from the folder in which the process is started.
COMMAND = ("-P", "-c", "from minova.cmd.api import main; main()")


def compose(
    conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event, worker: ListenerWorker | None = None
) -> ApiService:
    """`worker`: what this process inherited from its parent if it is one of several; else None."""
    parse_aliases(conf.pci.alias, pci_in_placement=conf.filter_scheduler.pci_in_placement)  # stops here if wrong
    db = database.connect(conf, stopping, readonly=True)
    database.follow_levels(conf, db, rpc)
    tries = clients.TRIES_BEFORE_ERROR
    first = clients.conductor(rpc, retry=tries, timeout=clients.FIRST_ANSWER)
    conductor = RepeatingConductor(first, clients.conductor(rpc, retry=tries), db)
    compute = clients.compute(rpc, retry=tries)
    writes = (lambda: database.opened(conf)) if conf.placement.in_api else None
    failures = None if worker is None else worker.failures
    app = make_app(conf, db, cast(ConductorApi, conductor), compute, writes, failures, rpc.safe_mode)
    watch = _watch(conf, db, rpc, first)
    until_available("database", watch.run, stopping)  # before anything is served or removed
    return ApiService(conf, app, None if worker is None else worker.listening, watch.run)


def _watch(conf: cfg.ConfigOpts, db: Database, rpc: Rpc, conductor: ConductorApi) -> CloudWatch:
    """What the API has seen of its cloud is kept beside the image store: the bytes there belong to that cloud. An API
    that meets another database serves reads.
    """
    store = Path(conf.api.images_path)
    witness = Witness(store.with_name(f"{store.name}.cloud"))

    def tell(seen: WitnessRecord) -> None:
        try:
            conductor.api_has_seen(service_context(), place=conf.host, seen=seen)
        except errors.MinovaError as error:  # the next look tells it again
            LOG.debug("What this API has seen of its cloud did not reach a conductor: %s", error)

    def is_known(session: Session, row: CloudRecord) -> bool:
        # Bytes in Glance are not reported.
        return conf.glance.backend == "glance" or reports.is_known(session, row, STORE, str(conf.host))

    return CloudWatch("api", db, rpc.safe_mode, witness, tell=tell, is_known=is_known, learn=rpc.cloud.learn)


def compose_process(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Runnable]:
    worker = inherited()
    if worker is not None:
        worker.stop_with_parent(stopping)
        return [compose(conf, Rpc(conf, holds_back=True), stopping, worker), worker]
    if conf.api.workers > 1:
        return [ListenerWorkers("minova-api", COMMAND, conf.api.workers, listen_of(conf), conf)]
    return [compose(conf, Rpc(conf, holds_back=True), stopping)]


def main() -> NoReturn:
    launch("minova-api", compose_process)
