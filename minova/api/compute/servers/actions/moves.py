"""`resize`, `migrate` and `os-migrateLive`: the flavor, the host and the mode that the request names; and where each of them
would take the server.
"""

from collections.abc import Mapping

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute import flavors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.actions.completion import ActionStart, Complete
from minova.api.compute.servers.new_server import Text255
from minova.api.http.call import Call
from minova.api.http.microversions import History, added, changed, removed, require_no_fields
from minova.api.http.structs import Boolean, is_true
from minova.codecs import Decoder
from minova.db.api_queries import services as read_services
from minova.db.api_queries.instances import InstanceRow
from minova.db.servers import instances
from minova.hardware.demands import host_needs, require_agreement_of_change
from minova.hardware.guest.features import FlavorAndImage
from minova.hardware.guest.keys import require_served
from minova.hardware.guest.secret_rules import require_same_encryption
from minova.objects.actions.action import Arguments
from minova.objects.actions.moves import (
    CONFIRM_RESIZE,
    LIVE_MIGRATE,
    MIGRATE,
    RESIZE,
    LiveMigrateArguments,
    MoveRequest,
    ResizeArguments,
)
from minova.objects.catalogue.flavor import Flavor

TO_HOST = "os_compute_api:os-migrate-server:migrate:host"
LIVE_TO_HOST = "os_compute_api:os-migrate-server:migrate_live:host"


class MigrateArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of `migrate`, unless it is null."""

    host: Text255 | None = None


_MIGRATE = Decoder(MigrateArguments)
BODY_HISTORY = History(
    MigrateArguments,
    added("2.56", "host", note="before, the value is null or an empty object"),
    title="migrate",
)
LIVE_HISTORY = History(
    LiveMigrateArguments,
    removed("2.25", "disk_over_commit", note="required before"),
    changed("2.25", "block_migration", note="`auto`: the hosts find out"),
    added("2.30", "force"),
    changed("2.30", "host", note="the scheduler checks it, unless `force` is set; before, it was always forced"),
    removed("2.68", "force"),
    title=LIVE_MIGRATE.key,
)
_BOOLEAN: Decoder[bool | str] = Decoder(Boolean)


def _resize(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    """Raises BadRequest if the flavor cannot be found, is the server's own, has a smaller disk, or asks for something
    that no host can do.
    """
    assert isinstance(arguments, ResizeArguments)
    flavorid = str(arguments.flavor_ref).rstrip("/").rpartition("/")[2]
    flavor = flavors.visible(session, flavorid, call)
    if flavor is None:
        raise errors.BadRequest(f"Flavor {flavorid[:255]} could not be found.")
    instance = instances.by_uuids(session, [row.uuid], networks=False)[row.uuid]
    _check_sizes(instance.flavor, flavor)
    require_served(flavor.extra_specs, {})
    guest = FlavorAndImage(flavor, instance.image)
    require_agreement_of_change(FlavorAndImage(instance.flavor, instance.image), guest)
    require_same_encryption(instance, flavor)
    host_needs(guest, api.conf.pci.alias)
    move_request = MoveRequest(
        flavor=flavor,
        names_hosts=call.ctx.is_admin,
        disk_config=None if arguments.disk_config is msgspec.UNSET else str(arguments.disk_config),
    )
    return ActionStart(msgspec.to_builtins(move_request))


def _check_sizes(old: Flavor, new: Flavor) -> None:
    if old.flavorid == new.flavorid:
        raise errors.BadRequest("When resizing, instances must change flavor!")
    disks = {"root": (old.root_gb, new.root_gb), "ephemeral": (old.ephemeral_gb, new.ephemeral_gb)}
    for name, (before, after) in disks.items():
        if after < before:
            raise errors.BadRequest(
                f"Server disk was unable to be resized because: the {name} disk of flavor {new.name} is smaller, {after} GB "
                f"instead of {before} GB."
            )


def _migrate(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    """Raises BadRequest if there is no such host, or the server is there already; Forbidden if the caller may not name
    one.
    """
    host = _host(call)
    if host is not None:
        call.require(TO_HOST)
        if not read_services.has_node(session, host, None):
            raise errors.BadRequest(f"Compute host {host} could not be found.")
        if host == row.host:
            raise errors.BadRequest("Cannot migrate to the host where the server exists.")
    return ActionStart(msgspec.to_builtins(MoveRequest(host=host, names_hosts=call.ctx.is_admin)))


def _host(call: Call) -> str | None:
    body = call.body[MIGRATE.key]
    if body is None:
        return None
    if not (call.since("2.56") or call.shows_all):
        require_no_fields(body)
        return None
    try:
        return _MIGRATE.from_builtins(body).host
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for migrate: {error}") from None


def _live_migrate(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    """Raises BadRequest if a field is invalid, the microversion does not have it, there is no such host, or the server is there
    already; Forbidden if the caller may not name one.
    """
    assert isinstance(arguments, LiveMigrateArguments)
    _check_version(call, arguments)
    block, host = _block(call, arguments.block_migration), arguments.host
    force = _is_forced(call, arguments)
    if host is not None:
        call.require(LIVE_TO_HOST)
        if not read_services.has_node(session, host, None):
            raise errors.BadRequest(f"Compute host {host} could not be found.")
        if host == row.host:
            raise errors.BadRequest(f"Unable to migrate instance ({row.uuid}) to current host ({host}).")
    move_request = MoveRequest(host=host, force=force, block=block, names_hosts=call.ctx.is_admin)
    return ActionStart(msgspec.to_builtins(move_request))


def _check_version(call: Call, arguments: LiveMigrateArguments) -> None:
    for name in ("disk_over_commit", "force"):
        if getattr(arguments, name) is not msgspec.UNSET and not call.has(LIVE_HISTORY, name):
            raise errors.BadRequest(f"Additional properties are not allowed ('{name}' was unexpected)")
    if not call.since("2.25") and not call.shows_all:
        if arguments.disk_over_commit is msgspec.UNSET:
            raise errors.BadRequest(f"Invalid input for {LIVE_MIGRATE.key}: 'disk_over_commit' is a required property")
        _boolean(arguments.disk_over_commit)


def _block(call: Call, value: bool | str) -> bool | None:
    if value == "auto" and (call.since("2.25") or call.shows_all):
        return None
    return _boolean(value)


def _is_forced(call: Call, arguments: LiveMigrateArguments) -> bool:
    """As in Nova, a host of a version without `force` is forced until 2.29, and checked from 2.68 on."""
    if not call.since("2.30") and not call.shows_all:
        return arguments.host is not None
    force = arguments.force is not msgspec.UNSET and _boolean(arguments.force)
    if force and arguments.host is None:
        raise errors.BadRequest("Can't force to a non-provided destination")
    return force


def _boolean(value: object) -> bool:
    try:
        return is_true(_BOOLEAN.from_builtins(value))
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for {LIVE_MIGRATE.key}: {error}") from None


def _confirm(
    api: ComputeApiCollaborators, call: Call, session: Session, row: InstanceRow, arguments: Arguments
) -> ActionStart:
    return ActionStart({}, status=204)


COMPLETE: Mapping[str, Complete] = {
    RESIZE.key: _resize,
    MIGRATE.key: _migrate,
    LIVE_MIGRATE.key: _live_migrate,
    CONFIRM_RESIZE.key: _confirm,
}
# Actions that have a dry run.
DRY_RUNS = (RESIZE, MIGRATE, LIVE_MIGRATE)
