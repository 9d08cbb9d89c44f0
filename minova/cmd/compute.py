"""minova-compute: the one that has no database."""

import threading
from collections.abc import Sequence
from typing import NoReturn

from oslo_config import cfg

from minova import virt
from minova.cmd import clients
from minova.cmd.launch import launch
from minova.compute.host_identity import LocalIdentity
from minova.compute.images.cache import ImageCache
from minova.compute.manager import ComputeManager
from minova.contracts.compute import ComputeApi
from minova.rpc import Rpc
from minova.service import Running, Service


def compose(conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event) -> Running:
    conductor = clients.conductor(rpc)
    manager = ComputeManager(
        conf,
        virt.load(conf),
        conductor,
        host=conf.host,
        images=ImageCache(conf),
        stopping=stopping,
        identity=LocalIdentity.of(conf),
        learn_levels=rpc.levels.learn,
    )
    return Service("minova-compute", manager, lambda: rpc.server(ComputeApi, manager, host=conf.host), stopping)


def alone(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Running]:
    return [compose(conf, Rpc(conf), stopping)]


def main() -> NoReturn:
    launch("minova-compute", alone)
