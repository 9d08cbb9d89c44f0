"""Calls of computes about the bytes of images."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.hosts.bounds import Line


@BY_COMPUTES
class ImageTokensApi(Protocol):
    @call(since="1.7")
    def image_token(self, ctx: RequestContext, *, instance_uuid: Line, image_id: Line, host: Line) -> str:
        """Returns a fresh token for the download of an image that the instance or its open build on this host uses.

        Raises StaleAttempt if neither uses this image on this host.
        """
        ...

    @call(since="1.7")
    def image_upload_token(self, ctx: RequestContext, *, instance_uuid: Line, image_id: Line, host: Line) -> str:
        """Returns a fresh token for the upload of the image that this host is making from the instance.

        Raises StaleAttempt if it makes no such image. Raises ImageDeleted if the image was deleted meanwhile. Raises
        Conflict if all its bytes have arrived, so that the action is done.
        """
        ...
