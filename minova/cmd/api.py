"""minova-api: the one door for people and tools."""

import threading
from collections.abc import Sequence
from typing import NoReturn, cast

from oslo_config import cfg

from minova.api.app import make_app
from minova.api.repeated_calls import RepeatingConductor
from minova.api.server import ApiService
from minova.cmd import clients, database
from minova.cmd.launch import launch
from minova.contracts.conductor import ConductorApi
from minova.hardware.pci_alias import parse_aliases
from minova.rpc import Rpc
from minova.service import Running


def compose(conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event) -> ApiService:
    parse_aliases(conf.pci.alias, pci_in_placement=conf.filter_scheduler.pci_in_placement)  # or it stops here
    db = database.connect(conf, stopping, readonly=True)
    database.follow_levels(conf, db, rpc)
    tries = clients.TOLD_AFTER_TRIES
    first = clients.conductor(rpc, retry=tries, timeout=clients.FIRST_ANSWER)
    conductor = RepeatingConductor(first, clients.conductor(rpc, retry=tries), db)
    compute = clients.compute(rpc, retry=tries)
    writes = (lambda: database.opened(conf)) if conf.placement.in_api else None
    return ApiService(conf, make_app(conf, db, cast(ConductorApi, conductor), compute, writes))


def alone(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Running]:
    return [compose(conf, Rpc(conf), stopping)]


def main() -> NoReturn:
    launch("minova-api", alone)
