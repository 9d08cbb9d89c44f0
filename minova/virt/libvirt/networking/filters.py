"""The network filters of ports in libvirt: one for each interface, changed while guests run."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import libvirt

from minova.errors import HypervisorError
from minova.objects.network.security_rules import number_of
from minova.objects.network.vif import GroupMembers, Vif, filter_name
from minova.virt.libvirt.networking.filter_xml import filter_xml, filters_of
from minova.virt.port_rules import PortRules

LOG = logging.getLogger(__name__)
_PREFIX = filter_name("")


class PortFilters:
    """Safe for threads. Errors of libvirt are raised as they are.

    `make_sets`: makes the sets by which filters know protocols that libvirt does not know. It may take minutes to fail: it is
    called without the lock, and after a failure not again in the same round.
    """

    def __init__(self, make_sets: Callable[[Collection[int]], None]) -> None:
        self._make_sets = make_sets
        self._lock = threading.Lock()
        # The protocols whose sets were made: they last as long as the host runs, unless an administrator destroys them.
        self._made: frozenset[int] = frozenset()
        # Filters of guests that are about to arrive, to which no domain refers yet.
        self._awaited: frozenset[str] = frozenset()
        self._rules = PortRules()

    def define(self, connection: Any, vifs: Iterable[Vif]) -> None:
        """Define the filters of these interfaces. libvirt changes the rules of running guests, and nothing if the
        filter is unchanged. libvirt reads the sets of a guest that is off only at its start, and refuses
        the start without them: this method makes them again, because an administrator may have destroyed them.
        """
        self._define_all(connection, list(vifs), [], again=True)

    def _define_all(
        self, connection: Any, vifs: Sequence[Vif], failures: list[HypervisorError], *, again: bool = False
    ) -> None:
        with self._lock:
            for vif in vifs:
                self._rules.define(vif)
        missing = self._make_missing(vifs, failures, again=again)
        with self._lock:
            for vif in vifs:
                # While sets were made, a newer message may have changed the rules.
                self._define(connection, self._rules.current(vif.port_id) or self._rules.define(vif), missing)

    def await_guest(self, port_ids: Iterable[str]) -> None:
        """Keep the filters of these ports, although no domain refers to them yet, until `forget_guest`."""
        with self._lock:
            self._awaited |= {filter_name(port_id) for port_id in port_ids}

    def forget_guest(self, port_ids: Iterable[str]) -> None:
        with self._lock:
            self._awaited -= {filter_name(port_id) for port_id in port_ids}

    def refresh(
        self, connection: Any, vifs: Mapping[str, Sequence[Vif]], is_own: Callable[[str], bool]
    ) -> dict[str, libvirt.libvirtError]:
        """Define the filters of these instances, then sweep. Returns libvirt's refusals by instance: a refusal does not
        affect other instances.
        """
        refused: dict[str, libvirt.libvirtError] = {}
        failures: list[HypervisorError] = []
        for instance_uuid, of_instance in vifs.items():
            try:
                if is_own(instance_uuid):
                    self._define_all(connection, of_instance, failures)
            except libvirt.libvirtError as error:
                if not connection.isAlive():
                    raise
                refused[instance_uuid] = error
        self.sweep(connection)
        return refused

    def refresh_members(self, connection: Any, members: Iterable[GroupMembers]) -> dict[str, libvirt.libvirtError]:
        """Apply the members to the filters. Returns libvirt's refusals by port: a refusal does not affect other ports.
        The lock is taken for each port, so that another guest's filter does not wait for all of them.
        """
        with self._lock:
            changed = [vif.port_id for vif in self._rules.learn(members)]
        refused: dict[str, libvirt.libvirtError] = {}
        failures: list[HypervisorError] = []
        for port_id in changed:
            try:
                self._define_again(connection, port_id, failures)
            except libvirt.libvirtError as error:
                if not connection.isAlive():
                    raise
                refused[port_id] = error
        return refused

    def _define_again(self, connection: Any, port_id: str, failures: list[HypervisorError]) -> None:
        """Define the filter of a port again, if it is still here."""
        with self._lock:
            vif = self._rules.current(port_id)
        if vif is not None:
            self._make_missing([vif], failures)
        with self._lock:
            vif = self._rules.current(port_id)
            if vif is None or not _is_there(connection, filter_name(port_id)):
                return
            self._define(connection, vif)

    def _define(self, connection: Any, vif: Vif, missing: frozenset[int] = frozenset()) -> None:
        """libvirt refuses a filter that names a missing set as a whole, so the rule of such a set passes no traffic."""
        try:
            connection.nwfilterDefineXML(filter_xml(vif, (_numbers(vif) & self._made) - missing))
        except libvirt.libvirtError:
            self._made = frozenset()  # an administrator may have destroyed a set
            raise

    def _make_missing(
        self, vifs: Iterable[Vif], failures: list[HypervisorError], *, again: bool = False
    ) -> frozenset[int]:
        """Makes the sets that these filters need, `again` also those that were made before. Returns those that could not be made.
        `failures`: of this round.
        """
        unmade: frozenset[int] = frozenset()
        for vif in vifs:
            missing = _numbers(vif) if again else _numbers(vif) - self._made
            if missing and not failures:
                try:
                    self._make_sets(missing)
                except HypervisorError as error:
                    failures.append(error)
                else:
                    with self._lock:
                        self._made |= missing
                    continue
            if missing:
                unmade |= missing
                LOG.warning(
                    "Port %s: rules of protocols %s let nothing through: %s", vif.port_id, sorted(missing), failures[0]
                )
        return unmade

    def remove(self, connection: Any, names: Iterable[str]) -> None:
        """Remove the filters of a domain that is undefined."""
        for name in names:
            if name.startswith(_PREFIX):
                self._remove(connection, name)

    def _remove(self, connection: Any, name: str) -> None:
        with self._lock:
            if _undefine(connection, name):
                self._rules.forget(name.removeprefix(_PREFIX))

    def sweep(self, connection: Any) -> None:
        """Removes filters to which no domain refers: left by a crash between the removal of a domain and that of its
        filters.
        """
        names = {each.name() for each in connection.listAllNWFilters()}
        with self._lock:
            awaited = self._awaited
        unused = {name for name in names if name.startswith(_PREFIX)} - awaited
        if unused:
            unused -= {name for domain in connection.listAllDomains() for name in _of_domain(domain)}
        for name in sorted(unused):
            LOG.info("Removing network filter %s: no guest has it", name)
            self._remove(connection, name)


def _numbers(vif: Vif) -> frozenset[int]:
    """Returns the protocols for which the filter needs sets."""
    return frozenset(number for rule in vif.rules or () if (number := number_of(rule.protocol)) is not None)


def _of_domain(domain: Any) -> list[str]:
    try:
        return filters_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
            return []
        raise


def _is_there(connection: Any, name: str) -> bool:
    try:
        connection.nwfilterLookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_NWFILTER:
            raise
        return False
    return True


def _undefine(connection: Any, name: str) -> bool:
    """Undefine the filter. Returns whether it is gone."""
    try:
        connection.nwfilterLookupByName(name).undefine()
    except libvirt.libvirtError as error:
        # In use by a port that was moved to another guest of this host.
        if error.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID:
            return False
        if error.get_error_code() != libvirt.VIR_ERR_NO_NWFILTER:
            raise
    return True
