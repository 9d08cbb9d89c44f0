"""Operations on fake guests: run, pause, save their memory."""

import threading
from typing import Protocol

import msgspec

from minova.objects.actions.guest_changes import FAULTS
from minova.objects.actions.power_rules import ON
from minova.objects.guests.guest_states import GuestReason, GuestState
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.fake.domains import FakeDomains
from minova.virt.fake.records import macs_of

LINES_OF_A_START = 12


class FakeTurns(Protocol):
    """Operations that only turn a guest to another state. The hypervisor of the tests of computes has them, too."""

    def _begin(self, operation: str) -> None: ...

    def _turn_to(self, instance_uuid: str, state: PowerState) -> PowerState: ...

    def pause(self, instance_uuid: str) -> PowerState:
        self._begin("pause")
        return self._turn_to(instance_uuid, PowerState.PAUSED)

    def unpause(self, instance_uuid: str) -> PowerState:
        self._begin("unpause")
        return self._turn_to(instance_uuid, PowerState.RUNNING)

    def resume(self, instance: Instance) -> PowerState:
        self._begin("resume")
        return self._turn_to(instance.uuid, PowerState.RUNNING)


class FakePower(FakeDomains, FakeTurns):
    def power_state(self, instance_uuid: str) -> PowerState | None:
        with self._lock:
            self._begin("power_state")
            domain = self._domains.get(instance_uuid)
            return None if domain is None else domain.power_state

    def guest_state(self, instance_uuid: str) -> GuestState | None:
        with self._lock:
            self._begin("guest_state")
            domain = self._domains.get(instance_uuid)
            return None if domain is None else GuestState(domain.power_state, domain.reason)

    def guests_in_trouble(self) -> dict[str, GuestState]:
        with self._lock:
            self._begin("guests_in_trouble")
            return {
                uuid: GuestState(domain.power_state, domain.reason)
                for uuid, domain in self._domains.items()
                if domain.reason in FAULTS
            }

    def go_on(self, instance_uuid: str) -> bool:
        with self._lock:
            self._begin("go_on")
            is_full = self._domain(instance_uuid).reason is GuestReason.DISK_FULL
            if is_full:
                self.turn(instance_uuid, PowerState.RUNNING)
            return is_full

    def power_on(self, instance: Instance, *, paused: bool = False) -> PowerState:
        state = PowerState.PAUSED if paused else PowerState.RUNNING
        with self._lock:
            self._begin("power_on")
            domain = self._domain(instance.uuid)
            if domain.power_state is not PowerState.RUNNING:
                name = instance.hostname or instance.uuid
                lines = [
                    f"{name}: line {number} of a start in a book only\n" for number in range(1, LINES_OF_A_START + 1)
                ]
                console = "".join((domain.console, *lines))
                self._write(msgspec.structs.replace(domain.turned(state), console=console))
                return state
            return PowerState.RUNNING

    def start(self, instance: Instance) -> PowerState:
        with self._lock:
            self._begin("start")
            domain = self._domains.get(instance.uuid)
            if domain is not None and domain.power_state in ON:
                return self._turn_to(instance.uuid, PowerState.RUNNING)
            return self.resume(instance) if domain is not None and domain.saved else self.hard_reboot(instance)

    def hard_reboot(self, instance: Instance) -> PowerState:
        with self._lock:
            self._begin("hard_reboot")
            if instance.uuid not in self._domains:
                self.prepare(instance, instance.node or self.nodes[0], instance.attempt, None)
            self._turn_to(instance.uuid, PowerState.SHUTDOWN)
            self._write(msgspec.structs.replace(self._domain(instance.uuid), macs=macs_of(instance), saved=False))
            return self.power_on(instance)

    def power_off(self, instance_uuid: str) -> None:
        with self._lock:
            self._begin("power_off")
            if instance_uuid in self._domains:
                self.turn(instance_uuid, PowerState.SHUTDOWN)

    def shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        """Fake guests shut down at once."""
        self._begin("shut_down")
        self.power_off(instance_uuid)
        return True

    def suspend(self, instance_uuid: str) -> PowerState:
        with self._lock:
            self._begin("suspend")
            domain = self._domain(instance_uuid)
            if domain.power_state in ON:
                self._write(msgspec.structs.replace(domain, saved=True))
            return self._turn_to(instance_uuid, PowerState.SHUTDOWN)

    def has_saved_memory(self, instance_uuid: str) -> bool:
        with self._lock:
            self._begin("has_saved_memory")
            domain = self._domains.get(instance_uuid)
            return domain is not None and domain.saved

    def inject_nmi(self, instance_uuid: str) -> PowerState:
        with self._lock:
            self._begin("inject_nmi")
            domain = self._domain(instance_uuid)
            self._write(msgspec.structs.replace(domain, console=f"{domain.console}NMI received\n"))
            return domain.power_state

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Fake guests have no agent and accept any password."""
        self._begin("set_admin_password")
        self._domain(instance.uuid)
