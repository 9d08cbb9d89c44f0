"""`minova-api` as a service."""

import logging
import threading

from oslo_config import cfg

from minova.api.app import App
from minova.api.http.auth import is_loopback
from minova.api.http.service import HttpService, Listen
from minova.api.image import recovery

LOG = logging.getLogger(__name__)


class ApiService(HttpService):
    def __init__(self, conf: cfg.ConfigOpts, app: App) -> None:
        api = conf.api
        listen = Listen(
            host=api.osapi_compute_listen,
            port=api.osapi_compute_listen_port,
            host_option="[api] osapi_compute_listen",
            port_option="osapi_compute_listen_port",
            threads=api.threads,
            cert_file=api.ssl_cert_file,
            key_file=api.ssl_key_file,
        )
        super().__init__("minova-api", app, listen)
        self._conf = conf
        self._app = app
        self._stopping = threading.Event()

    def start(self) -> None:
        super().start()
        recovery.start(self._app.images, self._stopping)
        api = self._conf.api
        if api.auth_strategy == "http_basic" and not api.ssl_cert_file and not is_loopback(api.osapi_compute_listen):
            LOG.warning("[api] ssl_cert_file is not set: passwords cross the network unprotected")

    def stop(self) -> None:
        self._stopping.set()
        super().stop()
