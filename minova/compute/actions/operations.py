"""The operations of server actions on the host: one for each kind in `objects/actions/table.py`.

An operation may begin again after an interruption, so each first checks the existing state, or calls a driver method
that does. It returns the guest's power state when it is done.

An operation that has waited for its guest or for an image calls `Order.confirm` before each further step that changes
the guest: the action may have ended meanwhile. Preparations before the first such step run inside `Order.preparing`.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from oslo_config import cfg

from minova import errors
from minova.compute.actions.orders import ActionEnded, Order, Progress
from minova.compute.actions.snapshots import Snapshots, Steps
from minova.compute.images.tokens import ImageToken
from minova.compute.instances.base_images import BaseImages
from minova.compute.instances.builds import Images, checked_file
from minova.compute.instances.clean_stops import shutdown_timeout
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.deletion import RESTORE, SOFT_DELETE
from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.actions.password import CHANGE_PASSWORD
from minova.objects.actions.power import (
    PAUSE,
    REBOOT_HARD,
    REBOOT_SOFT,
    RESUME,
    START,
    STOP,
    SUSPEND,
    TRIGGER_CRASH_DUMP,
    UNPAUSE,
)
from minova.objects.actions.power_rules import ON
from minova.objects.actions.rebuild import REBUILD
from minova.objects.actions.rescue import RESCUE, UNRESCUE
from minova.objects.actions.shelving import SHELVE, SHELVE_OFFLOAD, UNSHELVE
from minova.objects.actions.table import ACTIONS
from minova.objects.catalogue.image import Image
from minova.objects.network.vif import Vif
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, TaskState, VmState
from minova.virt.driver import Driver
from minova.virt.driver.domains import GuestData

LOG = logging.getLogger(__name__)

Operation = Callable[[Order], PowerState]
_OPEN_THE_DISK = frozenset(action.kind for action in ACTIONS if action.opens_disk)


class Disks(Protocol):
    """Removes guests."""

    def remove_disks(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Remove the domain and the disks, and free their resources on the host. Idempotent. Raises the errors of the
        driver.
        """
        ...

    def was_shelved_suspended(self, instance_uuid: str) -> bool:
        """Whether the user has shelved the server while it was suspended: its saved memory may go with its disk."""
        ...


class Operations:
    """Safe for threads."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: str,
        driver: Driver,
        conductor: ConductorApi,
        images: Images,
        snapshots: Snapshots,
        progress: Progress,
        disks: Disks,
        vif_plug_waiter: VifPlugWaiter | None = None,
        bases: BaseImages | None = None,
    ) -> None:
        self._conf = conf
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._images = images
        self._progress = progress
        self._snapshots = snapshots
        self._disks = disks
        self._vif_plug_waiter = vif_plug_waiter or VifPlugWaiter(host, conductor)
        self._bases = bases or BaseImages(host, driver, conductor, images)
        self._by_kind: Mapping[str, Operation] = {
            STOP.kind: self._stop,
            START.kind: self._start,
            REBOOT_SOFT.kind: self._reboot_soft,
            REBOOT_HARD.kind: self._hard_reboot,
            PAUSE.kind: lambda order: driver.pause(order.instance.uuid),
            UNPAUSE.kind: lambda order: driver.unpause(order.instance.uuid),
            SUSPEND.kind: lambda order: driver.suspend(order.instance.uuid),
            RESUME.kind: lambda order: driver.resume(order.instance),
            RESCUE.kind: self._rescue,
            UNRESCUE.kind: self._hard_reboot,
            REBUILD.kind: self._rebuild,
            TRIGGER_CRASH_DUMP.kind: lambda order: driver.inject_nmi(order.instance.uuid),
            CHANGE_PASSWORD.kind: self._change_password,
            ATTACH_INTERFACE.kind: self._attach_interface,
            DETACH_INTERFACE.kind: self._detach_interface,
            SOFT_DELETE.kind: self._stop,
            RESTORE.kind: self._start,
            CREATE_IMAGE.kind: snapshots.take,
            CREATE_BACKUP.kind: snapshots.take,
            SHELVE.kind: self._shelve,
            SHELVE_OFFLOAD.kind: self._offload,
            UNSHELVE.kind: self._start,
        }

    def run(self, kind: str, order: Order) -> PowerState:
        """Raises the errors of the driver."""
        if kind in _OPEN_THE_DISK:
            self._restore_base(order)
        return self._by_kind[kind](order)

    def _restore_base(self, order: Order) -> None:
        """Fetch a base image that is gone, before the guest is changed: one that runs has the file still open."""
        with order.preparing():
            try:
                self._bases.restore(order.ctx, order.instance, order.require_wanted)
            except errors.StaleAttempt as error:
                raise ActionEnded(str(error)) from error

    def _start(self, order: Order) -> PowerState:
        """As in Nova, a guest that is off is defined anew: whatever domain was left, it runs as its instance says, and from
        its own disk, though it may have been rescued before. Unlike Nova, one whose memory is saved goes on from it, and
        one that runs already is left running: an earlier request has started it.
        """
        runs = self._driver.power_state(order.instance.uuid) is PowerState.RUNNING
        # The driver leaves it running, too, unless a job that will end the guest has begun.
        state = self._driver.start(self._vif_plug_waiter.bound_if_lost(order.ctx, order.instance))
        if runs:
            LOG.info("Instance %s runs already, and is left running", order.instance.uuid)
            order.kept = True
        return state

    def _stop(self, order: Order) -> PowerState:
        self._power_off(order)
        return self._power_state(order.instance.uuid)

    def _reboot_soft(self, order: Order) -> PowerState:
        """As in Nova: the guest shuts itself down and is started again. A guest that does not shut down in time is
        rebooted hard.
        """
        timeout = float(self._conf.libvirt.wait_soft_reboot_seconds)
        is_down = self._driver.shut_down(order.instance.uuid, timeout, order.cancelled)
        order.confirm()
        if is_down:
            return self._driver.power_on(order.instance)
        LOG.info("Instance %s has not shut down within %g s: it is rebooted hard", order.instance.uuid, timeout)
        return self._hard_reboot(order)

    def _hard_reboot(self, order: Order) -> PowerState:
        return self._driver.hard_reboot(self._vif_plug_waiter.bound_if_lost(order.ctx, order.instance))

    def _rescue(self, order: Order) -> PowerState:
        """Prepare the rescue disk first: if that fails, the guest is left as it is."""
        instance = self._vif_plug_waiter.bound_if_lost(order.ctx, order.instance)
        image: Image | None = order.arguments.rescue_image or instance.image
        with order.preparing():
            if image is None:
                raise errors.ImageUnacceptable(f"Instance {instance.uuid} has no image that could rescue it")
            self._driver.prepare_rescue(instance, image, self._fetch(order, image, TaskState.RESCUING))
            order.confirm()
        self._power_off(order)
        order.confirm()
        return self._driver.rescue(instance)

    def _rebuild(self, order: Order) -> PowerState:
        """Fetch the image first: if that fails, the guest is left as it is. Once the guest is off, report to the
        conductor that the disks change: until then the conductor keeps the old image and attributes, to restore them.
        """
        instance, waiting = order.instance, TaskState.REBUILD_BLOCK_DEVICE_MAPPING
        image = instance.image
        with order.preparing():
            if image is None:
                raise errors.ImageUnacceptable(f"Instance {instance.uuid} has no image")
            path = checked_file(image, instance.flavor, lambda: self._fetch(order, image, waiting))
            order.confirm(waiting)
        self._power_off(order, waiting)
        order.confirm()
        order.step = TaskState.REBUILD_SPAWNING.value
        data = GuestData(
            availability_zone=order.arguments.availability_zone,
            admin_password=order.arguments.admin_password,
            files=order.arguments.injected_files,
        )
        self._driver.rebuild(instance, path, data)
        if instance.vm_state is VmState.STOPPED:
            return self._power_state(instance.uuid)
        return self._driver.power_on(instance)

    def _shelve(self, order: Order) -> PowerState:
        """Power off first, as in Nova, so that the image contains everything. A paused guest cannot shut itself
        down. Raises SavedMemoryKept if the guest's memory is saved although the server is not suspended: a suspend has
        ended late.
        """
        begun, pending, uploading = SHELVE.progress
        if order.instance.vm_state is VmState.PAUSED:
            self._driver.power_off(order.instance.uuid)
        else:
            self._power_off(order, begun)
        order.confirm(begun)
        if order.instance.vm_state is not VmState.SUSPENDED:
            with order.preparing():
                self._require_no_saved_memory(order.instance.uuid)
        return self._snapshots.take(order, Steps(pending, uploading))

    def _offload(self, order: Order) -> PowerState:
        """Remove everything of the guest but its image. Raises Conflict if the guest runs: its disk is newer then. Raises
        SavedMemoryKept if an overlay of a snapshot is open beside its disk, which may have later writes than the image.
        Raises SavedMemoryKept if its memory is saved, unless the user has shelved it while it was suspended.
        """
        uuid = order.instance.uuid
        with order.preparing():
            if self._driver.power_state(uuid) in ON:
                raise errors.Conflict(f"instance {uuid} runs, so its disk is newer than the image of its shelving")
            if self._driver.has_open_snapshot(uuid):
                raise errors.SavedMemoryKept(
                    f"A snapshot of instance {uuid} is not committed to its disk, and the image of its shelving may be older. "
                    "Unshelve the server to go on from it"
                )
            if not self._disks.was_shelved_suspended(uuid):
                self._require_no_saved_memory(uuid)
        self._driver.power_off(uuid)
        self._disks.remove_disks(order.ctx, uuid)
        return PowerState.SHUTDOWN

    def _require_no_saved_memory(self, instance_uuid: str) -> None:
        if self._driver.has_saved_memory(instance_uuid):
            raise errors.SavedMemoryKept(
                f"The memory of instance {instance_uuid} is saved, and the server is not suspended. Start or unshelve the "
                "server to go on from it, or delete it"
            )

    def _change_password(self, order: Order) -> PowerState:
        """As in Nova, refuse a guest that was paused or powered off outside minova."""
        uuid = order.instance.uuid
        state = self._power_state(uuid)
        if state is not PowerState.RUNNING:
            raise errors.GuestNotRunning(f"instance {uuid} is not running")
        self._driver.set_admin_password(order.instance, order.arguments.admin_password or "")
        return state

    def _attach_interface(self, order: Order) -> PowerState:
        instance = order.instance
        vif = _vif_of(order)
        if vif is not None and vif.from_neutron:
            with order.preparing():
                instance = self._vif_plug_waiter.bound(order.ctx, instance, instance.attempt)
            vif = _vif_of(order, instance)
        if vif is None:
            raise errors.PortNotFound(f"Port {order.arguments.port_id} could not be found.")
        try:
            return self._driver.attach_interface(instance, vif)
        except Exception as error:
            # The addresses of the interface stay taken unless it is certain that the guest does not have the interface.
            order.untouched = not self._may_have(instance.uuid, vif, error)
            raise

    def _may_have(self, instance_uuid: str, vif: Vif, error: Exception) -> bool:
        if vif.from_neutron:  # the driver's interfaces do not include it
            return not isinstance(error, errors.InterfaceAttachFailed | errors.HardwareNotOffered)
        try:
            return vif.mac_address in {each.mac_address for each in self._driver.interfaces(instance_uuid)}
        except errors.NotFound:
            return False
        except errors.MinovaError as unknown:
            LOG.warning("Whether instance %s has interface %s is not known: %s", instance_uuid, vif.port_id, unknown)
            return True

    def _detach_interface(self, order: Order) -> PowerState:
        vif = _vif_of(order)
        if vif is None:
            return self._power_state(order.instance.uuid)
        # The guest has to release the interface. The operator configures how long to try; that may be longer than an
        # action may take.
        return self._driver.detach_interface(order.instance.uuid, vif, self._progress.waiting(order))

    def _fetch(self, order: Order, image: Image, step: TaskState) -> Path | None:
        """Returns the file of the image, or None if the hypervisor needs none. A download reports that the action is in
        this step and goes on.
        """
        if not self._driver.needs_image():
            return None
        instance, image_id = order.instance, image.id
        token = ImageToken(
            None,
            lambda: self._conductor.image_token(
                order.ctx, instance_uuid=instance.uuid, image_id=image_id, host=self._host
            ),
        )
        try:
            return self._images.fetch(image, self._progress.check(order, step), token)
        except errors.StaleAttempt as error:
            raise ActionEnded(str(error)) from error

    def _power_off(self, order: Order, step: TaskState | None = None) -> None:
        """Power off after the guest has had its time to shut itself down. Raises ActionEnded if the action is not
        wanted any more; the guest may be off then.

        `step`: see `Order.confirm`.
        """
        uuid = order.instance.uuid
        timeout = shutdown_timeout(order.instance, self._conf.shutdown_timeout)
        if timeout > 0:
            is_down = self._driver.shut_down(uuid, timeout, order.cancelled)
            order.require_wanted()
            if is_down:
                return
            order.confirm(step)
        self._driver.power_off(uuid)

    def _power_state(self, instance_uuid: str) -> PowerState:
        return self._driver.power_state(instance_uuid) or PowerState.SHUTDOWN


def _vif_of(order: Order, instance: Instance | None = None) -> Vif | None:
    """Returns the interface of the port, or None if the instance has none."""
    return next(
        (vif for vif in (instance or order.instance).network_info if vif.port_id == order.arguments.port_id), None
    )
