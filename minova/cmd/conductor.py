"""minova-conductor."""

import threading
from collections.abc import Sequence
from typing import NoReturn

from oslo_config import cfg

from minova.cmd import clients, database
from minova.cmd.launch import launch
from minova.conductor.manager import ConductorManager
from minova.contracts.conductor import ConductorApi
from minova.hardware.pci_alias import parse_aliases
from minova.notifier import Notifier
from minova.rpc import Rpc
from minova.service import Running, Service


def compose(conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event) -> Running:
    parse_aliases(conf.pci.alias, pci_in_placement=conf.filter_scheduler.pci_in_placement)  # or it stops here
    db = database.connect(conf, stopping)
    database.follow_levels(conf, db, rpc)
    manager = ConductorManager(
        conf,
        db,
        clients.scheduler(rpc),
        clients.compute(rpc),
        host=conf.host,
        stopping=stopping,
        over_the_bus=clients.conductor(rpc),
        notifier=Notifier(conf),
        levels=rpc.levels.known,
        leases=database.of_its_own(conf),
        dry_runs=clients.dry_runs(rpc),
    )
    rpc.reconnects.on_reconnect(manager.broker_is_back)
    server = lambda: rpc.server(ConductorApi, manager, host=conf.host)  # noqa: E731
    return Service("minova-conductor", manager, server, stopping, leave=manager.worker.leave)


def alone(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Running]:
    return [compose(conf, Rpc(conf), stopping)]


def main() -> NoReturn:
    launch("minova-conductor", alone)
