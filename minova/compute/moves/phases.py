"""The phases of a cold move on its two hosts: see `objects/servers/moves.py`."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from oslo_config import cfg

from minova import errors
from minova.compute.images.source import ImageSource
from minova.compute.images.tokens import ImageToken
from minova.compute.instances.clean_stops import shutdown_timeout
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.compute.moves.move_records import MoveRecords
from minova.compute.tracker.nodes import Nodes
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.power_rules import ON
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.disk_export import DiskExport, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import GuestSide
from minova.objects.servers.migration import Migration
from minova.objects.servers.moves import MoveMessage, MovePhase, PhaseResult
from minova.objects.servers.states import PowerState, VmState
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import GuestData

LOG = logging.getLogger(__name__)


class CancelCheck(Protocol):
    """See `runner.PhaseCheck`."""

    cancelled: threading.Event

    def __call__(self) -> None: ...


Phase = Callable[[RequestContext, MoveMessage, CancelCheck], PhaseResult]
# Follows once a conductor has the report of a phase that has succeeded.
Reported = Callable[[RequestContext, MoveMessage], None]
# Seconds of a guest's shutdown after which `check` is called: less than `[conductor] action_timeout` by far.
SIGN_OF_LIFE = 20.0
# With these statuses the row's host has proven its own copy, so another copy may be removed even if it runs.
_PROVEN = frozenset({"confirming", "confirmed", "reverted", "completed"})


class MoveImages:
    """The images on which disks of guests that move are based."""

    def __init__(self, host: str, driver: ComputeDriver, conductor: ConductorApi, images: ImageSource) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._images = images

    def fetch(self, ctx: RequestContext, instance: Instance, check: CancelCheck) -> dict[str, errors.ImageWithheld]:
        """Fetch the files of the instance's image into the cache of this host. Returns {digest: error} of those that the image service
        does not give any more. Raises as `ImageSource.fetch` for another failure.
        """
        withheld: dict[str, errors.ImageWithheld] = {}
        for file, token in self._files(ctx, instance):
            try:
                self._images.fetch(file, check, token)
            except errors.ImageWithheld as error:
                withheld[file.os_hash_value or ""] = error
        return withheld

    def fetch_here(
        self, ctx: RequestContext, instance: Instance, export: DiskExport, key: TransferKey, check: CancelCheck
    ) -> Path | None:
        """Returns the image of the instance in the cache of this host; None: its disks need none. A file that the image service does not
        give any more comes from the source. The file of an image on which no disk is based may be missing. Raises as `fetch`, and
        ImageWithheld if the source does not serve the file.
        """
        path = None
        for file, token in self._files(ctx, instance):
            try:
                path = self._images.fetch(file, check, token)
            except errors.ImageWithheld as error:
                if not _is_needed(file.os_hash_value, instance.image, export):
                    # The kernel and the ramdisk are beside it.
                    return None if path is None else path.with_name(file.os_hash_value or "")
                require_served({file.os_hash_value or "": error}, instance.image, export)
                LOG.warning("Instance %s brings its image along from %s: %s", instance.uuid, export.host, error)
                path = self._take_copy(file, export, key, check)
        return path

    def _files(self, ctx: RequestContext, instance: Instance) -> Iterator[tuple[Image, ImageToken | None]]:
        """Yields the image of each file with its token; the base of the disks comes last."""
        image = instance.image
        if image is None or not self._driver.needs_image():
            return
        token = ImageToken.of_build(
            lambda image_id: self._conductor.image_token(
                ctx, instance_uuid=instance.uuid, image_id=image_id, host=self._host
            ),
            image.id,
        )
        for file in image.files:
            yield file, token if file.id == image.id else token.for_image(file.id)

    def _take_copy(self, image: Image, export: DiskExport, key: TransferKey, check: CancelCheck) -> Path:
        file = next(file for file in export.images if file.name == image.os_hash_value)

        def write(path: Path, go_on: Callable[[], None]) -> None:
            self._driver.fetch_image(path, export, file, key, go_on)

        return self._images.take_copy(image, file.size, write, check)


def require_served(withheld: Mapping[str, errors.ImageWithheld], image: Image | None, export: DiskExport) -> None:
    """Raises the error of a file that the guest needs and its source does not serve. `withheld`: {digest: error} of the files of its
    `image` that the image service does not give any more.
    """
    served = {file.name for file in export.images}
    for digest, error in withheld.items():
        if digest not in served and _is_needed(digest, image, export):
            raise error


def _is_needed(digest: str | None, image: Image | None, export: DiskExport) -> bool:
    """Whether the guest needs this file of its image. It does not need the image below a root disk that is a copy of it."""
    return export.based is not False or image is None or digest != image.os_hash_value


class ColdPhases:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: str,
        driver: ComputeDriver,
        images: MoveImages,
        nodes: Nodes,
        records: MoveRecords,
        vif_plug_waiter: VifPlugWaiter,
    ) -> None:
        self._conf = conf
        self._host = host
        self._driver = driver
        self._images = images
        self._nodes = nodes
        self._records = records
        self._vif_plug_waiter = vif_plug_waiter

    def phases(self) -> Mapping[MovePhase, Phase]:
        return {
            MovePhase.CLAIM: self._claim,
            MovePhase.EXPORT: self._export,
            MovePhase.IMPORT: self._import,
            MovePhase.RELEASE: self._release,
            MovePhase.START: self._start,
            MovePhase.RESTORE: self._restore,
            MovePhase.DISCARD: self._discard,
            MovePhase.LEAVE: self._leave,
            MovePhase.SHOW: self._show,
            MovePhase.SHOW_THERE: self._show_there,
        }

    def reported(self) -> Mapping[MovePhase, Reported]:
        accepted = dict.fromkeys((MovePhase.START, MovePhase.RESTORE), self._records.note_accepted)
        return {MovePhase.RELEASE: self._records.note_left, **accepted}

    def given_up(self) -> Mapping[MovePhase, Reported]:
        stray = dict.fromkeys((MovePhase.START, MovePhase.RESTORE), self._records.pause_stray)
        return {MovePhase.CLAIM: self._records.note_given_up, **stray}

    # -- forward ---------------------------------------------------------------------------------------------------

    def _claim(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """The base image is fetched now, so that the guest's time off is short, and a refusal comes before it."""
        if not self._driver.moves_guests:
            raise errors.HardwareNotOffered(f"The hypervisor of {self._host} does not move guests")
        tracker = self._nodes.tracker(move.migration.dest_node or "")
        with tracker.move_claim(ctx, move.instance, move.migration, move.limits):
            if _is_local(move.migration):
                return PhaseResult()
            self._records.require_none_newer(move)
            withheld = self._images.fetch(ctx, move.instance, check)
            for error in withheld.values():
                LOG.warning("The source must serve the image of instance %s, too: %s", move.instance.uuid, error)
        return PhaseResult(lacks_images=(*withheld,))

    def _export(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """The guest gets its time to shut itself down, as by `stop`."""
        uuid = move.instance.uuid
        if _is_local(move.migration):
            self._require_memory_fits(move)
        else:
            self._driver.require_movable(move.instance, images=move.lacks_images)
        if self._driver.power_state(uuid) in ON:
            timeout = shutdown_timeout(move.instance, self._conf.shutdown_timeout)
            if not self._shut_down(uuid, timeout, check):
                self._driver.power_off(uuid)
            check()
        if _is_local(move.migration):
            return self._result(uuid)
        assert move.key is not None
        export = self._driver.export_disks(move.instance, move.migration.uuid, move.key, images=move.lacks_images)
        return msgspec.structs.replace(self._result(uuid), export=export)

    def _require_memory_fits(self, move: MoveMessage) -> None:
        """Raises SavedMemoryKept if the guest has saved memory that its new flavor would lose, while the move can still go back. Another
        host says so when it imports the disks.
        """
        before, after = move.migration.old_flavor, move.migration.new_flavor
        if _memory_of(before) != _memory_of(after) and self._driver.has_saved_memory(move.instance.uuid):
            raise errors.SavedMemoryKept.of_flavor(move.instance.uuid, after.name)

    def _shut_down(self, instance_uuid: str, timeout: float, check: CancelCheck) -> bool:
        """Waits up to `timeout` seconds until the guest is off, and reports meanwhile that this host works. Returns whether it is off."""
        while timeout > 0:
            part = min(timeout, SIGN_OF_LIFE)
            if self._driver.shut_down(instance_uuid, part, check.cancelled):
                return True
            check()
            timeout -= part
        return False

    def _import(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        migration = move.migration
        assert move.export is not None
        assert move.key is not None
        # Fitted to the new size, as the row will have it.
        instance = msgspec.structs.replace(move.instance, flavor=migration.new_flavor)
        path = self._images.fetch_here(ctx, move.instance, move.export, move.key, check)
        self._driver.import_disks(
            instance, migration.attempt, move.export, move.key, path, check, before=migration.old_flavor
        )
        return PhaseResult()

    def _release(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """Raises GuestStateUnexpected if the guest has been started behind the cloud's back: its disks are newer than
        their copy then.
        """
        if self._driver.power_state(move.instance.uuid) in ON:
            raise errors.GuestStateUnexpected(f"The guest of instance {move.instance.uuid} runs again")
        self._driver.stop_export(move.migration.uuid)
        return self._result(move.instance.uuid)

    def _start(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        return self._run(ctx, move, move.migration.dest_node or "", check)

    # -- before a copy is removed ------------------------------------------------------------------------------------

    def _show(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """The source has the copy that the move has left here, with the disks of the old size. Raises GuestMissing, or
        GuestStateUnexpected if it has a later guest: the database that asks is older; or if the copy was started since.
        """
        migration = move.migration
        if _is_local(migration):
            return self._show_there(ctx, move, check)
        attempt = self._attempt_here(msgspec.structs.replace(move.instance, flavor=migration.old_flavor))
        if attempt is None or attempt >= migration.attempt:
            raise errors.GuestStateUnexpected(
                f"The guest of instance {move.instance.uuid} is of attempt {attempt} here"
            )
        if self._driver.power_state(move.instance.uuid) in ON:
            raise errors.GuestStateUnexpected(
                f"The copy of instance {move.instance.uuid} here is in use since the move: shut it down, and revert again"
            )
        return self._result(move.instance.uuid)

    def _show_there(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """The destination has the guest that the move has brought. Raises as `_show`."""
        attempt = self._attempt_here(move.instance)
        if attempt != move.migration.attempt:
            raise errors.GuestStateUnexpected(
                f"The guest of instance {move.instance.uuid} is of attempt {attempt} here"
            )
        return self._result(move.instance.uuid)

    def _attempt_here(self, instance: Instance) -> int | None:
        """Returns the attempt of the guest that is here with its disks. Raises GuestMissing."""
        guest = self._driver.guest_side(instance.uuid)
        if guest.side is GuestSide.ABSENT or not self._driver.has_disks(instance):
            raise errors.GuestMissing(f"Host {self._host} does not have the guest of instance {instance.uuid}")
        return guest.attempt

    # -- back ------------------------------------------------------------------------------------------------------

    def _restore(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """The guest is at the source as before: in a revert as another attempt, else as it was left."""
        migration = move.migration
        self._driver.stop_export(migration.uuid)
        if not self._driver.has_disks(move.instance):
            raise errors.GuestMissing(f"The disks of instance {move.instance.uuid} are not here")
        if migration.status == "reverted":
            return self._run(ctx, move, migration.source_node, check)
        if migration.old_vm_state is not VmState.STOPPED:
            self._driver.start(self._vif_plug_waiter.bound_if_lost(ctx, move.instance))
        self._records.note_settled(
            ctx, move.instance, msgspec.structs.replace(migration, status="error"), migration.source_node
        )
        return self._result(move.instance.uuid)

    def _discard(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """Stops the guest of a revert. It removes the copy unless source and destination are one host."""
        uuid, migration = move.instance.uuid, move.migration
        if _is_local(migration):
            if migration.status == "reverting":
                self._driver.power_off(uuid)
        else:
            if migration.status == "reverting":
                self._driver.power_off(uuid)
            elif self._driver.power_state(uuid) is PowerState.RUNNING:
                raise errors.GuestStateUnexpected(f"The guest of instance {uuid} runs, but has not moved here")
            self._records.remove(uuid, migration.source_compute, migration.attempt)
        status = "reverted" if migration.status == "reverting" else "error"
        # The row names the source soon, and then nothing of the instance counts here.
        at_source = msgspec.structs.replace(move.instance, host=migration.source_compute, node=migration.source_node)
        ended = msgspec.structs.replace(migration, status=status)
        if not _is_local(migration) or status == "error":
            self._records.note(ctx, at_source, ended, migration.dest_node or "")
        return PhaseResult()

    def _leave(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """Removes what is left of an ended move. Unless the server is deleted, raises GuestStateUnexpected if a later attempt has
        brought it back, or if a guest runs here, and the row's host has not proven its own.
        """
        uuid, migration = move.instance.uuid, move.migration
        self._driver.stop_export(migration.uuid)
        if migration.is_live:
            self._driver.settle_live(uuid)
        if move.instance.host != self._host or move.instance.deleted:
            state = self._driver.power_state(uuid)
            paused_copy = migration.stayed and state is PowerState.PAUSED
            if state in ON and not paused_copy and not _is_proven(migration) and not move.instance.deleted:
                raise errors.GuestStateUnexpected(f"The guest of instance {uuid} runs here and at {move.instance.host}")
            last = None if move.instance.deleted else self._last_left(move)
            self._records.remove(uuid, move.instance.host, last)
        ended = _ENDED.get(migration.status, migration.status)
        own_node = migration.source_node if migration.source_compute == self._host else migration.dest_node
        self._records.note(ctx, move.instance, msgspec.structs.replace(migration, status=ended), own_node or "")
        return PhaseResult()

    def _last_left(self, move: MoveMessage) -> int:
        """Returns the last attempt that the server has left here. Moves that a restored database has lost may have come here, too: they
        are older than the guest of the row's host.
        """
        migration = move.migration
        brought_here = migration.dest_compute == self._host
        last = migration.attempt if brought_here else migration.attempt - 1
        return last if move.instance.host is None else max(last, move.instance.attempt - 1)

    # -- the guest -------------------------------------------------------------------------------------------------

    def _run(self, ctx: RequestContext, move: MoveMessage, node: str, check: CancelCheck) -> PhaseResult:
        """Defines the guest as its row says, and starts it if it ran before the move."""
        migration = move.migration
        runs = migration.old_vm_state is not VmState.STOPPED
        instance = self._vif_plug_waiter.bound(ctx, move.instance, migration.attempt, check)
        data = GuestData(availability_zone=move.availability_zone)
        stayed_off = migration.status == "reverted" and not runs
        self._driver.define_moved(instance, node, migration.attempt, data, stayed_off=stayed_off)
        self._records.note_settled(ctx, move.instance, migration, node)
        state = self._power_on(ctx, instance, migration, check) if runs else PowerState.SHUTDOWN
        self._records.keep(move.instance, migration, node, state)
        return PhaseResult(power_state=state)

    def _power_on(
        self, ctx: RequestContext, instance: Instance, migration: Migration, check: CancelCheck
    ) -> PowerState:
        if not self._vif_plug_waiter.must_wait(instance):
            return self._driver.power_on(instance)
        self._driver.power_on(instance, paused=True)
        self._vif_plug_waiter.wait(ctx, instance, migration.attempt, check)
        return self._driver.unpause(instance.uuid)

    def _result(self, instance_uuid: str) -> PhaseResult:
        return PhaseResult(power_state=self._driver.power_state(instance_uuid))


# What a migration is once its source has removed its copy.
_ENDED = {"confirming": "confirmed", "post-migrating": "completed"}


def _is_proven(migration: Migration) -> bool:
    """A live migration leaves its source after the destination has reported that the guest runs there."""
    return (
        migration.proven or migration.status in _PROVEN or (migration.is_live and migration.status == "post-migrating")
    )


def _memory_of(flavor: Flavor) -> tuple[int, int, int]:
    """Pages of the memory are in the swap."""
    return flavor.memory_mb, flavor.vcpus, flavor.swap


def _is_local(migration: Migration) -> bool:
    return migration.source == migration.dest
