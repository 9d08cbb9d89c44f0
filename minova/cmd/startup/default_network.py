"""The network `default` of minova-standalone: a shared network with a subnet, DHCP and a route out through its host, which
reaches its guests.
"""

import ipaddress
import logging
import uuid
from collections.abc import Iterator

from oslo_config import cfg

from minova import errors
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.objects.network import addresses
from minova.objects.network.network import Network, Subnet
from minova.objects.network.vif import Vif, VifSubnet
from minova.virt.namespaces.host_routes import overlapping, ranges_in_use

LOG = logging.getLogger(__name__)
NAME = "default"
# The owner of the network with auth strategy noauth2 or http_basic; every project may use it.
PROJECT = "admin"
# Ranges that are seldom used elsewhere.
_BLOCKS = ("172.30.0.0/20", "192.168.224.0/20", "10.222.0.0/20")
_PREFIX = 24


class DefaultNetwork:
    def __init__(self, conf: cfg.ConfigOpts, conductor: ConductorApi) -> None:
        self._conf = conf
        self._conductor = conductor

    def make(self) -> None:
        """Make the network; a failure is only logged. Idempotent, because its IDs are derived from the state folder."""
        default_subnet = str(self._conf.networks.default_subnet)
        if default_subnet == "none":
            return
        try:
            self._make(default_subnet)
        except errors.MinovaError as error:
            LOG.warning(
                "There is no network `default`, and servers have no interface until a network is made "
                "(minova network create --share --reachable, minova subnet create): %s",
                error,
            )

    def _make(self, default_subnet: str) -> None:
        block = self._block(default_subnet)
        network = Network(id=self._id("network"), name=NAME, project_id=PROJECT, shared=True, reachable=True)
        gateway = addresses.default_gateway(block)
        subnet = Subnet(
            id=self._id("subnet"),
            network_id=network.id,
            name=NAME,
            project_id=PROJECT,
            ip_version=block.version,
            cidr=str(block),
            gateway_ip=gateway,
            allocation_pools=addresses.default_pools(block, gateway),
        )
        self._try_out(network, subnet)
        ctx = service_context()
        try:
            self._conductor.create_networks(ctx, networks=(network,))
        except errors.SegmentInUse:  # made before a crash
            LOG.info("Network `default` is there already")
        try:
            self._conductor.create_subnets(ctx, subnets=(subnet,), any_range=True)
        except errors.OverlappingSubnets:
            LOG.info("The range of network `default` is there already")
        LOG.info("Servers without --network are on network `default`, %s", block)

    def _id(self, kind: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"minova:default:{kind}:{self._conf.host}:{self._conf.state_path}"))

    def _block(self, default_subnet: str) -> addresses.Block:
        """Raises HardwareNotOffered if the host has routes to all ranges, BadRequest if the configured range is
        invalid.
        """
        in_use = ranges_in_use()
        if default_subnet != "auto":
            return addresses.parse_cidr(default_subnet, 4)
        candidates = list(self._candidates())
        # A network without guests has no route: two minovas of one machine that began with the same range would choose it both.
        first = uuid.UUID(self._id("subnet")).int % len(candidates) if candidates else 0
        for block in (*candidates[first:], *candidates[:first]):
            if overlapping(str(block), in_use) is None:
                return block
        raise errors.HardwareNotOffered(
            "this host has routes to each range that it could have: name one in [networks] default_subnet"
        )

    def _candidates(self) -> Iterator[addresses.Block]:
        for text in self._conf.networks.local_ranges or _BLOCKS:
            block = ipaddress.ip_network(text)
            if block.version == 4:
                yield from block.subnets(new_prefix=max(_PREFIX, block.prefixlen))

    def _try_out(self, network: Network, subnet: Subnet) -> None:
        """Raises HypervisorError or HardwareNotOffered if guests of this host could not use the network."""
        if self._conf.compute_driver.partition(".")[0] == "fake":
            return
        if self._conf.libvirt.virt_type == "test":
            raise errors.HardwareNotOffered("libvirt's test hypervisor has no networks")
        # Imported here, because the library may be missing if another driver is configured.
        from minova.virt.libvirt.networking.trial import try_network  # noqa: PLC0415

        served = VifSubnet(id=subnet.id, cidr=subnet.cidr, gateway_ip=subnet.gateway_ip)
        try_network(self._conf, Vif(port_id="", mac_address="", network_id=network.id, subnets=(served,)))
