"""The interfaces of guests, and the filters of their packets."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import libvirt
from oslo_config import cfg

from minova import errors
from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.libvirt.driver.power import LibvirtPower
from minova.virt.libvirt.guest_state import power
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.networking.hotplug import Hotplug, interfaces_of_ports
from minova.virt.libvirt.xml.guest_xml import interface_xml
from minova.virt.libvirt.xml.mark import domain_name
from minova.virt.namespaces.host_routes import PROC_NET

LOG = logging.getLogger(__name__)
# Seconds between checks of the networks of guests: less than the compute's interval.
REPAIR_INTERVAL = 30.0


class LibvirtInterfaces(LibvirtPower):
    def __init__(self, conf: cfg.ConfigOpts, *, proc_net: Path = PROC_NET) -> None:
        super().__init__(conf, proc_net=proc_net)
        self._hotplug = Hotplug(
            lambda purpose, uuid: self._host.connection(purpose, domain_name(uuid)),
            self._networks,
            self._filters,
            attempts=conf.libvirt.device_detach_attempts,
            timeout=float(conf.libvirt.device_detach_timeout),
        )
        self._next_repair = 0.0

    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        if not self._real:
            return ()
        with self._host.connection("Filtering the interfaces") as connection:

            def is_own(instance_uuid: str) -> bool:
                domain = lookup(connection, instance_uuid)
                return domain is not None and self._our_mark(domain) is not None

            own = {uuid: of_guest for uuid, of_guest in vifs.items() if is_own(uuid)}
            # First: no tenant's network may delay what the groups of others refuse.
            refused = self._filters.refresh(connection, vifs, is_own)
            self._repair_networks(connection, own)
            self._serve_networks(connection, own)
            differing = self._hotplug.refresh(connection, own, is_own)
        _raise_refused("instances", refused)
        return differing

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        if not self._real:
            return
        with self._host.connection("Filtering the interfaces") as connection:
            refused = self._filters.refresh_members(connection, members)
        _raise_refused("ports", refused)

    def interfaces(self, instance_uuid: str) -> tuple[Vif, ...]:
        with self._host.connection("Reading the interfaces", domain_name(instance_uuid)) as connection:
            return interfaces_of_ports(self._own(connection, instance_uuid))

    def attach_interface(self, instance: Instance, vif: Vif) -> PowerState:
        with self._host.connection("Attaching an interface", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            if self._real:
                xml = interface_xml(instance, self._settings_now((vif,)), vif)
                self._hotplug.attach(domain, vif, xml, instance.hostname)
                self._note_addresses(domain)
            return power.state_of(domain)

    def detach_interface(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        with self._host.connection("Detaching an interface", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None or self._our_mark(domain) is None:
                return PowerState.SHUTDOWN
        if self._real:
            self._hotplug.detach(instance_uuid, vif, check)
        return self.power_state(instance_uuid) or PowerState.SHUTDOWN

    def _serve_networks(self, connection: Any, vifs: Mapping[str, Sequence[Vif]]) -> None:
        """A failure does not prevent the change of filters; the next refresh tries again."""
        try:
            self._networks.serve(connection, vifs)
        except errors.HypervisorError as error:
            LOG.error("Networks of guests cannot be changed yet: %s", error)

    def _repair_networks(self, connection: Any, vifs: Mapping[str, Sequence[Vif]]) -> None:
        """Repair networks, at most once in REPAIR_INTERVAL: frequent changes of rules must not wait for it. A failed
        repair is tried again next time.
        """
        if time.monotonic() < self._next_repair:
            return
        self._next_repair = time.monotonic() + REPAIR_INTERVAL
        try:
            self._networks.repair(connection, vifs)
        except (libvirt.libvirtError, errors.HypervisorError) as error:
            if not connection.isAlive():
                raise
            LOG.error("What is lost of the networks of guests cannot be made again yet: %s", error)


def _raise_refused(what: str, refused: Mapping[str, libvirt.libvirtError]) -> None:
    """Raises HypervisorError with the uuids and errors, if anything was refused."""
    if refused:
        reasons = "; ".join(f"{uuid}: {error}" for uuid, error in refused.items())
        raise errors.HypervisorError(f"Filtering the interfaces of {what} {reasons[:1000]}")
