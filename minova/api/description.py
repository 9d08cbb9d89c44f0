"""`GET /openapi.json`: the description of all APIs, for tools that read OpenAPI.

`?microversion=2.60` selects the microversion of Compute; the default is the newest. A document describes one
microversion, because a schema of OpenAPI cannot depend on a header: tools that generate clients, requests or pages
would reject a document of all versions.
"""

import gzip
from functools import lru_cache
from typing import Any

import falcon
import msgspec

from minova.api.compute import versions
from minova.api.compute.definition import ComputeDefinition
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import Version, text
from minova.api.http.structs import StructValidation
from minova.api.openapi import at, describe

PATH = "/openapi.json"
_GZIP = "gzip"


class DescriptionQuery(msgspec.Struct, frozen=True, kw_only=True):
    microversion: str = text(versions.MAX)


@lru_cache(versions.MAX[1])
def _packed(version: Version) -> bytes:
    """Cached per version, because the route is public and computing the description takes far longer than other
    answers. Compressed, it has a twentieth of the size.
    """
    return gzip.compress(msgspec.json.encode(describe(at(version))), mtime=0)


def show(api: Any, call: Call) -> None:
    """Raises BadRequest or VersionNotSupported if the microversion is not served."""
    packed = _packed(versions.parse(call.query.microversion))
    response = call.response
    response.content_type = falcon.MEDIA_JSON
    response.append_header("Vary", "Accept-Encoding")
    if _GZIP in (call.request.get_header("Accept-Encoding") or ""):
        response.set_header("Content-Encoding", _GZIP)
        response.data = packed
    else:
        response.data = gzip.decompress(packed)


ROUTES = (Route(method="GET", path=PATH, handler=show, query=DescriptionQuery),)


class DescriptionDefinition(ComputeDefinition):
    """Has the errors and headers of Compute."""

    routes = ROUTES
    validation = StructValidation(ROUTES)
    public = frozenset({PATH})
