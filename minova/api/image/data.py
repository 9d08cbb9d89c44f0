"""`/v2/images/{id}/file`: uploads and downloads of the bytes, as streams."""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import IO, NamedTuple, TypeVar

import falcon
import msgspec
from oslo_utils import units

from minova import errors
from minova.api.http.body import media_type
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.image import images
from minova.api.image.changes import records
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.store import CHUNK_BYTES, Digest, Upload
from minova.context import RequestContext
from minova.db import quotas
from minova.db.api_queries import images as image_rows
from minova.image_format import inspection
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.quota import UNLIMITED

LOG = logging.getLogger(__name__)
T = TypeVar("T")

OCTETS = "application/octet-stream"
HASH = "sha256"
SIZE = "image_size_total"
# Bytes that an upload of unknown length reserves at a time, if the quota has room for so many.
STEP = 32 * units.Mi
# Tries to tell the conductor of an upload. Each may take until the call's time-out.
TRIES = 3
DEACTIVATED = "The requested image has been deactivated. Image data download is forbidden."


class WrongMedia(errors.MinovaError):
    code = 415


class ClientGone(errors.BadRequest):
    """The upload ended before its announced length. The client has gone, so it does not read the answer."""


class OutOfRange(errors.MinovaError):
    code = 416


def upload(api: ImageApiCollaborators, call: Call) -> None:
    receive(api, call, images.find_for(api, call))


def upload_with_token(api: ImageApiCollaborators, call: Call) -> None:
    """The same as `upload`, for a compute that makes this image of a server.

    A token allows one upload: after it, the image is active.
    """
    image = _of_token(api, call)
    if api.remote is not None:
        check_ready(image, call)
        api.remote.receive(api, call, image)
        return
    receive(api, call, image)


def receive(api: ImageApiCollaborators, call: Call, image: Image, after: str = "active") -> None:
    """Takes an upload: queued -> saving -> `after`. After any error the image is queued again and no bytes are left."""
    check_ready(image, call)
    with api.store.begin(image.id, call.request.content_length) as coming:
        try:
            image = records.change(
                api, call.ctx, image.id, partial(_saving, announced=call.request.content_length or 0)
            )
        except errors.ServiceUnavailable:
            # The image may be in status saving: recovery finds it by this file.
            coming.keep = True
            raise
        try:
            take(api, call.ctx, image, coming, chunks(call.request), "saving", after)
        except BaseException:
            coming.keep = not requeue(api, call.ctx, image.id)
            raise


def saving(image: Image) -> Image:
    """Returns the image in status saving. Raises Conflict or BadRequest if it cannot take data."""
    if image.status != "queued":
        raise errors.Conflict(_takes_none(image))
    if image.disk_format is None or image.container_format is None:
        raise errors.BadRequest(f"Properties disk_format and container_format of image {image.id} must be set first.")
    return msgspec.structs.replace(image, status="saving")


def _saving(image: Image, announced: int) -> Image:
    return msgspec.structs.replace(saving(image), reserved=announced)


def take(
    api: ImageApiCollaborators,
    ctx: RequestContext,
    image: Image,
    coming: Upload,
    source: Iterator[bytes],
    before: str,
    after: str = "active",
) -> None:
    """Writes and checks the bytes of an image, and changes its status from `before` to `after`."""
    digest = coming.write(_within_quota(api, ctx, image, source))
    facts = inspection.inspect(coming.path, image.disk_format or "")
    coming.commit()
    _finish(api, ctx, image.id, Facts(digest, facts.virtual_size, before, after))


class Facts(NamedTuple):
    """The facts about an image's bytes when all have arrived, and its status before and after that."""

    digest: Digest
    virtual_size: int
    before: str
    after: str

    def given_to(self, image: Image) -> Image:
        """Returns the image with these facts. Raises Conflict if it does not wait for bytes.

        An image that has these facts already stays unchanged: the call was repeated.
        """
        digest = self.digest
        if (image.status, image.os_hash_value) == (self.after, digest.sha256):
            return image
        if image.status != self.before:
            raise errors.Conflict(_takes_none(image))
        return msgspec.structs.replace(
            image,
            status=self.after,
            reserved=0,
            size=digest.size,
            virtual_size=self.virtual_size,
            checksum=digest.md5,
            os_hash_algo=HASH,
            os_hash_value=digest.sha256,
        )


def _within_quota(
    api: ImageApiCollaborators, ctx: RequestContext, image: Image, data: Iterator[bytes]
) -> Iterator[bytes]:
    """Reserves bytes of the owner's quota before they are written. Raises Forbidden if it has no room."""
    with api.db.read() as session:
        is_limited = quotas.limits_of(session, api.conf, image.owner or "")[SIZE] != UNLIMITED
    size, reserved = 0, image.reserved
    for chunk in data:
        size += len(chunk)
        if is_limited and size > reserved:
            reserved = _reserve(api, ctx, image, size)
        yield chunk


def _reserve(api: ImageApiCollaborators, ctx: RequestContext, image: Image, size: int) -> int:
    """Returns the bytes that are reserved now: STEP more than needed, or as many as needed."""
    try:
        return reserve(api, ctx, image, size + STEP).reserved
    except errors.Forbidden:
        return reserve(api, ctx, image, size).reserved


def reserve(api: ImageApiCollaborators, ctx: RequestContext, image: Image, size: int) -> Image:
    """Raises Forbidden if the quota has no room, Conflict or NotFound if the image no longer waits for its bytes."""

    def reserving(current: Image) -> Image:
        if current.status != image.status:
            raise errors.Conflict(_takes_none(current))
        return msgspec.structs.replace(current, reserved=size)

    reserved_image = repeated(lambda: records.change(api, ctx, image.id, reserving))
    # A conductor of the last release reserves nothing.
    return msgspec.structs.replace(reserved_image, reserved=size)


def repeated(work: Callable[[], T]) -> T:
    """Repeats a change of a record if its answer is lost."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except errors.ServiceUnavailable as error:
            LOG.info("The change of an image is tried again: %s", error)
    return work()


def check_ready(image: Image, call: Call) -> None:
    if media_type(call.request) != OCTETS:
        raise WrongMedia(f"Content-Type must be {OCTETS}.")
    saving(image)


def _takes_none(image: Image) -> str:
    return f"Image {image.id} takes no data: its status is {image.status}, not queued."


def _finish(api: ImageApiCollaborators, ctx: RequestContext, image_id: str, facts: Facts) -> None:
    """Reports the upload to the conductor."""
    try:
        api.store.keep_record(repeated(lambda: records.change(api, ctx, image_id, facts.given_to)))
    except errors.Forbidden:
        # The quota has been used up meanwhile: these bytes never become an image.
        api.store.delete(image_id)
        raise
    except errors.NotFound:
        # The image was deleted during the upload, when it had no bytes to delete yet. If the database has no
        # record of its deletion either, it has lost the image, and the bytes stay.
        with api.db.read() as session:
            was_deleted = image_rows.deleted_ids(session, [image_id])
        if was_deleted:
            api.store.delete(image_id)
        raise


def requeue(
    api: ImageApiCollaborators,
    ctx: RequestContext,
    image_id: str,
    before: str = "saving",
    more: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Queues an image again. Returns whether it is certainly no longer in status `before`.

    `more`: properties that the image gets.
    """

    def queued(image: Image) -> Image:
        if image.status != before:
            return image
        return msgspec.structs.replace(image, status="queued", reserved=0, properties={**image.properties, **more})

    try:
        records.change(api, ctx, image_id, queued)
    except errors.NotFound:
        return True
    except Exception as error:  # noqa: BLE001  - recovery repeats it later
        LOG.warning("Image %s stays in status %s for now: %s", image_id, before, error)
        return False
    return True


def chunks(request: falcon.Request) -> Iterator[bytes]:
    """Yields the body in chunks. Raises ClientGone if it ends early."""
    expected, size = request.content_length, 0
    while True:
        try:
            chunk = request.stream.read(CHUNK_BYTES)
        except (OSError, ValueError) as error:
            raise ClientGone(f"The upload was broken off: {error}") from None
        if not chunk:
            break
        size += len(chunk)
        yield chunk
    if expected is not None and size < expected:
        raise ClientGone(f"The upload was broken off after {size} of {expected} bytes.")


def download(api: ImageApiCollaborators, call: Call) -> None:
    """Answers 204 if there are no bytes yet; with a Range header, sends a part of the bytes."""
    visible = images.find(api, call)
    # Before the policy, as in Glance: this refusal is more specific.
    if visible.image.status == "deactivated" and not call.ctx.is_admin:
        raise errors.Forbidden(DEACTIVATED)
    call.require_for(images.target_of(call, visible))
    _send(api, call, visible.image)


def download_with_token(api: ImageApiCollaborators, call: Call) -> None:
    """The same as `download`, for a compute: its token has proved that it may have this image."""
    if api.remote is not None:
        api.remote.send(call)
        return
    image = _of_token(api, call)
    if image.status == "deactivated":
        raise errors.Forbidden(DEACTIVATED)
    _send(api, call, image)


def _of_token(api: ImageApiCollaborators, call: Call) -> Image:
    with api.db.read() as session:
        image = image_rows.image(session, call.path["image_id"])
    if image is None:
        raise errors.NotFound(f"No image found with ID {call.path['image_id'][:255]}.")
    return image


def _send(api: ImageApiCollaborators, call: Call, image: Image) -> None:
    response = call.response
    if image.status not in ("active", "deactivated"):
        response.status = falcon.HTTP_204
        return
    size = image.size or 0
    start, end = _range(call.request, size)
    file = api.store.open(image.id)
    file.seek(start)
    response.content_type = OCTETS
    response.set_header("Accept-Ranges", "bytes")
    if (start, end) != (0, size):
        response.status = falcon.HTTP_206
        response.set_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
    elif image.checksum:
        response.set_header("Content-MD5", image.checksum)
    response.set_stream(_Part(file, end - start), end - start)


class ByteRange(NamedTuple):
    """`end` is the first byte after the range."""

    start: int
    end: int


def _range(request: falcon.Request, size: int) -> ByteRange:
    """Returns the requested range. A malformed Range header means the whole file, as in RFC 9110."""
    try:
        span = request.range
    except falcon.HTTPError:
        return ByteRange(0, size)
    if span is None or request.range_unit != "bytes":
        return ByteRange(0, size)
    first, last = span
    if first < 0:
        start, end = max(size + first, 0), size
    else:
        start, end = first, size if last < 0 else min(last + 1, size)
    if start >= end:
        raise OutOfRange(f"The range lies outside of the {size} bytes of this image.")
    return ByteRange(start, end)


class _Part:
    """The next `left` bytes of a file, in chunks. The server closes it at the end."""

    def __init__(self, file: IO[bytes], left: int) -> None:
        self._file = file
        self._left = left

    def read(self, amount: int | None = None, /) -> bytes:
        byte_count = min(self._left, max(amount or 0, CHUNK_BYTES))
        data = self._file.read(byte_count)
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._file.close()


ROUTES: tuple[Route, ...] = (
    Route(method="PUT", path="/v2/images/{image_id}/file", rule="upload_image", handler=upload, status=204),
    Route(method="GET", path="/v2/images/{image_id}/file", rule="download_image", handler=download),
)
