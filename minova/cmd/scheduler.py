"""minova-scheduler."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from oslo_config import cfg

from minova.cmd.startup import clients, database
from minova.cmd.startup.launch import launch
from minova.contracts.scheduler import SchedulerApi
from minova.malloc import keep_memory
from minova.messaging.dispatch import Implementation
from minova.messaging.notifier import Notifier
from minova.messaging.rpc import Rpc
from minova.scheduler.manager import SchedulerManager
from minova.service import RpcService, Runnable
from minova.witness import Witness


def compose(conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event) -> Runnable:
    db = database.connect(conf, stopping)
    witness = Witness(Path(conf.state_path) / "cloud-scheduler")
    database.join_cloud(db, rpc, witness, stopping)
    database.follow_levels(conf, db, rpc)
    manager = SchedulerManager(
        conf,
        db,
        clients.conductor(rpc),
        host=conf.host,
        stopping=stopping,
        notifier=Notifier(conf),
        safe_mode=rpc.safe_mode,
        witness=witness,
    )
    return RpcService(
        "minova-scheduler",
        manager,
        lambda: rpc.server(SchedulerApi, Implementation(parts=(manager,), safe_mode=manager.safe_mode), host=conf.host),
        stopping,
    )


def compose_process(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Runnable]:
    keep_memory()  # of this process alone: minova-standalone has other work, whose memory should go back
    return [compose(conf, Rpc(conf), stopping)]


def main() -> NoReturn:
    launch("minova-scheduler", compose_process)
