"""minova-consoleproxy: connects browsers and terminals to the consoles of guests."""

import threading
from collections.abc import Sequence
from typing import NoReturn

from oslo_config import cfg

from minova.cmd.startup import clients
from minova.cmd.startup.launch import launch
from minova.consoleproxy.server import ConsoleProxy
from minova.messaging.rpc import Rpc
from minova.service import Runnable


def compose(conf: cfg.ConfigOpts, rpc: Rpc) -> ConsoleProxy:
    tries = clients.TRIES_BEFORE_ERROR
    return ConsoleProxy(conf, clients.conductor(rpc, retry=tries), clients.compute(rpc, retry=tries))


def compose_process(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Runnable]:
    return [compose(conf, Rpc(conf))]


def main() -> NoReturn:
    launch("minova-consoleproxy", compose_process)
