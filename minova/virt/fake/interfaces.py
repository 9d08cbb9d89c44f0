"""Interfaces as the MAC addresses in the records: there are no packets."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.fake.records import FakeRecords


class FakeInterfaces(FakeRecords):
    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        """Filters nothing: there are no packets."""
        expected_macs = {uuid: {vif.mac_address for vif in of_instance} for uuid, of_instance in vifs.items()}
        with self._lock:
            self._begin("refresh_interfaces")
            macs_by_uuid = {uuid: set(domain.macs) for uuid, domain in self._domains.items()}
        return tuple(uuid for uuid, macs in macs_by_uuid.items() if macs != expected_macs.get(uuid, set()))

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        """Does nothing, as `refresh_interfaces`."""
        self._begin("refresh_members")

    def interfaces(self, instance_uuid: str) -> tuple[Vif, ...]:
        with self._lock:
            self._begin("interfaces")
            macs = self._domain(instance_uuid).macs
        return tuple(Vif(port_id="", mac_address=mac, network_id="") for mac in macs)

    def attach_interface(self, instance: Instance, vif: Vif) -> PowerState:
        with self._lock:
            self._begin("attach_interface")
            domain = self._domain(instance.uuid)
            if vif.mac_address not in domain.macs:
                self._write(msgspec.structs.replace(domain, macs=(*domain.macs, vif.mac_address)))
            return domain.power_state

    def detach_interface(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        """Fake guests release the interface at once."""
        check()
        with self._lock:
            self._begin("detach_interface")
            domain = self._domains.get(instance_uuid)
            if domain is None:
                return PowerState.SHUTDOWN
            other_macs = tuple(mac for mac in domain.macs if mac != vif.mac_address)
            self._write(msgspec.structs.replace(domain, macs=other_macs))
            return domain.power_state
