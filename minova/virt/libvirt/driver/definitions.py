"""The definitions of domains: their XML, the networks that it names, and their end."""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import libvirt
import msgspec

from minova import errors
from minova.objects.network.network import LOCAL
from minova.objects.network.vif import Vif
from minova.objects.servers.instance import Instance
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.driver import key_faults
from minova.virt.libvirt.driver.as_built import as_built, lacks_of
from minova.virt.libvirt.driver.base import LibvirtBase
from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.guest_state import power, saved_memory
from minova.virt.libvirt.host import exists, lookup
from minova.virt.libvirt.migration import arrivals
from minova.virt.libvirt.networking.filter_xml import filters_of
from minova.virt.libvirt.networking.networks import interfaces_of
from minova.virt.libvirt.xml.addresses_xml import learnt, with_addresses
from minova.virt.libvirt.xml.disk_xml import Disk
from minova.virt.libvirt.xml.guest_xml import guest_xml
from minova.virt.libvirt.xml.host_settings import HostSettings
from minova.virt.libvirt.xml.mark import domain_name
from minova.virt.libvirt.xml.system_xml import chosen_of

LOG = logging.getLogger(__name__)
_UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)


class Definition(NamedTuple):
    """A domain to be defined, in `xml`, and what that was made from."""

    instance: Instance
    xml: str
    node: str
    attempt: int
    disks: Sequence[Disk]


class DomainDefinitions(LibvirtBase):
    def _settings_now(self, vifs: Iterable[Vif]) -> HostSettings:
        """Returns the settings, with the bridges that do not exist now if one of the interfaces may need a bridge."""
        settings = self._ready()
        if not settings.bridges or all(vif.from_neutron or vif.network_type == LOCAL for vif in vifs):
            return settings
        return msgspec.structs.replace(
            settings, lost_bridges=frozenset(settings.bridges) - self._bridges.present().keys()
        )

    def _plug(self, connection: Any, instance: Instance) -> None:
        """Call this after the domain is defined, since domains show which networks are in use."""
        own = [vif for vif in instance.network_info if not vif.from_neutron]
        if self._real and own:
            self._networks.plug(connection, own, instance.uuid, instance.hostname)
            self._filters.define(connection, own)

    def _xml_of(
        self, instance: Instance, node: str, attempt: int, disks: Sequence[Disk], *, lacks: tuple[str, ...] = ()
    ) -> str:
        return guest_xml(
            instance,
            self._settings_now(instance.network_info),
            node=node,
            attempt=attempt,
            disks=disks,
            console_log=str(self._disks.console_log(instance.uuid)) if self._real else None,
            serial_port=None if self._serial_ports is None else self._serial_ports.take(instance.uuid),
            boot_files=self._disks.boot_files(instance, disks) if self._real else None,
            lacks=lacks,
        )

    def _require_disks(self, instance: Instance) -> None:
        """Raises DisksOfAnotherHost if the disks are another host's. Disks that a broken move has left to this host become its
        own; the guest is ended for that. Raises HypervisorError if a QEMU elsewhere still has them open.
        """
        host = self._ready().host
        if self._disks.are_left(instance, host):
            with self._host.connection("Ending", domain_name(instance.uuid)) as connection:
                if lookup(connection, instance.uuid) is not None:
                    power.end(self._own(connection, instance.uuid))
            self._disks.take_left(instance, host)
        self._disks.require_owner(instance.uuid, host, instance)

    def _define_anew(
        self, instance: Instance, disks: Sequence[Disk], *, drop_memory: bool, chooses: bool = False
    ) -> Definition:
        """End the domain and define it with these disks; it is off then. The arguments: see `_end`."""
        with self._host.connection("Defining anew", domain_name(instance.uuid)) as connection:
            definition = self._end(connection, instance, disks, drop_memory=drop_memory, chooses=chooses)
            self._define(connection, definition)
            return definition

    def _end(
        self, connection: Any, instance: Instance, disks: Sequence[Disk], *, drop_memory: bool, chooses: bool = False
    ) -> Definition:
        """End the domain. Returns the definition with these disks that it is to get.

        `chooses`: choose its machine and firmware anew. Otherwise it keeps those of its record, or else of the domain.

        `drop_memory`: remove its saved memory, at the word of its user. Otherwise raises SavedMemoryKept if there is any.
        """
        domain = lookup(connection, instance.uuid)
        mark = None if domain is None else self._our_mark(self._own(connection, instance.uuid))
        node, attempt = (instance.node or "", instance.attempt) if mark is None else (mark.node, mark.attempt)
        lacks: tuple[str, ...] = ()
        if domain is not None and not chooses:
            instance = _with_choice_of(domain, instance)
            if mark is not None:
                lacks = lacks_of(instance, domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), mark)
                instance = as_built(instance, lacks)
        if domain is not None:
            self._note_addresses(domain)
        # Make the XML before the domain is ended: a host that cannot define it leaves the guest as it is.
        xml = self._xml_of(instance, node, attempt, disks, lacks=lacks)
        definition = Definition(instance, xml, node, attempt, disks)
        if domain is not None:
            if not drop_memory:
                saved_memory.require_none(domain)
            power.end(domain)
            if domain.hasManagedSaveImage():
                domain.managedSaveRemove()
        # The files may hold an open snapshot although the domain that knew of it is lost.
        self._snapshots.settle(instance.uuid, domain)
        return definition

    def _define(self, connection: Any, definition: Definition) -> None:
        instance, xml, node, attempt, disks = definition
        if self._with_addresses(connection, instance.uuid, xml) is None:
            key_faults.define(connection, instance, xml, lambda other: self._xml_of(other, node, attempt, disks))
        self._without_machine.discard(instance.uuid)

    def _give_arrived(self, connection: Any, domain: Any, xml: str, attempt: int) -> None:
        """See `arrivals.give`."""
        arrivals.give(connection, domain, xml, self._disks.folder(domain.UUIDString()), attempt, self._secrets)

    def _with_addresses(self, connection: Any, instance_uuid: str, xml: str) -> Any | None:
        """Defines the domain with the known addresses of its devices. Returns None if there are none, or if libvirt refuses them: a guest
        with other addresses is better than none.
        """
        addressed = with_addresses(xml, self._disks.addresses(instance_uuid)) if self._real else xml
        if addressed == xml:
            return None
        try:
            return connection.defineXML(addressed)
        except libvirt.libvirtError as error:
            if not connection.isAlive():
                raise
            LOG.warning("Instance %s cannot keep the PCI addresses of its devices: %s", instance_uuid, error)
            return None

    def _note_addresses(self, domain: Any) -> None:
        """Record which addresses the devices have, in case that the domain is defined anew."""
        if not self._real:
            return
        xml, runs = domain.XMLDesc(0), bool(domain.isActive())
        try:
            self._disks.note_addresses(domain.UUIDString(), lambda recorded: learnt(recorded, xml, runs=runs))
        except (errors.HypervisorError, OSError) as error:
            LOG.warning("The PCI addresses of domain %s are not recorded: %s", domain.name(), error)

    def _destroy(self, domain: Any, instance_uuid: str, row: RowHost | None) -> None:
        """`row` None: the disks stay."""
        with suppress(libvirt.libvirtError):  # it may end by itself at any time; the state is checked below
            domain.destroy()
        if exists(domain) and domain.isActive():
            domain.destroy()
        if row is not None:
            self._remove_disks(instance_uuid, row)
        self._without_machine.discard(instance_uuid)
        connection = domain.connect()
        if exists(domain):
            xml = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            self._networks.unplug(connection, instance_uuid, interfaces_of(xml), partial(_undefine, domain))
            self._filters.remove(connection, filters_of(xml))
        # libvirt has removed the state of the domain's present TPM alone. Not before: a domain whose TPM has no state tells an offload
        # that there is none to keep.
        if tpm_files.may_be_there(instance_uuid):
            tpm_files.remove(connection, instance_uuid)

    def _remove_disks(self, instance_uuid: str, row: RowHost) -> None:
        if self._real:
            self._disks.remove(instance_uuid, self._ready().host, row)


def _with_choice_of(domain: Any, instance: Instance) -> Instance:
    chosen = chosen_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    recorded = {} if chosen is None else chosen.recorded
    return msgspec.structs.replace(instance, system_metadata=recorded | instance.system_metadata)


def _undefine(domain: Any) -> None:
    try:
        domain.undefineFlags(_UNDEFINE)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_INVALID_ARG}:
            raise
        if domain.hasManagedSaveImage():
            domain.managedSaveRemove()
        domain.undefine()
