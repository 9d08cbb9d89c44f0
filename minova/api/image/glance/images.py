"""Images in Glance, for the Compute API and for computes.

user -> Compute API --the user's token--> Glance     the image: Glance decides who sees it
compute --a conductor's token--> minova-api --the service user's--> Glance     its bytes: no password is on a hypervisor
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import falcon
import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.image.changes import records
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.data import DEACTIVATED, OCTETS, chunks, requeue, saving
from minova.api.image.glance.client import GlanceClient
from minova.api.image.storage.removals import too_many
from minova.codecs import Decoder
from minova.context import RequestContext, service_context
from minova.db.api_queries import images
from minova.db.catalogue.images import PENDING_DELETE
from minova.objects.catalogue.image import Image
from minova.service import FailureLog

LOG = logging.getLogger(__name__)
SERVICE = "glance"
LOOK_AGAIN = 3600.0  # seconds
_CREATED = (
    "id",
    "name",
    "disk_format",
    "container_format",
    "min_disk",
    "min_ram",
    "visibility",
    "protected",
    "owner",
    "tags",
)
_IMAGE = Decoder(Image)
_FIELDS = frozenset(Image.__struct_fields__) - {"properties", "created_at", "updated_at", "tags"}
# Keys of Glance's documents that are neither fields nor properties of an image.
_OTHERS = frozenset(("self", "file", "schema", "locations", "direct_url", "stores", "created_at", "updated_at", "tags"))


class GlanceImages:
    """The counterpart of `minova.api.image.view.BuiltInImages` for Glance."""

    def __init__(self, client: GlanceClient) -> None:
        self._client = client

    def visible(self, session: Session, image_id: str, call: Call) -> Image | None:
        """Returns the image as the caller sees it. Raises ServiceUnavailable if Glance does not answer."""
        document = self._client.image(image_id, call.request.get_header("X-Auth-Token") or "")
        return None if document is None else image_of(document)

    def announce(self, call: Call, image: Image) -> Image:
        """Makes the image in Glance as the caller, so that a refusal reaches the caller at once."""
        self._client.create(document_of(image), call.request.get_header("X-Auth-Token") or "")
        return msgspec.structs.replace(image, service=SERVICE)

    def withdraw(self, call: Call, image: Image) -> None:
        try:
            self._client.delete(image.id)
        except errors.MinovaError as error:
            LOG.warning("Image %s is left in Glance, without data: %s", image.id, error)


def image_of(document: dict[str, Any]) -> Image:
    properties = {
        key: value for key, value in document.items() if key not in _FIELDS | _OTHERS and isinstance(value, str)
    }
    fields = {key: document[key] for key in (*_FIELDS, "tags") if document.get(key) is not None}
    at = {key: times.parse(document[key]) for key in ("created_at", "updated_at")}
    try:
        return _IMAGE.from_builtins({**fields, **at, "properties": properties})
    except msgspec.ValidationError as error:
        LOG.error("Glance shows an image that is none: %s", error)
        raise errors.ServiceUnavailable("The image service has sent an answer that is not an image.") from None


def document_of(image: Image) -> dict[str, Any]:
    """Returns the document of a new image for Glance."""
    own = {key: getattr(image, key) for key in _CREATED}
    properties = {key: value for key, value in image.properties.items() if not key.startswith("os_glance")}
    return {**properties, **{key: value for key, value in own.items() if value is not None}}


class GlanceData:
    """`/v2/images/{id}/file` with a token of a conductor, and the deletion of images that conductors have deleted.

    A record in minova's database tracks each image that minova makes in Glance: queued -> saving -> active, and
    pending_delete when its server or task does not need it any more. The lock on an empty `.part` file shows that an
    upload is in progress.
    """

    def __init__(self, client: GlanceClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._look_at = 0.0
        self._forgetting = FailureLog(
            "Removing records of images deleted in Glance", "No record of an image is removed"
        )

    def send(self, call: Call) -> None:
        image_id = call.path["image_id"]
        document = self._client.image(image_id)
        if document is None:
            raise errors.NotFound(f"No image found with ID {image_id[:255]}.")
        # Required here: Glance gives the service user the bytes of a deactivated image.
        if document["status"] == "deactivated":
            raise errors.Forbidden(DEACTIVATED)
        if document["status"] != "active":
            call.response.status = falcon.HTTP_204
            return
        data = self._client.data(image_id)
        call.response.content_type = OCTETS
        if data.length is None:
            call.response.stream = data
        else:
            call.response.set_stream(data, data.length)

    def receive(self, api: ImageApiCollaborators, call: Call, image: Image) -> None:
        """Takes an upload. Its repetition after a lost answer finds the image active in Glance."""
        with api.store.begin(image.id) as coming:
            records.change(api, call.ctx, image.id, saving)
            try:
                self._client.upload(image.id, chunks(call.request))
                glance_image = self._image_with(image.id)
                records.change(api, call.ctx, image.id, lambda current: _active(current, glance_image))
            except errors.NotFound:
                # The owner of the image has deleted it meanwhile.
                self._forget(api, call.ctx, image.id)
                raise
            except BaseException:
                coming.keep = not requeue(api, call.ctx, image.id)
                raise

    def _image_with(self, image_id: str) -> Image:
        document = self._client.image(image_id)
        if document is None:
            raise errors.NotFound(f"No image found with ID {image_id[:255]}.")
        return image_of(document)

    def recover(self, api: ImageApiCollaborators) -> None:
        """Deletes the images in Glance that are pending_delete. Once an hour, deletes the records of images that users
        have deleted there, unless that is more than [api] max_automatic_image_removals: then Glance itself may be wrong.
        """
        with api.db.read() as session:
            tracked = images.of_service(session, SERVICE)
        for image in tracked:
            if image.status == PENDING_DELETE:
                self._client.delete(image.id)
                self._forget(api, service_context(), image.id)
        if self._clock() < self._look_at:
            return
        missing_ids = [
            image.id for image in tracked if image.status == "active" and self._client.image(image.id) is None
        ]
        most = api.conf.api.max_automatic_image_removals
        if most and len(missing_ids) > most:
            self._forgetting.failed(too_many(len(missing_ids), most), level=logging.ERROR)
        else:
            for image_id in missing_ids:
                self._forget(api, service_context(), image_id)
            self._forgetting.worked()
        self._look_at = self._clock() + LOOK_AGAIN

    def _forget(self, api: ImageApiCollaborators, ctx: RequestContext, image_id: str) -> None:
        with suppress(errors.NotFound):
            api.conductor.delete_image(ctx, image_id=image_id)
            LOG.info("The record of image %s is removed, which is deleted in Glance", image_id)


def _active(image: Image, glance_image: Image) -> Image:
    """Returns the active image with the facts about its bytes that a host needs before it boots from them."""
    if image.status == "active":
        return image
    if image.status != "saving":
        # The task has ended meanwhile, and the image is to be deleted.
        raise errors.Conflict(f"Image {image.id} takes no data: its status is {image.status}, not saving.")
    facts = {
        key: getattr(glance_image, key) for key in ("size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value")
    }
    return msgspec.structs.replace(image, **facts, status="active")
