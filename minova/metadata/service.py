"""The services of minova-metadata: for guests of this host, and for Neutron's proxy."""

import socket

import msgspec
from oslo_config import cfg

from minova import errors
from minova.api.listener.bridge import Capacity
from minova.api.listener.limits import Limits
from minova.api.listener.service import BACKLOG, HttpService, Listen
from minova.contracts.conductor import ConductorApi
from minova.metadata.app import MetadataApp
from minova.metadata.guests import LocalGuests, ProxiedGuests
from minova.objects.servers.guest_metadata import ADDRESS, PORT
from minova.virt.config_drive.builder import GuestFiles

BINARY = "minova-metadata"
# Seconds that an answer to a local guest is cached: another guest may get its address.
LOCAL_SECONDS = 1.0
THREADS = 8
# The most connections of one guest: while the conductor is away, other guests still find threads.
CONNECTIONS_OF_A_GUEST = 3
# From <linux/in.h>: allows binding to an address that the host gets later.
_IP_FREEBIND = 15
_LIMITS = Limits(first_byte=5.0, head=5.0, keep_alive=15.0, body=10.0, stalled=20.0, head_bytes=16 << 10)


def local(conf: cfg.ConfigOpts, conductor: ConductorApi, listening: socket.socket) -> HttpService:
    """Returns the service for guests of this host on `local` networks. Raises InvalidConfiguration if the vendor data
    cannot be used.
    """
    limits = msgspec.structs.replace(_LIMITS, connections=256, connections_per_address=CONNECTIONS_OF_A_GUEST)
    app = MetadataApp(LocalGuests(conductor, conf.host), _files(conf), LOCAL_SECONDS)
    listen = Listen(
        host=ADDRESS,
        port=PORT,
        host_option="",
        port_option="",
        capacity=Capacity(reads=THREADS, shares_reads=True, transfers=1),
        limits=limits,
        inherited=listening,
    )
    return HttpService(BINARY, app, listen)


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
        capacity=Capacity(reads=conf.api.threads, shares_reads=True, transfers=1),
        limits=msgspec.structs.replace(_LIMITS, connections_per_address=0),
        cert_file=conf.api.ssl_cert_file,
        key_file=conf.api.ssl_key_file,
    )
    return HttpService(BINARY, app, listen)


class NotListening(Exception):
    """The reason why the address of the metadata service cannot be listened on."""


def listen_locally() -> socket.socket:
    """Returns the socket that guests reach; the host may get its address later. Raises NotListening if the socket
    cannot be opened.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        listening.bind((ADDRESS, PORT))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        lacks = isinstance(error, PermissionError)
        reason = "the process lacks CAP_NET_BIND_SERVICE" if lacks else error.strerror or str(error)
        raise NotListening(
            f"Guests of local networks have no metadata service: {ADDRESS}:{PORT} cannot be listened on: {reason}."
        ) from None
    return listening


def _files(conf: cfg.ConfigOpts) -> GuestFiles:
    files = GuestFiles(conf)
    files.check()
    return files
