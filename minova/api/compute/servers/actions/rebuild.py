"""`rebuild`: validates the request and makes the arguments for the conductor. As in Nova, given fields are changed, and
all others stay.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import create, guest_data, placement_request, servers
from minova.api.compute.servers.actions.completion import ActionStart, Complete
from minova.api.compute.servers.boot_files import with_boot_files
from minova.api.compute.servers.guest_data import key_pair_named
from minova.api.compute.servers.networks.requested import access_address
from minova.api.http import names
from minova.api.http.call import Call
from minova.api.http.structs import Boolean, is_true
from minova.codecs import Decoder
from minova.db.api_queries.instances import InstanceRow
from minova.db.servers import instances
from minova.hardware.demands import host_needs, require_agreement_of
from minova.hardware.guest.features import FlavorAndImage
from minova.hardware.guest.keys import require_served
from minova.objects.actions.action import Arguments
from minova.objects.actions.rebuild import REBUILD, RebuildArguments, RebuiltServer
from minova.objects.catalogue import disk_config
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_fitness import unfit

_BOOLEAN: Decoder[Any] = Decoder(Boolean)
# The first microversion of a field, and the first without it.
SINCE = {"description": "2.19", "key_name": "2.54", "user_data": "2.57", "hostname": "2.90"}
REMOVED = {"personality": "2.57"}


class RebuildRequest(NamedTuple):
    """`sent`: the arguments for the conductor.
    `shown`: the additional fields of the server in the answer.
    """

    sent: dict[str, Any]
    shown: dict[str, Any]


def requested(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: RebuildArguments
) -> RebuildRequest:
    """Raises BadRequest or Forbidden if a value is invalid or not allowed."""
    _check_version(call, arguments)
    _check_plain(arguments)
    image = _image(api, call, session, arguments.image_ref)
    _check_image(api, session, row, image)
    data = guest_data.checked(
        api,
        call,
        guest_data.RequestedGuestData(
            user_data=arguments.user_data or None,
            config_drive=row.config_drive,
            personality=tuple(arguments.personality or ()),
            admin_password=arguments.admin_password,
        ),
        image,
    )
    changes: dict[str, Any] = {"config_drive": data.config_drive}
    for argument, column, value in (
        (arguments.name, "display_name", lambda name: names.checked("Server name", name)),
        (arguments.description, "description", lambda text: text),
        (arguments.metadata, "metadata_", lambda metadata: create.checked_metadata(api, call, metadata)),
        (arguments.hostname, "hostname", lambda name: names.checked_hostname(name, dots=call.since("2.94"))),
        (arguments.user_data, "user_data", lambda text: text),
        (arguments.access_ipv4, "access_ip_v4", lambda text: access_address(4, text)),
        (arguments.access_ipv6, "access_ip_v6", lambda text: access_address(6, text)),
        (arguments.disk_config, disk_config.KEY, lambda chosen: create.checked_disk_config(chosen, image)),
    ):
        _change(changes, argument, column, value)
    if not isinstance(arguments.key_name, msgspec.UnsetType):
        changes |= _key_pair(call, session, arguments.key_name)
    rebuilt = RebuiltServer(image=image, changes=changes, files=data.injected_files, admin_password=data.admin_password)
    is_shown = data.admin_password is not None and api.conf.api.enable_instance_password
    return RebuildRequest(msgspec.to_builtins(rebuilt), {"adminPass": data.admin_password} if is_shown else {})


def shown(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Returns the server in the answer: as after an update, and from the versions on that let a rebuild change them,
    with the key and the user data.
    """
    server: dict[str, Any] = msgspec.to_builtins(servers.shown_after_change(api, call))
    with api.db.read() as session:
        row = servers.find(call, session)
        added = {"key_name": row.key_name, "user_data": row.user_data}
    # As in Nova, the answer has it under another name.
    server.pop("OS-EXT-SRV-ATTR:user_data", None)
    return server | {field: value for field, value in added.items() if call.since(SINCE[field]) or call.shows_all}


def _change(changes: dict[str, Any], given: Any, column: str, value: Callable[[Any], Any]) -> None:
    if not isinstance(given, msgspec.UnsetType):
        changes[column] = value(given)


def _check_version(call: Call, arguments: RebuildArguments) -> None:
    """Raises BadRequest if the microversion does not have a field. minova's own clients may send all newer fields."""
    for field, since in SINCE.items():
        if not (call.since(since) or call.shows_all) and getattr(arguments, field) is not msgspec.UNSET:
            raise _unknown(field)
    for field, removed in REMOVED.items():
        if call.since(removed) and getattr(arguments, field) is not msgspec.UNSET:
            raise _unknown(field)


def _unknown(field: str) -> errors.BadRequest:
    return errors.BadRequest(f"Additional properties are not allowed ('{field}' was unexpected)")


def _check_plain(arguments: RebuildArguments) -> None:
    """Refuses what is not implemented, instead of dropping it silently."""
    try:
        preserve: Any = _BOOLEAN.from_builtins(arguments.preserve_ephemeral)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for rebuild: preserve_ephemeral: {error}") from None
    if is_true(preserve):
        raise errors.BadRequest("The current driver does not support preserving ephemeral partitions.")


def _image(api: ComputeApiCollaborators, call: Call, session: Session, reference: str) -> Image:
    image_id = placement_request.image_id(reference)
    image = api.images.visible(session, image_id, call) if image_id else None
    if image is None:
        raise errors.BadRequest("Cannot find image for rebuild")
    placement_request.check_image(image, image_id)
    return with_boot_files(api, call, session, image)


def _check_image(api: ComputeApiCollaborators, session: Session, row: InstanceRow, image: Image) -> None:
    """Raises BadRequest if the image does not fit the server's flavor, or would change its NUMA topology: its CPUs and
    memory are already assigned.
    """
    faults = unfit(image, row.flavor)
    if faults:
        raise errors.BadRequest(
            f"Flavor {row.flavor.name} is too small for requested image {image.id}: {'; '.join(faults)}."
        )
    require_served({}, image.properties, beside=row.flavor.extra_specs)
    guest = FlavorAndImage(row.flavor, image)
    require_agreement_of(guest)
    needs = host_needs(guest, api.conf.pci.alias)
    former = instances.by_uuids(session, [row.uuid], networks=False)[row.uuid].image
    if former is None and image.id == row.image_ref:
        return
    # The properties of the server's own image may have changed since its last build.
    if FlavorAndImage(row.flavor, former).numa_topology != needs.numa_topology:
        raise errors.BadRequest(
            "An instance's NUMA topology cannot be changed as part of a rebuild. The image provided is invalid for this instance."
        )


def _key_pair(call: Call, session: Session, name: str | None) -> dict[str, Any]:
    """Returns the columns of the user's key pair of that name; None removes the key. Raises BadRequest if there is none."""
    if name is None:
        return {"key_name": None, "key_data": None, "key_type": None}
    key_pair = key_pair_named(session, call, name)
    return {"key_name": key_pair.name, "key_data": key_pair.public_key, "key_type": key_pair.type}


def _rebuild(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    assert isinstance(arguments, RebuildArguments)
    rebuild = requested(api, call, session, row, arguments)

    def answer() -> dict[str, Any]:
        call.response.set_header("Location", call.url(f"/v2.1/servers/{row.uuid}"))
        return {"server": shown(api, call) | rebuild.shown}

    return ActionStart(rebuild.sent, answer_after=answer)


COMPLETE: Mapping[str, Complete] = {REBUILD.key: _rebuild}
