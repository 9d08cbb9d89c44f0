"""What all parts of the driver need: the connection, the files of guests, and which domains are ours."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import libvirt
from oslo_config import cfg
from oslo_utils import units

from minova import errors
from minova.conf.libvirt import SYSTEM_URI, uri_of
from minova.objects.guests.guest_secrets import SecretKind
from minova.objects.hosts.compute_node import DomainView
from minova.virt.config_drive.builder import ConfigDrives
from minova.virt.libvirt.consoles import SerialPorts
from minova.virt.libvirt.error_codes import meaning
from minova.virt.libvirt.guest_state import power
from minova.virt.libvirt.guest_state.guest_clocks import GuestClocks
from minova.virt.libvirt.guest_state.secrets import LibvirtSecrets
from minova.virt.libvirt.host import Host, require
from minova.virt.libvirt.networking.bridges import Bridges, interfaces_in
from minova.virt.libvirt.networking.filters import PortFilters
from minova.virt.libvirt.networking.networks import LocalNetworks
from minova.virt.libvirt.storage.disk_snapshots import DiskSnapshots
from minova.virt.libvirt.storage.disks import Disks, DiskSettings
from minova.virt.libvirt.xml.host_settings import HostSettings
from minova.virt.libvirt.xml.mark import NAMESPACE, DomainMark, domain_name, mark_of
from minova.virt.namespaces.host_networks import of_this_host
from minova.virt.namespaces.host_routes import PROC_NET, routes_of_host


class LibvirtBase:
    def __init__(self, conf: cfg.ConfigOpts, *, proc_net: Path = PROC_NET) -> None:
        """`proc_net`: /proc/PID/net of libvirtd, if it has a network namespace of its own."""
        self._conf = conf
        self._host = Host(uri_of(conf))
        self._real: bool = conf.libvirt.virt_type != "test"
        self._disks = Disks(Path(conf.instances_path), DiskSettings.of(conf), self._disk_key)
        self._secrets = LibvirtSecrets(self._disks.secrets_in_use, self._disks.note_secret)
        self._drives = ConfigDrives(conf)
        self._snapshots = DiskSnapshots(self._disks, lambda: int(conf.free_space_reserve_mb) << 20)
        mappings = conf.networks.bridge_mappings
        of_host = of_this_host(conf.networks.helper_socket, uri_of(conf), proc_net, frozenset(mappings.values()))
        self._networks = LocalNetworks(
            of_host,
            partial(routes_of_host, proc_net),
            metadata=conf.networks.metadata_service,
            mappings=mappings,
            interfaces=partial(interfaces_in, proc_net),
        )
        self._filters = PortFilters(of_host.make_protocol_sets)
        # Another libvirtd may be on another host or in another namespace, whose bridges cannot be seen from here.
        sees_bridges = self._real and uri_of(conf) == SYSTEM_URI
        self._bridges = Bridges(mappings) if sees_bridges else Bridges(mappings, lambda bridge: True)
        self._clocks = GuestClocks(lambda purpose, uuid: self._host.connection(purpose, domain_name(uuid)))
        self._settings: HostSettings | None = None
        self._serial_ports: SerialPorts | None = None
        self._former_hosts: frozenset[str] = frozenset()
        # Guests whose domains, as they are defined now, have no type of machine. Only libvirt's test driver defines such domains.
        self._without_machine: set[str] = set()

    def _disk_key(self, instance_uuid: str, *, make: bool, marks: Mapping[str, str] = MappingProxyType({})) -> str:
        return self._secrets.passphrases(instance_uuid, [SecretKind.DISKS], make=make, marks=marks)[SecretKind.DISKS]

    def _ready(self) -> HostSettings:
        if self._settings is None:
            raise errors.HypervisorUnavailable("The libvirt driver was not initialised")
        return self._settings

    def _own(self, connection: Any, instance_uuid: str) -> Any:
        """Returns the domain. Raises NotFound if there is none, or if it is not ours."""
        domain = require(connection, instance_uuid)
        if self._our_mark(domain) is None:
            raise errors.NotFound(f"Domain {domain.name()} has the UUID of instance {instance_uuid}, but is not ours")
        return domain

    def _our_mark(self, domain: Any) -> DomainMark | None:
        """Returns the mark; None for a domain that is not ours, such as one of another compute at the same libvirt."""
        try:
            mark = mark_of(domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE))
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                return None
            raise
        names = {self._ready().host, *self._former_hosts}
        return mark if mark is not None and mark.host in names else None

    def _views(self, connection: Any) -> tuple[DomainView, ...]:
        views = []
        for domain in connection.listAllDomains():
            try:
                views.append(self._view(domain))
            except libvirt.libvirtError as error:
                if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
                    raise meaning(error)(f"Reading of domain {domain.name()}: {error}") from error
        return tuple(views)

    def _view(self, domain: Any) -> DomainView:
        state, memory_kib, _, vcpus, _ = domain.info()
        mark = self._our_mark(domain)
        power_state, reason = power.view_of_state(domain, state)
        return DomainView(
            uuid=domain.UUIDString(),
            name=domain.name(),
            memory_mb=memory_kib // units.Ki,
            vcpus=vcpus,
            power_state=power_state,
            reason=reason,
            ours=mark is not None,
            attempt=mark.attempt if mark else None,
        )
