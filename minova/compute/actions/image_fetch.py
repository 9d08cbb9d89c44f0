"""The image from which an action makes a disk."""

from pathlib import Path

from minova import errors
from minova.compute.actions.action_run import ActionEnded, ActionProgress, ActionRun
from minova.compute.images.source import ImageSource
from minova.compute.images.tokens import ImageToken
from minova.contracts.conductor import ConductorApi
from minova.objects.catalogue.image import Image
from minova.objects.servers.states import TaskState
from minova.virt.driver.domains import DomainDriver


class ImageFetch:
    def __init__(
        self, host: str, driver: DomainDriver, conductor: ConductorApi, images: ImageSource, progress: ActionProgress
    ) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._images = images
        self._progress = progress

    def __call__(self, run: ActionRun, image: Image, step: TaskState) -> Path | None:
        """Returns the file of the image, or None if the hypervisor needs none. A download reports that the action is in
        this step and goes on.
        """
        if not self._driver.needs_image():
            return None
        try:
            return self._images.fetch(image, self._progress.check(run, step), self._token(run, image))
        except errors.StaleAttempt as error:
            raise ActionEnded(str(error)) from error

    def require_there(self, run: ActionRun, image: Image) -> None:
        """Raises ImageDeleted if the image service does not have the image, ServiceUnavailable if it does not answer."""
        if not self._driver.needs_image():
            return
        try:
            self._images.require_there(image, self._token(run, image))
        except errors.ImageUnacceptable as error:
            raise errors.ImageDeleted(str(error)) from error

    def _token(self, run: ActionRun, image: Image) -> ImageToken:
        return ImageToken.of_build(
            lambda image_id: self._conductor.image_token(
                run.ctx, instance_uuid=run.instance.uuid, image_id=image_id, host=self._host
            ),
            image.id,
        )
