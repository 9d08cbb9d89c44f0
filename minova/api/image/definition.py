"""The Image API: its routes, and errors in Glance's form. It has no microversions."""

from typing import Any

import falcon
import msgspec

from minova.api.http.body import JsonBody
from minova.api.http.definition import ApiDefinition
from minova.api.http.faults import Content, Fault, phrase
from minova.api.http.microversions import LOWEST, Version
from minova.api.http.structs import StructValidation
from minova.api.image.changes.json_patch import Patch, read_patch
from minova.api.image.routes import ROUTES


class ImageValidation(StructValidation):
    def body(self, request: falcon.Request, expected: Any, version: Version, limit: int) -> JsonBody:
        if expected is Patch:
            return read_patch(request, limit)
        return super().body(request, expected, version, limit)


class ImageDefinition(ApiDefinition):
    service_type = "image"
    routes = ROUTES
    validation = ImageValidation(ROUTES)
    public = frozenset({"/v2", "/image"})
    refusal = "You are not authorized to complete {} action."

    def negotiate(self, request: falcon.Request, response: falcon.Response) -> Version:
        return LOWEST

    def error_content(self, request: falcon.Request, fault: Fault) -> Content:
        title = phrase(fault.status)
        document = {"code": f"{fault.status} {title}", "title": title, "message": fault.message}
        return Content(media_type=falcon.MEDIA_JSON, data=msgspec.json.encode(document))
