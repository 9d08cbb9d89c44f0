"""Fake guests have no disks."""

from collections.abc import Container, Iterable
from pathlib import Path

from minova.objects.servers.instance import Instance
from minova.virt.driver.disks import LeftDisks


class FakeDisks:
    def shares_disks(self) -> bool:
        return False

    def left_disks(self, with_domain: Container[str]) -> tuple[LeftDisks, ...]:
        """Returns nothing: fake guests have no disks."""
        return ()

    def take_over(self, instance_uuid: str, attempt: int, old_attempt: int = 0) -> bool:
        """Returns False: fake guests have no disks."""
        return False

    def own_renamed(self, instances: Iterable[Instance]) -> None:
        """Does nothing: fake guests have no disks."""

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        """Does nothing: fake guests have no disks."""

    def lost_base(self, instance_uuid: str) -> Path | None:
        """Returns None: fake guests have no disks."""
        return None

    def bases_in_use(self) -> frozenset[str]:
        return frozenset()
