"""Fetches the base images of existing disks again, after someone or something has removed them from this host.

A base image has the digest of its content as its name, so the image of the server is the right one only if it has that
digest; the image cache compares the digest of what it fetches.
"""

import logging
from collections.abc import Callable

import msgspec

from minova import errors
from minova.compute.images.source import ImageSource
from minova.compute.images.tokens import ImageToken
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.servers.instance import Instance
from minova.virt.driver.disks import DiskDriver

LOG = logging.getLogger(__name__)


class BaseImages:
    def __init__(self, host: str, driver: DiskDriver, conductor: ConductorApi, images: ImageSource) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._images = images

    def restore(self, ctx: RequestContext, instance: Instance, check: Callable[[], None] = lambda: None) -> None:
        """Fetch the base image of the instance's root disk if it is gone. `check` is called several times a second
        meanwhile; an exception of it ends the wait.

        Raises BaseImageLost if the image service does not have it, StaleAttempt if the instance is not of this host any
        more, DiskFull or ServiceUnavailable.
        """
        lost_base = self._driver.lost_base(instance.uuid)
        if lost_base is None:
            return
        advice = (
            f"Put a file with this digest there, or rebuild the server: the disk of instance {instance.uuid} needs it"
        )
        image = instance.image
        if image is None or image.os_hash_value != lost_base.name:
            raise errors.BaseImageLost(f"{lost_base} is gone, and the image of the server is another one. {advice}")
        image_id = image.id
        token = ImageToken(
            None,
            lambda: self._conductor.image_token(ctx, instance_uuid=instance.uuid, image_id=image_id, host=self._host),
        )
        LOG.warning(
            "%s is gone, on which the disk of instance %s is based: it is fetched again", lost_base, instance.uuid
        )
        try:
            # The kernel of the guest is beside its disks.
            self._images.fetch(msgspec.structs.replace(image, kernel=None, ramdisk=None), check, token)
        except (errors.ImageUnacceptable, errors.NotFound) as error:
            raise errors.BaseImageLost(f"{lost_base} is gone and cannot be fetched: {error} {advice}") from error
        if self._driver.lost_base(instance.uuid) is not None:
            raise errors.BaseImageLost(f"{lost_base} is gone, and images are kept elsewhere now. {advice}")
