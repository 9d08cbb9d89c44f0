"""minova-placement-api: Placement alone, over HTTP.

WSGI servers take `minova.cmd.placement_api:application()`.
"""

import logging
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import falcon
from oslo_config import cfg

from minova import conf as configuration
from minova import log
from minova.api.access.auth import foreign_server_authenticator, placement_authenticator
from minova.api.access.authenticator import Authenticator
from minova.api.listener.bridge import ListenerCapacity
from minova.api.listener.service import HttpService, Listen, limits_of
from minova.api.placement.app import make_app
from minova.cmd.startup import database
from minova.cmd.startup.launch import launch
from minova.conf import foreign_options
from minova.db.connections.tls import connection_url
from minova.db.upgrade import upgrade
from minova.service import Runnable

LOG = logging.getLogger(__name__)

PROG = "minova-placement-api"
CLI = [
    cfg.BoolOpt(
        "dev",
        default=False,
        help="Serve on loopback with noauth2 (X-Auth-Token: admin) and a new database, which is gone at the end.",
    ),
    cfg.PortOpt("port", help="Port to listen on instead of [placement] listen_port; 0 takes a free one."),
]


class Development(HttpService):
    """Prints its address when it starts, and removes its folder when it stops."""

    folder: "tempfile.TemporaryDirectory[str]"

    def start(self) -> None:
        super().start()
        print(f"{PROG} is ready: http://127.0.0.1:{self.port}", flush=True)

    def stop(self) -> None:
        super().stop()
        self.folder.cleanup()


def prepare(conf: cfg.ConfigOpts) -> "tempfile.TemporaryDirectory[str]":
    """Returns the folder of a new database, after setting the options that use it: on loopback, with noauth2."""
    folder = tempfile.TemporaryDirectory(prefix="minova-placement-", ignore_cleanup_errors=True)
    conf.set_override("connection", f"sqlite:///{Path(folder.name) / 'placement.sqlite'}", group="database")
    conf.set_override("auth_strategy", "noauth2", group="placement")
    conf.set_override("listen", "127.0.0.1", group="placement")
    upgrade(connection_url(conf.database))
    return folder


def compose(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Runnable]:
    if conf.dev:
        folder = prepare(conf)
        service = Development(PROG, _application(conf, stopping, placement_authenticator(conf)), _listen(conf))
        service.folder = folder
        return [service]
    return [HttpService(PROG, _application(conf, stopping, placement_authenticator(conf)), _listen(conf))]


def _application(conf: cfg.ConfigOpts, stopping: threading.Event, authenticate: Authenticator) -> falcon.App[Any, Any]:
    reads = database.connect(conf, stopping, readonly=True)
    return make_app(conf, authenticate, reads, lambda: database.opened(conf, durable=not conf.dev))


def _listen(conf: cfg.ConfigOpts) -> Listen:
    options = conf.placement
    return Listen(
        host=options.listen,
        port=options.listen_port if conf.port is None else conf.port,
        host_option="[placement] listen",
        port_option="listen_port",
        capacity=ListenerCapacity(reads=conf.api.threads, transfers=conf.api.transfers),
        limits=limits_of(conf),
        cert_file=None if conf.dev else conf.api.ssl_cert_file,
        key_file=None if conf.dev else conf.api.ssl_key_file,
    )


def application() -> falcon.App[Any, Any]:
    """Returns the WSGI application, with the options from $MINOVA_CONF or from the usual files.

    Raises InvalidConfiguration, as a service at its start, and for noauth, because the WSGI server is not minova's.
    """
    files = [os.environ["MINOVA_CONF"]] if "MINOVA_CONF" in os.environ else None
    conf = configuration.load([], PROG, files=files, cli=CLI)
    warning = foreign_options.warning_of(configuration.foreign(conf))
    log.setup(conf)
    if warning is not None:
        LOG.warning("%s", warning)
    return _application(conf, threading.Event(), foreign_server_authenticator(conf))


def main() -> NoReturn:
    launch(PROG, compose, cli=CLI)
