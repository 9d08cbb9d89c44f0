"""`minova-api` as a service."""

import logging
import socket
import threading
from collections.abc import Callable

from oslo_config import cfg

from minova.api.access.origin import is_loopback
from minova.api.app import App
from minova.api.image.storage import recovery, store_reports
from minova.api.listener.bridge import ListenerCapacity
from minova.api.listener.service import HttpService, Listen, limits_of
from minova.db.recovery.cloud_watch import INTERVAL
from minova.image_tokens import SCHEME
from minova.service import PeriodicTask, start_periodic

LOG = logging.getLogger(__name__)


def is_image_data(path: str) -> bool:
    """Whether requests for this path carry the bytes of an image."""
    return path.endswith("/file")


def listen_of(conf: cfg.ConfigOpts, inherited: socket.socket | None = None) -> Listen:
    api = conf.api
    return Listen(
        host=api.osapi_compute_listen,
        port=api.osapi_compute_listen_port,
        host_option="[api] osapi_compute_listen",
        port_option="osapi_compute_listen_port",
        capacity=ListenerCapacity(
            reads=api.threads,
            changes=api.change_threads,
            transfers=api.transfers,
            host_transfers=api.host_transfers,
        ),
        is_transfer=is_image_data,
        is_of_host=lambda authorization: authorization.startswith(SCHEME),
        limits=limits_of(conf),
        inherited=inherited,
        cert_file=api.ssl_cert_file,
        key_file=api.ssl_key_file,
    )


class ApiService(HttpService):
    """`inherited`: the socket that this worker shares with others.
    `look`: looks periodically whose the database is, and whether it has lost changes.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        app: App,
        inherited: socket.socket | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__("minova-api", app, listen_of(conf, inherited))
        self._conf = conf
        self._app = app
        self._look = look
        self._stopping = threading.Event()

    def start(self) -> None:
        super().start()
        self._conf.register_mutate_hook(lambda *_: self.reload())
        task = PeriodicTask(name="watch cloud", interval=INTERVAL, work=self._look)
        start_periodic(task, self._stopping)
        recovery.start(self._app.images, self._stopping)
        store_reports.start(self._app.images, self._stopping)
        api = self._conf.api
        if api.auth_strategy != "noauth" and not api.ssl_cert_file and not is_loopback(api.osapi_compute_listen):
            LOG.warning("[api] ssl_cert_file is not set: passwords and tokens cross the network unprotected")

    def stop(self) -> None:
        self._stopping.set()
        super().stop()
