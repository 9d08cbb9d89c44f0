"""Operations on a guest that exists: run, pause, save its memory, send it signals."""

import threading
from typing import Protocol

from minova.objects.guests.guest_states import GuestState
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState


class PowerDriver(Protocol):
    def power_state(self, instance_uuid: str) -> PowerState | None:
        """Returns the power state, or None if there is no such domain."""
        ...

    def guest_state(self, instance_uuid: str) -> GuestState | None:
        """Returns the power state with its reason, or None if there is no such domain."""
        ...

    def guests_in_trouble(self) -> dict[str, GuestState]:
        """Returns the guests of ours that stand still, or have crashed, with the reason. Guests that minova has paused are
        among them.
        """
        ...

    def go_on(self, instance_uuid: str) -> bool:
        """Let the guest go on if it stands still because its disk was full, and there is space again. Returns whether it
        went on.
        """
        ...

    def power_on(self, instance: Instance, *, paused: bool = False) -> PowerState:
        """Run a prepared or stopped domain; one that runs already is left running. Raises NotFound if there is no
        domain.

        `paused`: start the domain with its CPUs paused until `unpause`.
        """
        ...

    def start(self, instance: Instance) -> PowerState:
        """Run the guest of a stopped instance. One that runs is left running, the CPUs of a paused one go on, and one whose
        memory is saved goes on from it. Any other is defined anew and boots, as by `hard_reboot`.

        Raises DisksOfAnotherHost if another host has made its disks since.
        """
        ...

    def hard_reboot(self, instance: Instance) -> PowerState:
        """Destroy the domain, its saved memory and its rescue disk, define it anew and run it; its disks stay. The
        domain need not exist.

        Raises DisksOfAnotherHost if another host has made its disks since.
        """
        ...

    def power_off(self, instance_uuid: str) -> None:
        """Stop the domain at once and keep its disks. Does nothing if there is no domain, or if it is not ours. Raises
        GuestBusy while its memory is being saved.
        """
        ...

    def shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        """Signal the guest to shut itself down. Returns whether it is off within `timeout` seconds; returns True also
        once `cancelled` is set. Wakes a guest that sleeps. Returns False at once for a guest that stands still and cannot go on.
        """
        ...

    def pause(self, instance_uuid: str) -> PowerState:
        """Pause the guest's CPUs; a paused guest stays paused, one that sleeps wakes first. Raises NotFound if there is no
        domain.
        """
        ...

    def unpause(self, instance_uuid: str) -> PowerState:
        """Resume the guest's CPUs; a running guest is left running. Raises NotFound if there is no domain. Raises
        GuestDiskFull or GuestDiskFailed if the disk that has stopped the guest stops it again, GuestAsleep if it cannot be woken.
        """
        ...

    def suspend(self, instance_uuid: str) -> PowerState:
        """Save the guest's memory on the host and end the domain; a saved guest stays saved, one that sleeps wakes first. Raises
        NotFound if there is no domain.
        """
        ...

    def resume(self, instance: Instance) -> PowerState:
        """Resume the guest from its saved memory, or start it as `power_on` does if none is saved. One that stands still goes
        on as by `unpause`. Raises NotFound if there is no domain.
        """
        ...

    def has_saved_memory(self, instance_uuid: str) -> bool:
        """Whether the guest is off and its memory is saved on this host."""
        ...

    def inject_nmi(self, instance_uuid: str) -> PowerState:
        """Send a non-maskable interrupt to the guest's kernel. Raises NotFound if there is no domain."""
        ...

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Set the password through the agent in the running guest. Raises NotFound if there is no domain.

        Raises GuestAgentNotEnabled or GuestAgentUnresponsive if the agent cannot do it. No error text contains the
        password.
        """
        ...
