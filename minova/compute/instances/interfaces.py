"""Keeps the interfaces of this host's instances as the conductor says: their filters, and which interfaces a guest has.

An interrupted attachment or detachment leaves a guest with more or fewer interfaces than its instance. This module
corrects it under the lock of the instance, by the conductor's data at that time.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from minova import errors
from minova.compute.instances.domains import Domains
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.interfaces import ATTACH_INTERFACE
from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.instance import Instance
from minova.virt.driver.interfaces import InterfaceDriver

LOG = logging.getLogger(__name__)
# Seconds that a guest has to release an interface, since other instances wait meanwhile. The next refresh tries again.
PATIENCE = 3.0


class Interfaces:
    """Safe for threads. Requests that come during a refresh are served together by one more refresh.
    `is_unreported` returns whether an instance has a result that no conductor has received.
    `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        host: str,
        driver: InterfaceDriver,
        conductor: ConductorApi,
        domains: Domains,
        is_unreported: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._domains = domains
        self._is_unreported = is_unreported
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted = False
        self._members_lock = threading.Lock()
        self._members: dict[str, GroupMembers] = {}
        self._is_known = False

    def request(self) -> None:
        """Make the next `refresh` run; a `refresh` in progress runs once more."""
        self._wanted = True

    def learn(self, members: Iterable[GroupMembers]) -> None:
        """Make the next `refresh` allow traffic from these members of groups. After one full refresh the driver knows
        which interfaces refer to the groups.
        """
        with self._members_lock:
            for received in members:
                previous = self._members.get(received.group_id)
                if previous is None or received.revision > previous.revision:
                    self._members[received.group_id] = received

    def refresh(self) -> None:
        while (self._wanted or self._members) and self._lock.acquire(blocking=False):
            try:
                with self._members_lock:
                    members, self._members = self._members, {}
                self._add_members(tuple(members.values()))
                if self._wanted or not self._is_known:
                    self._wanted = False
                    self._refresh()
            finally:
                self._lock.release()

    def _add_members(self, members: Sequence[GroupMembers]) -> None:
        if members:
            try:
                self._driver.refresh_members(members)
            except errors.MinovaError as error:
                LOG.warning("Members of security groups are let in with the next refresh of all: %s", error)

    def _refresh(self) -> None:
        try:
            vifs = self._conductor.interfaces_of_host(service_context(), host=self._host)
        except errors.PeerTooOld:  # during an upgrade: it lacks this method
            return
        pending_delete = {
            uuid: [vif for vif in of_instance if vif.pending_delete] for uuid, of_instance in vifs.items()
        }
        present_vifs = {
            uuid: tuple(vif for vif in of_instance if not vif.pending_delete) for uuid, of_instance in vifs.items()
        }
        differing = self._driver.refresh_interfaces(present_vifs)
        self._is_known = True
        for instance_uuid in dict.fromkeys(
            (*differing, *(uuid for uuid, of_instance in pending_delete.items() if of_instance))
        ):
            try:
                with self._domains.locked_at_once(instance_uuid):
                    try:
                        self._match(instance_uuid)
                    finally:
                        self._report_gone(instance_uuid, pending_delete.get(instance_uuid, ()))
            except errors.MinovaError as error:
                LOG.info("The interfaces of instance %s are put right later: %s", instance_uuid, error)

    def _match(self, instance_uuid: str) -> None:
        """Correct the interfaces of the guest. The instance is locked: no action of it is in progress here, and none
        can begin.
        """
        if self._is_unreported(instance_uuid):
            return
        instances = self._conductor.instances_of_host(service_context(), host=self._host).instances
        instance = next((candidate for candidate in instances if candidate.uuid == instance_uuid), None)
        # Other instances are defined anew before they run, are in transition, or are being removed.
        if instance is None or instance.task_state is not None or instance.vm_state not in ATTACH_INTERFACE.vm_states:
            return
        self._detach_others(instance)
        has = {vif.mac_address for vif in self._driver.interfaces(instance_uuid)}
        for vif in instance.network_info:
            if vif.mac_address not in has and not vif.from_neutron:
                LOG.warning(
                    "Instance %s has interface %s, and its guest does not: it is attached", instance_uuid, vif.port_id
                )
            # Attach again even if the guest has it, since it may be half attached. The call changes nothing if it is
            # complete.
            self._driver.attach_interface(instance, vif)

    def _report_gone(self, instance_uuid: str, pending_delete: Sequence[Vif]) -> None:
        """Report detached interfaces that the guest no longer has, so that the conductor deletes them. Repeated at each
        refresh until the conductor no longer lists them. The instance is locked.
        """
        if not pending_delete or self._is_unreported(instance_uuid):
            return
        try:
            has = {vif.mac_address for vif in self._driver.interfaces(instance_uuid)}
        except errors.NotFound:
            has = set()
        for vif in pending_delete:
            if vif.mac_address not in has:
                self._conductor.interface_detached(
                    service_context(), instance_uuid=instance_uuid, mac_address=vif.mac_address, host=self._host
                )

    def _detach_others(self, instance: Instance) -> None:
        own = {vif.mac_address for vif in instance.network_info}
        for vif in self._driver.interfaces(instance.uuid):
            if vif.mac_address not in own:
                LOG.warning(
                    "The guest of instance %s has interface %s, and the instance does not: it is detached",
                    instance.uuid,
                    vif.mac_address,
                )
                until = self._clock() + PATIENCE

                def check(until: float = until) -> None:
                    if self._clock() >= until:
                        raise errors.InterfaceDetachFailed("the guest has not let go of it yet")

                self._driver.detach_interface(instance.uuid, vif, check)
