"""The operations of server actions on the host: one for each kind in `objects/actions/table.py`, in the module of its
family.

An operation may begin again after an interruption, so each first checks the existing state, or calls a driver method
that does. It returns the guest's power state when it is done.

An operation that has waited for its guest or for an image calls `ActionRun.confirm` before each further step that changes
the guest: the action may have ended meanwhile. Preparations before the first such step run inside `ActionRun.preparing`.
"""

from collections.abc import Mapping

from oslo_config import cfg

from minova import errors
from minova.compute.actions.action_run import ActionEnded, ActionProgress, ActionRun, Operation
from minova.compute.actions.deletion import GuestDeletion
from minova.compute.actions.image_fetch import ImageFetch
from minova.compute.actions.images import Snapshots
from minova.compute.actions.interfaces import GuestInterfaces
from minova.compute.actions.password import GuestPassword
from minova.compute.actions.power import GuestPower
from minova.compute.actions.rebuild import GuestRebuild
from minova.compute.actions.rescue import GuestRescue
from minova.compute.actions.shelving import DiskRemover, GuestShelving
from minova.compute.guest_secrets import HostSecrets
from minova.compute.images.source import ImageSource
from minova.compute.instances.base_images import BaseImages
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.table import BY_KIND
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver


class Operations:
    """Safe for threads."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: str,
        driver: ComputeDriver,
        conductor: ConductorApi,
        images: ImageSource,
        snapshots: Snapshots,
        progress: ActionProgress,
        disks: DiskRemover,
        secrets: HostSecrets,
        vif_plug_waiter: VifPlugWaiter | None = None,
        bases: BaseImages | None = None,
    ) -> None:
        self._bases = bases or BaseImages(host, driver, conductor, images)
        waiter = vif_plug_waiter or VifPlugWaiter(host, conductor)
        power = GuestPower(conf, driver, waiter)
        fetch = ImageFetch(host, driver, conductor, images, progress)
        self._by_kind: Mapping[str, Operation] = {
            **power.operations(),
            **GuestRescue(driver, power, fetch, waiter).operations(),
            **GuestRebuild(driver, power, fetch).operations(),
            **GuestPassword(driver, power).operations(),
            **GuestInterfaces(driver, power, progress, waiter).operations(),
            **snapshots.operations(),
            **GuestShelving(driver, power, snapshots, disks, secrets, fetch).operations(),
            **GuestDeletion(power).operations(),
        }

    def run(self, kind: str, run: ActionRun) -> PowerState:
        """Raises the errors of the driver."""
        if BY_KIND[kind].opens_disk:
            self._restore_base(run)
        return self._by_kind[kind](run)

    def _restore_base(self, run: ActionRun) -> None:
        """Fetch a base image that is gone, before the guest is changed: one that runs has the file still open."""
        with run.preparing():
            try:
                self._bases.restore(run.ctx, run.instance, run.require_wanted)
            except errors.StaleAttempt as error:
                raise ActionEnded(str(error)) from error
