"""Operations on a guest that exists: run, pause, save its memory, send it signals."""

import logging
import shutil
import threading
import time
from contextlib import suppress

import libvirt

from minova import errors
from minova.objects.actions.guest_changes import FAULTS
from minova.objects.guests.guest_states import STANDING, GuestReason, GuestState
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.libvirt import guest_agent
from minova.virt.libvirt.driver import key_faults
from minova.virt.libvirt.driver.definitions import DomainDefinitions
from minova.virt.libvirt.guest_state import jobs, power, saved_memory
from minova.virt.libvirt.host import lookup, require
from minova.virt.libvirt.migration import arrivals
from minova.virt.libvirt.xml.mark import domain_name

LOG = logging.getLogger(__name__)
# Seconds within which a guest whose disk is still full stands still again.
GOES_ON_WITHIN = 1.0
# Bytes that must be free before a guest whose disk was full goes on by itself.
ROOM_TO_GO_ON = 64 << 20
_BY_DISK = frozenset({GuestReason.DISK_FULL, GuestReason.DISK_ERROR})
_NOT_RUNNING: int = (
    libvirt.VIR_CONNECT_LIST_DOMAINS_PAUSED
    | libvirt.VIR_CONNECT_LIST_DOMAINS_SHUTOFF
    | libvirt.VIR_CONNECT_LIST_DOMAINS_OTHER
)
# Seconds between checks whether a guest has shut itself down, and between signals to it (Nova's
# shutdown_retry_interval).
SHUTDOWN_POLL, SHUTDOWN_RETRY_INTERVAL = 0.5, 10.0


class LibvirtPower(DomainDefinitions):
    def power_state(self, instance_uuid: str) -> PowerState | None:
        state = self.guest_state(instance_uuid)
        return None if state is None else state.power_state

    def guest_state(self, instance_uuid: str) -> GuestState | None:
        with self._host.connection("Reading the state", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            try:
                return None if domain is None else power.guest_state(domain)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None
                raise

    def guests_in_trouble(self) -> dict[str, GuestState]:
        states: dict[str, GuestState] = {}
        with self._host.connection("Listing domains") as connection:
            for domain in connection.listAllDomains(_NOT_RUNNING):
                try:
                    state = power.guest_state(domain)
                    if state.reason in FAULTS and self._our_mark(domain) is not None:
                        states[domain.UUIDString()] = state
                except libvirt.libvirtError as error:
                    if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
                        raise
        return states

    def go_on(self, instance_uuid: str) -> bool:
        with self._host.connection("Continuing", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            jobs.require_free(domain)
            is_full = shutil.disk_usage(self._disks.folder(instance_uuid)).free < ROOM_TO_GO_ON
            if is_full or power.guest_state(domain).reason is not GuestReason.DISK_FULL:
                return False
            domain.resume()
            self._clocks.set_soon(domain)
            return True

    def power_on(self, instance: Instance, *, paused: bool = False) -> PowerState:
        """Raises NotFound if there is no domain, DisksOfAnotherHost if another host has made its disks since."""
        if self._real:
            self._disks.require_owner(instance.uuid, self._ready().host, instance)
            self._disks.share_base(instance.uuid)
        with self._host.connection("Starting", domain_name(instance.uuid)) as connection:
            domain = require(connection, instance.uuid)
            jobs.require_free(domain)
            self._snapshots.settle(instance.uuid, domain)
            self._plug(connection, instance)
            goes_on = saved_memory.is_saved(domain)
            try:
                with self._secrets.defined_for_start(
                    connection, instance.uuid, domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
                ):
                    key_faults.start(domain, instance, libvirt.VIR_DOMAIN_START_PAUSED if paused else 0)
            except (libvirt.libvirtError, errors.MinovaError):
                if not domain.isActive():
                    raise
            saved_memory.forget_used(domain)
            if goes_on and not paused:
                self._clocks.set_soon(domain)
            self._note_addresses(domain)
            return power.state_of(domain)

    def start(self, instance: Instance) -> PowerState:
        with self._host.connection("Starting", domain_name(instance.uuid)) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None and self._our_mark(domain) is not None:
                jobs.require_free(domain)
                if power.runs(domain):
                    saved_memory.forget_used(domain)
                    return power.state_of(domain)
                if saved_memory.is_saved(domain):
                    self.power_on(instance)
                    power.runs(domain)  # one that stood still when its memory was saved does so again
                    return power.state_of(domain)
        return self._run_anew(instance, drop_memory=False)

    def hard_reboot(self, instance: Instance) -> PowerState:
        return self._run_anew(instance, drop_memory=True)

    def power_off(self, instance_uuid: str) -> None:
        with self._host.connection("Stopping", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is not None and self._our_mark(domain) is not None:
                jobs.require_not_saving(domain)
                power.end(domain)

    def shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        """Signals by ACPI, repeatedly, since the guest may not listen yet."""
        until = time.monotonic() + timeout
        next_signal = 0.0
        with self._host.connection("Shutting down", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is not None:
                jobs.require_not_saving(domain)
                if power.guest_state(domain).reason in _BY_DISK:
                    domain.resume()
                with suppress(errors.GuestAsleep):
                    power.wake(domain)
        while self._is_active(instance_uuid):
            now = time.monotonic()
            state = self.guest_state(instance_uuid)
            if state is not None and state.reason in FAULTS and state.power_state in STANDING:
                LOG.info("Instance %s stands still and cannot shut down: %s", instance_uuid, state.reason)
                return False
            if now >= until:
                LOG.info("Instance %s has not shut down within %g s", instance_uuid, timeout)
                return False
            if now >= next_signal:
                self._signal_shutdown(instance_uuid)
                next_signal = now + SHUTDOWN_RETRY_INTERVAL
            if cancelled.wait(min(SHUTDOWN_POLL, until - now)):
                return True
        return True

    def pause(self, instance_uuid: str) -> PowerState:
        with self._host.connection("Pausing", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            jobs.require_free(domain)
            if power.state_of(domain) is not PowerState.PAUSED:
                power.wake(domain)
                domain.suspend()
            return power.state_of(domain)

    def unpause(self, instance_uuid: str) -> PowerState:
        with self._host.connection("Unpausing", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            jobs.require_free(domain)
            before = power.guest_state(domain)
            power.wake(domain)
            if before.power_state not in {PowerState.RUNNING, PowerState.SUSPENDED}:
                domain.resume()
            if before.reason in _BY_DISK:
                power.require_going_on(domain, GOES_ON_WITHIN)
            self._clocks.set_soon(domain)
            return power.state_of(domain)

    def suspend(self, instance_uuid: str) -> PowerState:
        with self._host.connection("Suspending", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            # A process that died in a suspend has left its save running. Once that has ended, the guest is saved.
            jobs.require_free(domain)
            if domain.isActive() or not domain.hasManagedSaveImage():
                self._snapshots.settle(instance_uuid, domain)
                power.wake(domain)
                domain.managedSave()
            return power.state_of(domain)

    def resume(self, instance: Instance) -> PowerState:
        """libvirt starts a domain from its saved memory automatically. A guest that stood still when it was saved does so
        again.
        """
        state = self.power_state(instance.uuid)
        if state not in STANDING:
            state = self.power_on(instance)
        return self.unpause(instance.uuid) if state in STANDING else state

    def has_saved_memory(self, instance_uuid: str) -> bool:
        with self._host.connection("Reading the saved memory", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            return domain is not None and saved_memory.is_saved(domain)

    def inject_nmi(self, instance_uuid: str) -> PowerState:
        with self._host.connection("Interrupting", domain_name(instance_uuid)) as connection:
            domain = self._own(connection, instance_uuid)
            domain.injectNMI()
            return power.state_of(domain)

    def set_admin_password(self, instance: Instance, password: str) -> None:
        with self._host.connection("Setting the password", domain_name(instance.uuid)) as connection:
            guest_agent.set_password(self._own(connection, instance.uuid), instance.image, password)

    def _run_anew(self, instance: Instance, *, drop_memory: bool) -> PowerState:
        if self._real:
            self._require_disks(instance)
        disks = self._disks.plan(instance) if self._real else ()
        definition = self._define_anew(instance, disks, drop_memory=drop_memory)
        if self._real:
            self._disks.remove_rescue(instance.uuid)
            self._take_arrived(instance, definition.xml, drop_memory=drop_memory)
        return self.power_on(instance)

    def _take_arrived(self, instance: Instance, xml: str, *, drop_memory: bool) -> None:
        """Give libvirt what a move has brought whose own start has failed."""
        folder = self._disks.folder(instance.uuid)
        if drop_memory:
            arrivals.memory_file(folder, instance.attempt).unlink(missing_ok=True)
        if arrivals.are_there(folder, instance.attempt):
            with self._host.connection("Starting", domain_name(instance.uuid)) as connection:
                domain = self._own(connection, instance.uuid)
                self._give_arrived(connection, domain, xml, instance.attempt)

    def _is_active(self, instance_uuid: str) -> bool:
        with self._host.connection("Reading the state", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            return domain is not None and self._our_mark(domain) is not None and bool(domain.isActive())

    def _signal_shutdown(self, instance_uuid: str) -> None:
        with self._host.connection("Shutting down", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            try:
                if domain is not None:
                    domain.shutdown()
            except libvirt.libvirtError as error:  # it may be paused, or have ended by itself
                LOG.info("Instance %s cannot be asked to shut down: %s", instance_uuid, error)
