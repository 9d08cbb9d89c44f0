"""minova-standalone: all four services in one process, over an in-memory bus and SQLite, with the same code."""

import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from oslo_config import cfg
from oslo_utils.netutils import escape_ipv6

from minova import errors
from minova.cmd import api, compute, conductor, scheduler
from minova.cmd.startup import clients, gauges, standalone_folder
from minova.cmd.startup.default_network import DefaultNetwork
from minova.cmd.startup.launch import launch
from minova.cmd.startup.usual_flavors import FLAVORS, MADE
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.db.connections.tls import connection_url
from minova.db.upgrade import upgrade
from minova.messaging.rpc import Rpc
from minova.private_files import make_folder
from minova.service import Runnable
from minova.virt.libvirt.guest_files import root_files

LOG = logging.getLogger(__name__)

CLI = [
    cfg.StrOpt("state-dir", default="/var/lib/minova", help="Folder of everything it keeps: database, images, disks."),
]


class FirstStart:
    """Makes FLAVORS and the network `default` only once for each state folder. If an operator deletes them, they are
    not made again.
    """

    binary = "first start"

    def __init__(self, conductor: ConductorApi, network: DefaultNetwork, marker: Path) -> None:
        self._conductor = conductor
        self._network = network
        self._marker = marker

    def start(self) -> None:
        if self._marker.exists():
            return
        for flavor in FLAVORS:
            try:
                self._conductor.create_flavor(service_context(), flavor=flavor)
            except errors.Conflict:  # made before a crash
                continue
        self._network.make()
        self._marker.touch()

    def stop(self) -> None:
        """Does nothing."""


def prepare(conf: cfg.ConfigOpts) -> None:
    """Prepare the state folder, under which all paths lie. Only one process may work in it."""
    state_dir = Path(conf.state_dir).absolute()
    try:
        make_folder(state_dir)
        conf.set_override("state_path", str(state_dir))
        standalone_folder.lock(state_dir)
    except OSError as error:
        raise errors.InvalidConfiguration(f"--state-dir {state_dir}: {error.strerror}") from error
    # minova's own images, not those of another service that listens on the usual port.
    conf.set_default("endpoint_override", _url(conf), group="glance")


def compose(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Runnable]:
    upgrade(connection_url(conf.database))
    rpc = Rpc(conf, "kombu+memory://localhost/")
    marker = Path(conf.state_path) / MADE
    parts: list[Runnable] = [part.compose(conf, rpc, stopping) for part in (conductor, scheduler, api, compute)]
    if conf.vnc.enabled or conf.serial_console.enabled:
        # Imported here, because importing websockify takes time and most starts do not need it.
        from minova.cmd import consoleproxy  # noqa: PLC0415

        parts.append(consoleproxy.compose(conf, rpc))
    parts += [*_metadata(conf, rpc), *gauges.compose(conf, rpc, stopping)]
    own = clients.conductor(rpc)
    return [*parts[:1], FirstStart(own, DefaultNetwork(conf, own), marker), *parts[1:]]


def _metadata(conf: cfg.ConfigOpts, rpc: Rpc) -> list[Runnable]:
    """Returns the metadata service for guests of local networks."""
    real = conf.compute_driver.startswith("libvirt") and conf.libvirt.virt_type != "test"
    if not real or not conf.networks.metadata_service:
        return []
    # Imported here for the same reason as the console proxy.
    from minova.cmd import metadata  # noqa: PLC0415

    return [metadata.local(conf, rpc)]


def _url(conf: cfg.ConfigOpts) -> str:
    scheme = "https" if conf.api.ssl_cert_file else "http"
    return f"{scheme}://{escape_ipv6(conf.api.osapi_compute_listen)}:{conf.api.osapi_compute_listen_port}"


def ready(conf: cfg.ConfigOpts) -> None:
    print(f"minova-standalone is ready: {_url(conf)}", file=sys.stderr, flush=True)


def main() -> NoReturn:
    root_files.start_helper()
    launch("minova-standalone", compose, cli=CLI, prepare=prepare, ready=ready)
