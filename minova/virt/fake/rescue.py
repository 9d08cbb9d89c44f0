"""The rescue of a fake guest."""

from pathlib import Path

from minova import errors
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.fake.power import FakePower


class FakeRescue(FakePower):
    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        self._begin("prepare_rescue")
        self._require_no_saved_memory(instance.uuid)

    def rescue(self, instance: Instance, image: Image | None = None) -> PowerState:
        with self._lock:
            self._begin("rescue")
            self._require_no_saved_memory(instance.uuid)
            self._turn_to(instance.uuid, PowerState.SHUTDOWN)
            return self.power_on(instance)

    def without_broken_disk(self) -> tuple[str, ...]:
        return ()

    def attach_broken_disk(self, instance_uuid: str) -> None:
        """A fake guest mistakes no disk, and has it from the start."""

    def _require_no_saved_memory(self, instance_uuid: str) -> None:
        if self._domain(instance_uuid).saved:
            raise errors.SavedMemoryKept(f"The memory of instance {instance_uuid} is saved: resume it first")
