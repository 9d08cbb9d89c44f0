"""The image of a server that is to be shelved, and where one that is unshelved may go."""

from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.compute.servers import snapshots
from minova.api.compute.servers.create import Text255, Zone, check_zone
from minova.api.http.call import Call
from minova.api.http.microversions import History, added, changed
from minova.codecs import Decoder
from minova.db import models
from minova.db.api_queries import availability_zones
from minova.db.api_queries import services as read_services

# Appended to the name of the server. As in Nova, what is too long is cut.
SUFFIX = "-shelved"
LONGEST_NAME = 255
TO_HOST = "os_compute_api:os-shelve:unshelve_to_host"


class UnshelveArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What stands beside `unshelve`, unless that is null."""

    availability_zone: Zone | msgspec.UnsetType | None = msgspec.UNSET
    host: Text255 | msgspec.UnsetType = msgspec.UNSET


_ARGUMENTS = Decoder(UnshelveArguments)
TAKEN = History(
    UnshelveArguments,
    added("2.77", "availability_zone", note="before, what stands beside the action is not looked at"),
    added("2.91", "host", note="for administrators"),
    changed("2.91", "availability_zone", note="may be null: the server is no longer pinned to a zone"),
    title="unshelve",
)


def image_of(api: Collaborators, call: Call, session: Session, row: models.Instance) -> dict[str, Any]:
    """The record of the image that the server is unshelved from: of the server's project, also where an administrator shelves it."""
    name = row.display_name[: LONGEST_NAME - len(SUFFIX)] + SUFFIX
    image = snapshots.image_of(api.conf, call, session, row, name, {})
    properties = {key: value for key, value in image.properties.items() if key != "instance_owner"}
    owned = msgspec.structs.replace(image, owner=row.project_id, visibility="private", properties=properties)
    return dict(msgspec.to_builtins(owned))


def destination(api: Collaborators, call: Call, session: Session, row: models.Instance, body: Any) -> dict[str, Any]:
    """What the conductor gets. BadRequest: there is no such zone or host, or it is no body of an unshelve. Forbidden: a host.
    Conflict: the host is not in the zone that is named or that the server is pinned to.
    """
    if not call.since("2.77") or body is None:
        return {}
    wanted = _checked(call, body)
    zone, host = wanted.availability_zone, wanted.host
    if isinstance(host, str):
        call.require(TO_HOST)
    if isinstance(zone, str):
        check_zone(api, session, zone)
    if isinstance(host, str):
        _check_host(api, session, host, row.availability_zone if zone is msgspec.UNSET else zone)
    return {key: value for key, value in (("availability_zone", zone), ("host", host)) if value is not msgspec.UNSET}


def _check_host(api: Collaborators, session: Session, host: str, zone: str | None) -> None:
    if not read_services.has_node(session, host, None):
        raise errors.BadRequest(f"Compute host {host} could not be found.")
    of_host = availability_zones.by_host(session, [host]).get(host, api.conf.scheduler.default_availability_zone)
    if zone not in (None, of_host):
        raise errors.Conflict(f"Host '{host}' is not in the availability zone '{zone}'.")


def _checked(call: Call, body: Any) -> UnshelveArguments:
    try:
        wanted = _ARGUMENTS.from_builtins(body)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for unshelve: {error}") from None
    if wanted == UnshelveArguments():
        raise errors.BadRequest("Invalid input for unshelve: it must be null, or name an availability_zone or a host")
    if not call.since("2.91") and (wanted.host is not msgspec.UNSET or wanted.availability_zone is None):
        raise errors.BadRequest(
            "Invalid input for unshelve: before 2.91 it takes nothing but the name of an availability_zone"
        )
    return wanted
