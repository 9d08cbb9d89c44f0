"""`/v2/images/{id}/stage` and `/import`: uploads an image's bytes in two steps, or downloads them from an address that
the user gives. There are no tasks.

stage:         queued -> saving -> uploading       the bytes have come and are checked; they are not served
glance-direct:                     uploading -> active
web-download:  queued -> importing -> active       in the background; queued again after any error
"""

import logging
import threading
from typing import Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.image import data, images
from minova.api.image.changes import records
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.importing import guard, web
from minova.api.image.store import Upload
from minova.api.image.view import ImageAnswer
from minova.api.policies.base import AUTHENTICATED
from minova.concurrency.fair_shares import NoPlace, SharedPlaces
from minova.context import RequestContext
from minova.objects.catalogue.image import Image

LOG = logging.getLogger(__name__)

DIRECT, WEB = "glance-direct", "web-download"
# Downloads at the same time, per worker of minova-api: as many for one project, some more for several (see FairShares).
MAX_DOWNLOADS = 4
# The property with the reason why the last web-download failed. No request may set it.
FAILURE = "os_glance_import_failure"
METHODS_HEADER = "OpenStack-image-import-methods"

_places = SharedPlaces(MAX_DOWNLOADS)


def info(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    methods = {"description": "Import methods available.", "type": "array", "value": _methods(api)}
    return {"import-methods": methods}


def stores(api: ImageApiCollaborators, call: Call) -> None:
    raise errors.NotFound("Multi backend is not supported at this site.")


def _methods(api: ImageApiCollaborators) -> list[str]:
    return list(api.conf.api.enabled_import_methods)


def create(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    """Makes an image's record, and lists in a header the methods by which its data may be imported."""
    image_view = images.create(api, call)
    if _methods(api):
        call.response.set_header(METHODS_HEADER, ",".join(_methods(api)))
    return image_view


def stage(api: ImageApiCollaborators, call: Call) -> None:
    if DIRECT not in _methods(api):
        raise errors.NotFound(f"'{DIRECT}' method is not available at this site.")
    data.receive(api, call, images.find_for(api, call), "uploading")


def import_image(api: ImageApiCollaborators, call: Call) -> None:
    method, uri = _method_of(api, call.body)
    image = images.find_for(api, call)
    _require_ready(image, method)
    if method == DIRECT:
        records.change(api, call.ctx, image.id, _activated)
    else:
        _start_download(api, call, image, uri)


def _method_of(api: ImageApiCollaborators, body: dict[str, Any]) -> tuple[str, str]:
    """Returns the method and the address of the request."""
    if "method" not in body:
        raise errors.BadRequest("Import request requires a 'method' field.")
    method = body["method"]
    if not isinstance(method, dict) or "name" not in method:
        raise errors.BadRequest("Import request requires a 'name' field.")
    if method["name"] not in _methods(api):
        raise errors.BadRequest(f"Unknown import method name '{str(method['name'])[:64]}'.")
    for flag, default in (("all_stores_must_succeed", True), ("all_stores", False)):
        if not isinstance(body.get(flag, default), bool):
            raise errors.BadRequest(f"'{flag}' must be boolean value only")
    if not body.get("all_stores_must_succeed", True):
        raise errors.BadRequest("All_stores_must_succeed can only be set with enabled_backends")
    uri = method.get("uri", "")
    if method["name"] == WEB and not isinstance(uri, str):
        raise guard.ImportRefused("")
    return method["name"], uri


def _require_ready(image: Image, method: str) -> None:
    if image.status == "active":
        raise errors.Conflict("Image with status active cannot be target for import")
    if method == WEB and image.status != "queued":
        raise errors.Conflict(f"Image needs to be in 'queued' state to use '{WEB}' method")
    if method == DIRECT and image.status != "uploading":
        raise errors.Conflict(f"Image needs to be staged before '{DIRECT}' method can be used")
    for key in ("container_format", "disk_format"):
        if getattr(image, key) is None:
            raise errors.Conflict(f"'{key}' needs to be set before import")


def _activated(image: Image) -> Image:
    _require_ready(image, DIRECT)
    return msgspec.structs.replace(image, status="active")


# -- web-download ------------------------------------------------------------------------------------------------------


def _start_download(api: ImageApiCollaborators, call: Call, image: Image, uri: str) -> None:
    guard.checked(api.conf, uri)
    project_id = call.ctx.project_id
    try:
        _places.take(project_id)
    except NoPlace:
        raise errors.ServiceUnavailable("Too many images are being imported. Please try again later.") from None
    try:
        # Makes the file first: its lock shows that a process works on the image.
        coming = api.store.begin(image.id)
        try:
            importing = records.change(api, call.ctx, image.id, _importing)
            work = threading.Thread(
                target=_download, args=(api, call.ctx, importing, uri, coming), name="image import", daemon=True
            )
            work.start()
        except BaseException:
            coming.keep = not data.requeue(api, call.ctx, image.id, "importing")
            coming.close()
            raise
    except BaseException:
        _places.give(project_id)
        raise


def _importing(image: Image) -> Image:
    _require_ready(image, WEB)
    properties = {key: value for key, value in image.properties.items() if key != FAILURE}
    return msgspec.structs.replace(image, status="importing", properties=properties)


def _download(api: ImageApiCollaborators, ctx: RequestContext, image: Image, uri: str, coming: Upload) -> None:
    """Runs in a thread of its own. At the end the image is active or queued, or recovery queues it."""
    try:
        with coming:
            try:
                with web.opened(api.conf, uri) as download:
                    api.store.require_room(download.length or 0)
                    image = data.reserve(api, ctx, image, download.length or 0)
                    data.take(api, ctx, image, coming, download.chunks(), "importing")
            except BaseException as error:
                coming.keep = not data.requeue(api, ctx, image.id, "importing", _reason(error))
                raise
        LOG.info("Image %s has been imported", image.id)
    except errors.MinovaError as error:
        LOG.warning("Image %s was not imported: %s", image.id, error)
    except Exception:
        LOG.exception("Image %s was not imported", image.id)
    finally:
        _places.give(ctx.project_id)


def _reason(error: BaseException) -> dict[str, str]:
    is_public = isinstance(error, errors.MinovaError) and error.code in (400, 403, 413, 507)
    return {FAILURE: str(error)[:255] if is_public else "The import failed."}


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v2/images",
        rule="add_image",
        handler=create,
        answer=ImageAnswer,
        body=dict[str, Any],
        status=201,
    ),
    Route(method="PUT", path="/v2/images/{image_id}/stage", rule="modify_image", handler=stage, status=204),
    Route(
        method="POST",
        path="/v2/images/{image_id}/import",
        rule="modify_image",
        handler=import_image,
        body=dict[str, Any],
        status=202,
    ),
    Route(
        method="GET",
        path="/v2/info/import",
        rule=AUTHENTICATED,
        handler=info,
        answer={"import-methods": dict[str, Any]},
    ),
    Route(method="GET", path="/v2/info/stores", rule=AUTHENTICATED, handler=stores),
)
