"""Domains, from their definition to their removal."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from minova.objects.guests.diagnostics import GuestDiagnostics
from minova.objects.hosts.compute_node import DomainView
from minova.objects.requests.build_extras import GuestFile
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState


class RowHost(msgspec.Struct, frozen=True, kw_only=True):
    """The host in an instance's row, as the conductor has just answered: its name, or OTHER_HOST. `known` is False if the conductor did
    not answer.

    `undone`: an attempt to evacuate did not succeed, so only what this host has made itself is removed, whatever the
    row says.
    """

    host: str | None = None
    known: bool = True
    undone: bool = False


NO_ROW = RowHost()


class GuestData(msgspec.Struct, frozen=True, kw_only=True):
    """Data for a guest besides its instance."""

    availability_zone: str = ""
    admin_password: str | None = None
    files: tuple[GuestFile, ...] = ()


NO_DATA = GuestData()


class DomainDriver(Protocol):
    def domains(self) -> tuple[DomainView, ...]:
        """Returns every domain on every node."""
        ...

    def chosen_hardware(self, instance_uuids: Sequence[str]) -> dict[str, ChosenHardware]:
        """Returns the hardware of those of these guests that have a domain. Leaves out a guest without a type of machine."""
        ...

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        """Report lifecycle changes of domains (instance uuid, new state) as they come, from the driver's own thread."""
        ...

    def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """Returns what the running guest uses. Raises NotFound if there is no such domain."""
        ...

    def needs_image(self) -> bool:
        """Whether `prepare` needs the base image's file."""
        ...

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
        """Make disks and define the domain, marked with its attempt; nothing runs yet. Idempotent. `with_disks` False:
        the disks are there, as `take_over` has found them. `copies_image`: the disk must not depend on the image, which
        is not the one that the server's row names.

        Raises DisksOfAnotherHost if a later attempt on another host has made the disks on shared storage. Raises GuestIsNewer
        if a later attempt has made the domain; then nothing is changed.
        """
        ...

    def rebuild(
        self,
        instance: Instance,
        image_path: Path | None,
        data: GuestData = NO_DATA,
        replaces: Callable[[], None] = lambda: None,
    ) -> None:
        """Make the disks of a domain anew from the instance's image and define it anew; it is off then, and its saved
        memory is removed. Idempotent. `replaces` is called before the first disk, TPM or firmware variables of the former guest go.

        Raises DisksOfAnotherHost if another host has made its disks since. Raises ImageUnacceptable or DiskFull if a disk
        cannot be made.
        """
        ...

    def latest_attempt(self, instance_uuid: str) -> int | None:
        """Returns the latest attempt that has made something of the instance which is here now: its domain, or disks that
        this host owns. None if nothing is here, or names no attempt.
        """
        ...

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        """Stop and undefine the domain and remove its files. Idempotent.

        On shared storage, files of an instance whose row names another host belong to that host and stay.
        """
        ...
