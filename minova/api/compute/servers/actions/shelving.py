"""The image of a server that is shelved, and the destination of a server that is unshelved."""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.actions import images
from minova.api.compute.servers.actions.completion import ActionStart, Complete
from minova.api.compute.servers.new_server import Text255, Zone
from minova.api.compute.servers.placement_request import check_zone
from minova.api.http.call import Call
from minova.api.http.microversions import History, added, changed, require_no_fields
from minova.codecs import Decoder
from minova.db.api_queries import availability_zones
from minova.db.api_queries import services as read_services
from minova.db.api_queries.instances import InstanceRow
from minova.objects.actions.action import Arguments
from minova.objects.actions.shelving import SHELVE, UNSHELVE
from minova.objects.catalogue.image import Image

# The suffix of the image's name, after the name of the server. As in Nova, names that are too long are cut.
SUFFIX = "-shelved"
LONGEST_NAME = 255
TO_HOST = "os_compute_api:os-shelve:unshelve_to_host"


class UnshelveArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The value of `unshelve`, unless it is null."""

    availability_zone: Zone | msgspec.UnsetType | None = msgspec.UNSET
    host: Text255 | msgspec.UnsetType = msgspec.UNSET


_ARGUMENTS = Decoder(UnshelveArguments)
BODY_HISTORY = History(
    UnshelveArguments,
    added("2.77", "availability_zone", note="before, the value is null or an empty object"),
    added("2.91", "host", note="for administrators"),
    changed("2.91", "availability_zone", note="may be null: the server is no longer pinned to a zone"),
    title="unshelve",
)


def _image_of(api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow) -> Image:
    """Returns the record of the image from which the server is unshelved. It belongs to the server's project, even if
    an administrator shelves the server.
    """
    name = row.display_name[: LONGEST_NAME - len(SUFFIX)] + SUFFIX
    image = images.image_of(api.conf, call, session, row, name, {})
    properties = {key: value for key, value in image.properties.items() if key != "instance_owner"}
    return msgspec.structs.replace(image, owner=row.project_id, visibility="private", properties=properties)


def _destination(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, body: Any
) -> dict[str, Any]:
    """Returns the arguments for the conductor.

    Raises BadRequest if there is no such zone or host, or the body is invalid; Forbidden if the caller may not name a
    host.
    Raises Conflict if the host is not in the zone that the request names or that the server is pinned to.
    """
    if body is None:
        return {}
    if not (call.since("2.77") or call.shows_all):
        require_no_fields(body)
        return {}
    destination = _checked(call, body)
    zone, host = destination.availability_zone, destination.host
    if isinstance(host, str):
        call.require(TO_HOST)
    if isinstance(zone, str):
        check_zone(api, session, zone)
    if isinstance(host, str):
        _check_host(api, session, host, row.availability_zone if zone is msgspec.UNSET else zone)
    return {key: value for key, value in (("availability_zone", zone), ("host", host)) if value is not msgspec.UNSET}


def _check_host(api: ComputeApiCollaborators, session: Session, host: str, zone: str | None) -> None:
    if not read_services.has_node(session, host, None):
        raise errors.BadRequest(f"Compute host {host} could not be found.")
    of_host = availability_zones.by_host(session, [host]).get(host, api.conf.scheduler.default_availability_zone)
    if zone not in (None, of_host):
        raise errors.Conflict(f"Host '{host}' is not in the availability zone '{zone}'.")


def _checked(call: Call, body: Any) -> UnshelveArguments:
    try:
        destination = _ARGUMENTS.from_builtins(body)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for unshelve: {error}") from None
    if destination == UnshelveArguments():
        raise errors.BadRequest("Invalid input for unshelve: it must be null, or name an availability_zone or a host")
    if call.since("2.91") or call.shows_all:
        return destination
    if destination.host is not msgspec.UNSET:
        raise errors.BadRequest("Additional properties are not allowed ('host' was unexpected)")
    if destination.availability_zone is None:
        raise errors.BadRequest("Invalid input for unshelve: before 2.91 its availability_zone is a name")
    return destination


def _shelve(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    """Adds the record of its image, as `_create_image`."""
    return images.begin_with(api, call, _image_of(api, call, session, row))


def _unshelve(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    return ActionStart(_destination(api, call, session, row, call.body[UNSHELVE.key]))


COMPLETE: Mapping[str, Complete] = {SHELVE.key: _shelve, UNSHELVE.key: _unshelve}
