"""The disks of guests on this host."""

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from minova.objects.servers.instance import Instance


class LeftDisks(msgspec.Struct, frozen=True, kw_only=True):
    """Disks of an instance on this host. `attempt` made them; `disk_gb`: the space that they use, rounded up."""

    uuid: str
    attempt: int
    disk_gb: int


class DiskDriver(Protocol):
    def shares_disks(self) -> bool:
        """Whether other hosts store disks in the same folder."""
        ...

    def left_disks(self, with_domain: Container[str]) -> tuple[LeftDisks, ...]:
        """Returns the disks that this host owns of instances that are not in `with_domain`."""
        ...

    def has_disks(self, instance: Instance) -> bool:
        """Whether all disks of the instance's flavor are here, whichever host of a shared folder owns them."""
        ...

    def take_over(self, instance_uuid: str, attempt: int, old_attempt: int = 0) -> bool:
        """Make the disks of an evacuated server this host's, if they are on storage that this host shares with the one
        that is down, where the guest was in `old_attempt`. Returns False if there are none: they are to be made anew. Idempotent.

        Raises DisksOfAnotherHost if a later attempt has them. Raises HypervisorError if there are disks and it is not known
        whose they are, or a hypervisor has them open; also if this host has made them before the server left it.
        """
        ...

    def own_renamed(self, instances: Iterable[Instance]) -> None:
        """Record this host's present name for those disks of these instances, whose rows are here, that it has made under a former
        name (`HostDriver.recognise`). Idempotent.
        """
        ...

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        """Record this host as owner of the disks of these instances, whose rows and domains are here."""
        ...

    def lost_base(self, instance_uuid: str) -> Path | None:
        """Returns the base image of the instance's root disk if that file is gone, so that the disk cannot be opened.
        None if it is there, or if the disk has none.
        """
        ...

    def bases_in_use(self) -> frozenset[str]:
        """Returns file names of cached base images on which disks of instances here are based. Raises UnknownDiskFormat
        if that cannot be determined.
        """
        ...
