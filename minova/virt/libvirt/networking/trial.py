"""Tests whether this host can have a local network: libvirt makes it once and removes it."""

from contextlib import closing

import libvirt
from oslo_config import cfg

from minova.conf.libvirt import uri_of
from minova.objects.network.vif import Vif
from minova.virt.libvirt.error_codes import meaning
from minova.virt.libvirt.networking.networks import LocalNetworks
from minova.virt.namespaces.host_networks import of_this_host


def try_network(conf: cfg.ConfigOpts, vif: Vif) -> None:
    """Raises HypervisorError or HardwareNotOffered if a guest cannot have this interface on a local network here."""
    try:
        with closing(libvirt.open(uri_of(conf))) as connection:
            LocalNetworks(of_this_host(conf.networks.helper_socket, uri_of(conf))).try_out(connection, vif)
    except libvirt.libvirtError as error:
        # In one line: what dnsmasq printed comes in lines of its own.
        raise meaning(error)(f"libvirt at {uri_of(conf)}: {' '.join(str(error).split())}") from error
