"""The rescue of a guest from a disk of its own."""

from pathlib import Path
from typing import Protocol

from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState


class RescueDriver(Protocol):
    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        """Make the disk of this image from which `rescue` boots; the guest is left as it is. Raises ImageUnacceptable
        or DiskFull, and SavedMemoryKept if the guest's memory is saved.
        """
        ...

    def rescue(self, instance: Instance, image: Image | None = None) -> PowerState:
        """Run the guest from the disk of `prepare_rescue`, which is where the image wants it (see `rescue_device`): the first disk, with
        the root disk as the second one, or the last one. `hard_reboot` undoes it. `image` None: the disk is where it was before.

        A system that boots from the server's own image would mistake the root disk for its own, since both have the same UUIDs. It gets
        the root disk later: see `attach_broken_disk`.
        """
        ...

    def without_broken_disk(self) -> tuple[str, ...]:
        """Returns the rescued guests that run and do not have their root disk yet."""
        ...

    def attach_broken_disk(self, instance_uuid: str) -> None:
        """Attach the root disk to such a guest, if it has booted: its agent is connected, or it has had enough time. Idempotent."""
        ...
