"""Shelved servers on the host."""

from collections.abc import Mapping
from typing import Protocol

from minova import errors
from minova.compute.actions.action_run import ActionRun, Operation
from minova.compute.actions.image_fetch import ImageFetch
from minova.compute.actions.images import Snapshots, Steps
from minova.compute.actions.power import GuestPower
from minova.compute.guest_secrets import HostSecrets
from minova.context import RequestContext
from minova.objects.actions.power_rules import ON
from minova.objects.actions.shelving import SHELVE, SHELVE_OFFLOAD, UNSHELVE
from minova.objects.servers.states import PowerState, VmState
from minova.virt.driver import ComputeDriver


class DiskRemover(Protocol):
    """Removes guests."""

    def remove_disks(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Remove the domain and the disks, and free their resources on the host. Idempotent. Raises the errors of the
        driver.
        """
        ...

    def was_shelved_suspended(self, instance_uuid: str) -> bool:
        """Whether the user has shelved the server while it was suspended: its saved memory may go with its disk."""
        ...


class GuestShelving:
    def __init__(
        self,
        driver: ComputeDriver,
        power: GuestPower,
        snapshots: Snapshots,
        disks: DiskRemover,
        secrets: HostSecrets,
        images: ImageFetch,
    ) -> None:
        self._driver = driver
        self._power = power
        self._snapshots = snapshots
        self._disks = disks
        self._secrets = secrets
        self._images = images

    def operations(self) -> Mapping[str, Operation]:
        return {SHELVE.kind: self._shelve, SHELVE_OFFLOAD.kind: self._offload, UNSHELVE.kind: self._power.start}

    def _shelve(self, run: ActionRun) -> PowerState:
        """Power off first, as in Nova, so that the image contains everything. A paused guest cannot shut itself
        down. Raises SavedMemoryKept if the guest's memory is saved although the server is not suspended: a suspend has
        ended late.
        """
        begun, pending, uploading = SHELVE.progress
        if run.instance.vm_state is VmState.PAUSED:
            self._driver.power_off(run.instance.uuid)
        else:
            self._power.off(run, begun)
        run.confirm(begun)
        if run.instance.vm_state is not VmState.SUSPENDED:
            with run.preparing():
                self._require_no_saved_memory(run.instance.uuid)
        return self._snapshots.take(run, Steps(pending, uploading))

    def _offload(self, run: ActionRun) -> PowerState:
        """Remove everything of the guest but its image and the state of its TPM, which a conductor keeps.

        Raises Conflict if the guest runs: its disk is newer then. Raises SavedMemoryKept if an overlay of a snapshot is open beside
        its disk, which may have later writes than the image. Raises SavedMemoryKept if its memory is saved, unless the user has
        shelved it while it was suspended. Raises ImageDeleted or ServiceUnavailable unless the image is at the image service: it
        may have been deleted since the request.
        """
        uuid = run.instance.uuid
        with run.preparing():
            if self._driver.power_state(uuid) in ON:
                raise errors.Conflict(f"instance {uuid} runs, so its disk is newer than the image of its shelving")
            if self._driver.has_open_snapshot(uuid):
                raise errors.SavedMemoryKept(
                    f"A snapshot of instance {uuid} is not committed to its disk, and the image of its shelving may be older. "
                    "Unshelve the server to go on from it. Compare a snapshot.kept-N in its folder with its disk, and remove it"
                )
            if not self._disks.was_shelved_suspended(uuid):
                self._require_no_saved_memory(uuid)
            self._secrets.keep_tpm(run.ctx, self._driver, run.instance)
            if run.arguments.image is not None:  # None: from a conductor of an earlier release
                self._images.require_there(run, run.arguments.image)
                # The conductor looks at the image once more.
                run.confirm()
        self._driver.power_off(uuid)
        self._disks.remove_disks(run.ctx, uuid)
        return PowerState.SHUTDOWN

    def _require_no_saved_memory(self, instance_uuid: str) -> None:
        if self._driver.has_saved_memory(instance_uuid):
            raise errors.SavedMemoryKept(
                f"The memory of instance {instance_uuid} is saved, and the server is not suspended. Start or unshelve the "
                "server to go on from it, or delete it"
            )
