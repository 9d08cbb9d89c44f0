"""The interfaces of guests, and the filters of their packets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState


class InterfaceDriver(Protocol):
    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        """Apply filters, addresses and links of these interfaces, given by instance. Running guests are affected at
        once. Returns the instances whose domains have more or fewer interfaces.

        Idempotent. Skips instances that are not on this host.
        """
        ...

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        """Apply these members of security groups, unless newer ones are known. Rules that refer to the groups then
        allow traffic from the members, for interfaces that are here and for those that come later. Running guests are
        affected at once. Idempotent.

        Interfaces that existed before the driver started are left to `refresh_interfaces`.
        """
        ...

    def interfaces(self, instance_uuid: str) -> tuple[Vif, ...]:
        """Returns the interfaces that the guest has, or would have at its next start: only their ports, MAC addresses
        and networks.

        Raises NotFound if there is no domain.
        """
        ...

    def attach_interface(self, instance: Instance, vif: Vif) -> PowerState:
        """Attach this interface to the domain, at once if it runs. Idempotent. After a failure, call `interfaces` to
        see whether the domain has it.

        Raises NotFound if there is no domain. Raises HardwareNotOffered if this host does not have the network,
        InterfaceAttachFailed if the guest cannot take it.
        """
        ...

    def detach_interface(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        """Detach this interface from the domain. Does nothing if the domain lacks the interface, or does not exist.

        A running guest has to release the interface, and is asked several times. Meanwhile `check` is called several
        times a second; an exception of it ends the wait. Raises InterfaceDetachFailed if the guest has not released the
        interface and keeps it.
        """
        ...
