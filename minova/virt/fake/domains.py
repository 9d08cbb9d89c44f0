"""Domains, from their record to its removal."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from minova import errors
from minova.objects.guests.diagnostics import GuestDiagnostics
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import NO_DATA, NO_ROW, GuestData, RowHost
from minova.virt.fake.records import Domain, FakeRecords, macs_of


class FakeDomains(FakeRecords):
    def domains(self) -> tuple[DomainView, ...]:
        with self._lock:
            self._begin("domains")
            return tuple(domain.view for domain in self._domains.values())

    def chosen_hardware(self, instance_uuids: Sequence[str]) -> dict[str, ChosenHardware]:
        """Fake guests have no type of machine."""
        return {}

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        with self._lock:
            self._changed.append(changed)

    def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """Fake guests use nothing. As Nova's fake driver, it reports the driver as libvirt, because clients do not know
        a fake one.
        """
        with self._lock:
            self._begin("diagnostics")
            memory_kb = self._domain(instance_uuid).memory_mb << 10
        return GuestDiagnostics(driver="libvirt", memory_kb=memory_kb)

    def needs_image(self) -> bool:
        return False

    def prepare(
        self,
        instance: Instance,
        node: str,
        attempt: int,
        image_path: Path | None,
        data: GuestData = NO_DATA,
        *,
        with_disks: bool = True,
        copies_image: bool = False,
    ) -> None:
        with self._lock:
            self._begin("prepare")
            existing = self._domains.get(instance.uuid)
            if existing is not None and existing.attempt == attempt:
                return
            if existing is not None and existing.attempt > attempt:
                raise errors.GuestIsNewer(
                    f"The domain of {instance.uuid} is of attempt {existing.attempt}, not {attempt}"
                )
            flavor = instance.flavor
            self._write(
                Domain(
                    uuid=instance.uuid,
                    node=node,
                    attempt=attempt,
                    memory_mb=flavor.memory_mb,
                    disk_gb=flavor.disk_gb,
                    vcpus=flavor.vcpus,
                    macs=macs_of(instance),
                )
            )

    def rebuild(
        self,
        instance: Instance,
        image_path: Path | None,
        data: GuestData = NO_DATA,
        replaces: Callable[[], None] = lambda: None,
    ) -> None:
        """Also clears the console, which is lost with the disks."""
        with self._lock:
            self._begin("rebuild")
            replaces()
            if instance.uuid not in self._domains:
                self.prepare(instance, instance.node or self.nodes[0], instance.attempt, None)
            self._turn_to(instance.uuid, PowerState.SHUTDOWN)
            self._write(msgspec.structs.replace(self._domain(instance.uuid), console="", saved=False))

    def latest_attempt(self, instance_uuid: str) -> int | None:
        with self._lock:
            self._begin("latest_attempt")
            domain = self._domains.get(instance_uuid)
            return None if domain is None else domain.attempt

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        with self._lock:
            self._begin("destroy")
            if self._domains.pop(instance_uuid, None) is not None:
                self._save()
