"""The services of minova-metadata: for guests of this host, and for Neutron's proxy."""

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from oslo_config import cfg

from minova import errors
from minova.api.listener.bridge import ListenerCapacity
from minova.api.listener.limits import ConnectionLimits
from minova.api.listener.service import HttpService, Listen
from minova.contracts.conductor import ConductorApi
from minova.metadata.app import MetadataApp
from minova.metadata.guests import NETWORK_ID, LocalGuests, ProxiedGuests
from minova.objects.guests.guest_metadata import ADDRESS, PORT
from minova.virt.config_drive.builder import GuestFiles
from minova.virt.namespaces.host_networks import HostNetworks

BINARY = "minova-metadata"
# Seconds that an answer to a local guest is cached: another guest may get its address.
LOCAL_SECONDS = 1.0
THREADS = 8
# The most connections of one address, of one network, and of the host. Rules in the namespace of the network limit those of
# one interface, which may have many addresses (minova/virt/namespaces/rules.py).
CONNECTIONS_OF_AN_ADDRESS, CONNECTIONS_OF_A_NETWORK, CONNECTIONS = 3, 256, 2048
# Seconds between two looks for networks that are new on this host.
EVERY = 1.0
LOG = logging.getLogger(__name__)
_LIMITS = ConnectionLimits(first_byte=5.0, head=5.0, keep_alive=15.0, body=10.0, stalled=20.0, head_bytes=16 << 10)


class LocalService:
    """Serves guests of this host on `local` networks. It listens in the namespace of each network, so that a request
    shows its network.
    """

    binary = BINARY

    def __init__(self, http: HttpService, networks: HostNetworks) -> None:
        self._http = http
        self._networks = networks
        # By network: the number of the namespace, and the socket there.
        self._listening: dict[str, tuple[int, socket.socket]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"{BINARY} networks", daemon=True)
        self._said = ""

    def start(self) -> None:
        self._http.start()
        self._thread.start()

    def reload(self) -> None:
        self._http.reload()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._http.stop()
        for _, listening in self._listening.values():
            listening.close()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
                self._say("")
            except (errors.MinovaError, OSError, ValueError) as error:
                self._say(f"Guests of local networks have no metadata service now: {error}")
            self._stopping.wait(EVERY)

    def _listen(self) -> None:
        namespaces = self._networks.namespaces()
        for network_id, (number, listening) in list(self._listening.items()):
            if namespaces.get(network_id) != number:
                del self._listening[network_id]
                self._http.leave(listening)
        failures = []
        for network_id, number in namespaces.items():
            if network_id in self._listening:
                continue
            try:
                listening = self._networks.listener(network_id)
            except (errors.MinovaError, OSError, ValueError) as error:
                failures.append(error)
                continue
            self._listening[network_id] = (number, listening)
            self._http.listen_on(listening, network_id)
        if failures:
            raise failures[0]

    def _say(self, text: str) -> None:
        if text and text != self._said:
            LOG.warning("%s", text)
        self._said = text


def local(conf: cfg.ConfigOpts, conductor: ConductorApi, networks: HostNetworks) -> LocalService:
    """Returns the service for guests of this host on `local` networks. Raises InvalidConfiguration if the vendor data
    cannot be used.
    """
    limits = msgspec.structs.replace(
        _LIMITS,
        connections=CONNECTIONS,
        connections_per_address=CONNECTIONS_OF_AN_ADDRESS,
        connections_per_network=CONNECTIONS_OF_A_NETWORK,
    )
    app = MetadataApp(LocalGuests(conductor, conf.host), _files(conf), LOCAL_SECONDS)

    def with_network(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ[NETWORK_ID] = environ["asgi.scope"]["state"]["network"]
        return app(environ, start_response)

    listen = Listen(
        host=ADDRESS,
        port=PORT,
        host_option="",
        port_option="",
        capacity=ListenerCapacity(reads=THREADS, shares_reads=True, transfers=1),
        limits=limits,
        opens=False,
    )
    return LocalService(HttpService(BINARY, with_network, listen), networks)


def for_proxy(conf: cfg.ConfigOpts, conductor: ConductorApi) -> HttpService:
    """Returns the service for Neutron's proxy. Raises InvalidConfiguration if no secret is configured, or if the vendor
    data cannot be used.
    """
    secret = conf.neutron.metadata_proxy_shared_secret
    if not secret:
        raise errors.InvalidConfiguration(
            "[neutron] metadata_proxy_shared_secret is not set: anyone could read the metadata of every server"
        )
    app = MetadataApp(ProxiedGuests(conductor, secret), _files(conf), float(conf.api.metadata_cache_expiration))
    listen = Listen(
        host=conf.metadata_listen,
        port=conf.metadata_listen_port,
        host_option="metadata_listen",
        port_option="metadata_listen_port",
        capacity=ListenerCapacity(reads=conf.api.threads, shares_reads=True, transfers=1),
        limits=msgspec.structs.replace(_LIMITS, connections_per_address=0),
        cert_file=conf.api.ssl_cert_file,
        key_file=conf.api.ssl_key_file,
    )
    return HttpService(BINARY, app, listen)


def _files(conf: cfg.ConfigOpts) -> GuestFiles:
    files = GuestFiles(conf)
    files.check()
    return files
