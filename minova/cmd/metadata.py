"""minova-metadata: serves guests their own metadata, for guests of this host and for Neutron's proxy. It has no
database.
"""

import threading
from collections.abc import Sequence
from typing import NoReturn

from oslo_config import cfg

from minova import errors
from minova.cmd.startup import clients
from minova.cmd.startup.launch import launch
from minova.conf.libvirt import uri_of
from minova.contracts.conductor import ConductorApi
from minova.messaging.rpc import Rpc
from minova.metadata import service
from minova.service import Runnable
from minova.virt.namespaces.host_networks import of_this_host

# Seconds. A guest waits for the answer, and repeats its request.
TIMEOUT = 6.0


def compose(conf: cfg.ConfigOpts, rpc: Rpc) -> Sequence[Runnable]:
    """Raises InvalidConfiguration if neither service is enabled, or if it cannot listen."""
    services: list[Runnable] = []
    if conf.networks.metadata_service:
        services.append(local(conf, rpc))
    if conf.neutron.service_metadata_proxy:
        services.append(service.for_proxy(conf, _conductor(rpc)))
    if not services:
        raise errors.InvalidConfiguration(
            "Neither [networks] metadata_service nor [neutron] service_metadata_proxy is set: there is nothing to serve"
        )
    return services


def local(conf: cfg.ConfigOpts, rpc: Rpc) -> Runnable:
    """Returns the service for the guests of this host."""
    return service.local(conf, _conductor(rpc), of_this_host(conf.networks.metadata_helper_socket, uri_of(conf)))


def _conductor(rpc: Rpc) -> ConductorApi:
    return clients.conductor(rpc, retry=clients.TRIES_BEFORE_ERROR, timeout=TIMEOUT)


def compose_process(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Runnable]:
    return compose(conf, Rpc(conf))


def main() -> NoReturn:
    launch(service.BINARY, compose_process)
