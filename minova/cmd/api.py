"""minova-api: the only service that people and tools talk to. With [api] workers it starts that many copies of
itself.
"""

import threading
from collections.abc import Sequence
from typing import NoReturn, cast

from oslo_config import cfg

from minova.api.app import make_app
from minova.api.listener.workers import Worker, Workers, inherited
from minova.api.repeated_calls import RepeatingConductor
from minova.api.server import ApiService, listen_of
from minova.cmd import clients, database
from minova.cmd.launch import launch
from minova.contracts.conductor import ConductorApi
from minova.hardware.pci_alias import parse_aliases
from minova.messaging.rpc import Rpc
from minova.service import Running

# -P: Python imports nothing from the folder in which the process is started.
COMMAND = ("-P", "-c", "from minova.cmd.api import main; main()")


def compose(conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event, worker: Worker | None = None) -> ApiService:
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
    app = make_app(conf, db, cast(ConductorApi, conductor), compute, writes, failures)
    return ApiService(conf, app, None if worker is None else worker.listening)


def alone(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Running]:
    worker = inherited()
    if worker is not None:
        worker.stop_with_parent(stopping)
        return [compose(conf, Rpc(conf), stopping, worker), worker]
    if conf.api.workers > 1:
        return [Workers("minova-api", COMMAND, conf.api.workers, listen_of(conf), conf)]
    return [compose(conf, Rpc(conf), stopping)]


def main() -> NoReturn:
    launch("minova-api", alone)
