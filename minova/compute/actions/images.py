"""Images of servers: the driver writes the root disk into a file of this host, which is then uploaded to the image
service.

    token (is the image still wanted?) -> image_pending_upload -> driver.snapshot -> image_uploading -> upload -> file removed

An interrupted host repeats all of it: the file belongs to this host alone, and the image accepts bytes only once.
"""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from oslo_config import cfg

from minova import errors
from minova.compute.actions.action_run import PATIENCE, ActionEnded, ActionProgress, ActionRun, Operation
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.images.tokens import ImageToken
from minova.compute.images.uploads import Uploads
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import PowerState, TaskState
from minova.private_files import make_folder
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)
FOLDER = "snapshots"


class Steps(NamedTuple):
    """The task states while the disk is written into a file, and while the file is uploaded."""

    pending: TaskState
    uploading: TaskState


_OF_SNAPSHOTS = Steps(TaskState.IMAGE_PENDING_UPLOAD, TaskState.IMAGE_UPLOADING)


class Snapshots:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: str,
        driver: ComputeDriver,
        conductor: ConductorApi,
        uploads: Uploads,
        progress: ActionProgress,
        *,
        repeat: ConductorRetry | None = None,
    ) -> None:
        # Hosts may share the folder of instances.
        self._folder = Path(conf.instances_path) / FOLDER / f"on-{host}"
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._uploads = uploads
        self._repeat = repeat or ConductorRetry()
        self._progress = progress

    def operations(self) -> Mapping[str, Operation]:
        return {CREATE_IMAGE.kind: self.take, CREATE_BACKUP.kind: self.take}

    def clean(self) -> None:
        """Remove files that an earlier process left. Called at the start."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def take(self, run: ActionRun, steps: Steps = _OF_SNAPSHOTS) -> PowerState:
        """Make the image and upload it. `steps` are the task states to report.

        Raises ActionEnded if the action is not wanted any more, ImageDeleted, DiskFull, ServiceUnavailable.
        """
        image = run.arguments.image
        assert image is not None
        uuid = run.instance.uuid
        try:
            self._make(run, image, steps)
            LOG.info("Image %s of instance %s is uploaded", image.id, uuid)
        except errors.StaleAttempt as error:
            raise ActionEnded(str(error)) from error
        except errors.Conflict:
            LOG.info("Image %s of instance %s was uploaded before", image.id, uuid)
        return self._driver.power_state(uuid) or PowerState.SHUTDOWN

    def _make(self, run: ActionRun, image: Image, steps: Steps) -> None:
        """Raises Conflict if the image was made before."""
        uuid = run.instance.uuid
        token = ImageToken(None, lambda: self._token(run, image))
        token.fresh()
        path = self._folder / uuid
        make_folder(self._folder)
        try:
            self._driver.snapshot(run.instance, path, self._progress.check(run, steps.pending))
            self._uploads.upload(image, path, token, self._progress.check(run, steps.uploading))
        finally:
            path.unlink(missing_ok=True)

    def _token(self, run: ActionRun, image: Image) -> str:
        ask = lambda: self._conductor.image_upload_token(  # noqa: E731
            run.ctx, instance_uuid=run.instance.uuid, image_id=image.id, host=self._host
        )
        return self._repeat("image_upload_token", ask, PATIENCE)
