"""Repeats calls of the API to a conductor if the conductor that took the first call has gone.

The first call may have been executed, with only its answer lost. A call is repeated only if a second execution changes
nothing, and if its error can be distinguished from the error of a first call: the database shows that the work is done. The
database also answers in place of conductors whose answers the broker does not take.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.db.api_queries import flavors, images, instances
from minova.db.catalogue import aggregates, key_pairs, server_groups
from minova.db.catalogue import flavors as flavor_rows
from minova.db.catalogue import images as image_rows
from minova.db.engine import Database
from minova.db.networks import address_groups, networks, ports, security_groups, subnet_pools, subnets
from minova.db.servers import request_specs
from minova.objects.actions.deletion import SOFT_DELETE
from minova.objects.actions.table import BY_KIND
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.requests.server_request import CreatedServers, CreateServers

LOG = logging.getLogger(__name__)
# Seconds for which the API looks in the database for the work of a call whose answer is lost, and between two looks. The
# conductors that have the call do it at once, even while the broker takes no answers of theirs.
SETTLE, LOOK_INTERVAL = 3.0, 0.2
# The most further tries if a conductor is not configured for the network service of a request.
OTHERS = 3


class ExecutedCall(NamedTuple):
    """The first call was executed. `answer`: its lost answer."""

    answer: Any = None


class RepeatedCall(NamedTuple):
    """A call that was sent twice, and the error of the second one."""

    ctx: RequestContext
    arguments: Mapping[str, Any]
    error: errors.MinovaError


# Decides by the database whether the first call was executed.
Look = Callable[[Session, RepeatedCall], ExecutedCall | None]


class RepeatingConductor:
    """Has the methods of the contract. Calls `first`, and `again` after errors.NoAnswer; both are clients of any
    conductor.

    `first` has a shorter time-out, so that the two time-outs together are not much longer than one. A call without an
    entry in `_LOOKS` is sent once. If it has one in `_LOOKS_OF_ONE` and is not answered, the database may show that it was executed.
    """

    def __init__(self, first: ConductorApi, again: ConductorApi, db: Database) -> None:
        self._first = first
        self._again = again
        self._db = db

    def __getattr__(self, name: str) -> Callable[..., Any]:
        repeat = getattr(self._again, name)
        if name in _LOOKS_OF_ONE:
            return lambda ctx, **arguments: self._send_once(name, repeat, ctx, arguments)
        if name not in _LOOKS:
            return repeat  # type: ignore[no-any-return]
        first = repeat if name in _SLOW else getattr(self._first, name)

        def send(ctx: RequestContext, **arguments: Any) -> Any:
            try:
                return _configured(name, lambda: first(ctx, **arguments))
            except errors.NoAnswer as error:
                unanswered = error
            LOG.warning("%s: %s The call is repeated", name, unanswered)
            try:
                return _configured(name, lambda: repeat(ctx, **arguments))
            except (errors.NotFound, errors.Conflict) as error:
                done = self._look(name, RepeatedCall(ctx, arguments, error))
                if done is None:
                    raise
            except (errors.NoAnswer, errors.BrokerBlocked):
                # The repetition was not answered, but the first call, too, may be executed only now.
                done = self._await(name, RepeatedCall(ctx, arguments, unanswered))
                if done is None:
                    raise unanswered from None
            return done.answer

        return send

    def _send_once(self, name: str, call: Callable[..., Any], ctx: RequestContext, arguments: Mapping[str, Any]) -> Any:
        try:
            return call(ctx, **arguments)
        except errors.NoAnswer as error:
            done = self._await(name, RepeatedCall(ctx, arguments, error))
            if done is None:
                raise
        return done.answer

    def _await(self, name: str, repeated: RepeatedCall) -> ExecutedCall | None:
        """Looks until the work is done, for at most SETTLE seconds. Returns None if it is not, or if the database cannot show it."""
        if _look_of(name) not in _SHOWN:
            return None
        until = time.monotonic() + SETTLE
        while (done := self._look(name, repeated)) is None and time.monotonic() < until:
            time.sleep(LOOK_INTERVAL)
        return done

    def _look(self, name: str, repeated: RepeatedCall) -> ExecutedCall | None:
        with self._db.read() as session:
            return _look_of(name)(session, repeated)


def _look_of(name: str) -> Look:
    return _LOOKS_OF_ONE[name] if name in _LOOKS_OF_ONE else _LOOKS[name]


def _configured(name: str, ask: Callable[[], Any]) -> Any:
    """Returns the answer of a conductor that is configured for the network service of the request.

    Messages go to the conductors in turn, and a conductor that is not configured has done nothing. Raises the error of
    the last try.
    """
    for _ in range(OTHERS):
        try:
            return ask()
        except errors.NetworkNotConfigured as error:
            LOG.warning("%s: %s Another one is asked", name, error)
    return ask()


def _never(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    """Returns None: the conductor answers a repeated call as it answered the first one, so an error is the
    call's own.
    """
    return None


def _created(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    request: CreateServers = repeated.arguments["request"]
    row = request_specs.find_create_request(session, request.request_uuid or "", repeated.ctx.project_id)
    if row is None or row.body_hash != request.body_hash:
        return None
    password = request_specs.password_of(session, row.reservation_id)
    return ExecutedCall(
        CreatedServers(
            reservation_id=row.reservation_id, instance_uuids=tuple(row.instance_uuids), admin_password=password
        )
    )


def _deleted(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    return ExecutedCall() if isinstance(repeated.error, errors.NotFound) else None


def _action_begun(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    """The action of a request has the id of the request."""
    uuid, action = repeated.arguments["instance_uuid"], repeated.arguments["action"]
    name = BY_KIND[action].name if action in BY_KIND else action
    return ExecutedCall() if instances.has_action(session, uuid, name, repeated.ctx.request_id) else None


def _flavor_as_asked(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    flavor: Flavor = repeated.arguments["flavor"]
    record = flavors.flavor(session, flavor.flavorid)
    return ExecutedCall(record) if record == flavor else None


def _extra_specs_as_asked(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    extra_specs: dict[str, str | None] = repeated.arguments["extra_specs"]
    record = flavors.flavor(session, repeated.arguments["flavorid"])
    if record is None or any(record.extra_specs.get(key) != value for key, value in extra_specs.items()):
        return None
    return ExecutedCall(record)


def _access_as_asked(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    """The second of two additions raises Conflict, the second of two removals NotFound, and so does a call for an
    unknown flavor.
    """
    flavorid = repeated.arguments["flavorid"]
    if flavors.flavor(session, flavorid) is None:
        return None
    return ExecutedCall(flavor_rows.projects(session, flavorid))


def _image_as_asked(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    record = images.image(session, repeated.arguments["image"].id)
    return (
        ExecutedCall(record)
        if record is not None and _timeless(record) == _timeless(repeated.arguments["image"])
        else None
    )


def _timeless(image: Image) -> Image:
    return msgspec.structs.replace(image, created_at=None, updated_at=None)


def _member_as_asked(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    record = image_rows.member(session, repeated.arguments["image_id"], repeated.arguments["member_id"])
    return ExecutedCall(record) if record is not None and record.status == "pending" else None


def _key_pair_as_asked(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    key_pair: KeyPair = repeated.arguments["key_pair"]
    record = key_pairs.find(session, key_pair.user_id, key_pair.name)
    return ExecutedCall(record) if record is not None and record.public_key == key_pair.public_key else None


def _aggregate_as_asked(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    requested_fields = (repeated.arguments["name"], repeated.arguments["metadata"], ())
    records = aggregates.all_of(session).values()
    return next(
        (
            ExecutedCall(record)
            for record in records
            if (record.name, record.metadata, record.hosts) == requested_fields
        ),
        None,
    )


def _host_is_in(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    record = aggregates.all_of(session).get(repeated.arguments["aggregate_id"])
    return ExecutedCall(record) if record is not None and repeated.arguments["host"] in record.hosts else None


def _host_is_out(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    record = aggregates.all_of(session).get(repeated.arguments["aggregate_id"])
    return ExecutedCall(record) if record is not None and repeated.arguments["host"] not in record.hosts else None


def _deletion_begun(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    if isinstance(repeated.error, errors.NotFound):
        return ExecutedCall()
    begun = instances.has_action(
        session, repeated.arguments["instance_uuid"], SOFT_DELETE.name, repeated.ctx.request_id
    )
    return ExecutedCall() if begun else None


# Finds the thing that has this ID.
Find = Callable[[Session, Any], Any]


def _removed(find: Find, argument: str) -> Look:
    """The API has seen the thing, whose ID is this argument, before it sent the call."""

    def look(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
        is_gone = isinstance(repeated.error, errors.NotFound) or find(session, repeated.arguments[argument]) is None
        return ExecutedCall() if is_gone else None

    return look


def _made(find: Find, argument: str) -> Look:
    """The argument has the things, with the IDs that the API has made for them. All were made in one transaction."""

    def look(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
        value = repeated.arguments[argument]
        is_one = not isinstance(value, tuple)
        stored = [find(session, getattr(each, "port", each).id) for each in ((value,) if is_one else value)]
        if any(each is None for each in stored):
            return None
        return ExecutedCall(stored[0] if is_one else tuple(stored))

    return look


def _group_made(session: Session, repeated: RepeatedCall) -> ExecutedCall | None:
    group = server_groups.find(session, repeated.arguments.get("group_uuid", ""))
    return None if group is None else ExecutedCall(group)


# A second execution would fail, or make a second thing.
_LOOKS_OF_ONE: Mapping[str, Look] = {
    "create_server_group": _group_made,
    "create_networks": _made(networks.find, "networks"),
    "create_subnets": _made(subnets.find, "subnets"),
    "create_port": _made(ports.find, "port"),
    "create_ports": _made(ports.find, "ports"),
    "create_security_groups": _made(security_groups.find, "groups"),
    "create_security_group_rules": _made(security_groups.find_rule, "rules"),
    "create_address_groups": _made(address_groups.find, "address_groups"),
    "create_subnet_pools": _made(subnet_pools.find, "pools"),
}
_DELETIONS: Mapping[str, Look] = {
    "delete_server": _deletion_begun,
    "delete_flavor": _removed(flavors.flavor, "flavorid"),
    "delete_image": _removed(images.image, "image_id"),
    "delete_server_group": _removed(server_groups.find, "group_uuid"),
    "delete_network": _removed(networks.find, "network_id"),
    "delete_subnet": _removed(subnets.find, "subnet_id"),
    "delete_port": _removed(ports.find, "port_id"),
    "delete_security_group": _removed(security_groups.find, "group_id"),
    "delete_security_group_rule": _removed(security_groups.find_rule, "rule_id"),
    "delete_address_group": _removed(address_groups.find, "group_id"),
    "delete_subnet_pool": _removed(subnet_pools.find, "pool_id"),
    "delete_aggregate": _deleted,
    "delete_key_pair": _deleted,
    "delete_service": _deleted,
}
_LOOKS: Mapping[str, Look] = {
    "clear_server_password": _never,
    "create_servers": _created,  # each has a request UUID
    "preview_servers": _never,
    "capacity": _never,
    "preview_evacuation": _never,
    "preview_move": _never,
    "update_service": _never,
    "expect_port": _never,  # all its rows are equal
    "update_quota_set": _never,  # the limits are absolute
    "update_quota_class_set": _never,
    "delete_quota_set": _never,
    "update_aggregate": _never,
    "update_flavor": _never,
    "cache_images": _never,  # what hosts have is not fetched again
    "update_server": _never,
    "reset_server_state": _never,
    "update_network": _never,
    "update_subnet": _never,
    "update_port": _never,
    "update_network_tags": _never,
    "update_address_group": _never,
    "change_addresses": _never,
    "update_subnet_pool": _never,
    "create_console_token": _never,  # a token that did not arrive expires
    "ensure_default_security_group": _never,
    "update_security_group": _never,
    **_DELETIONS,
    "start_action": _action_begun,
    "evacuate_server": _never,  # a second delivery of the request begins nothing
    "cancel_move": _never,  # idempotent
    "force_complete_migration": _never,  # idempotent
    "create_flavor": _flavor_as_asked,
    "update_flavor_extra_specs": _extra_specs_as_asked,
    "add_flavor_access": _access_as_asked,
    "remove_flavor_access": _access_as_asked,
    "create_image": _image_as_asked,
    "update_image": _image_as_asked,
    "change_image": _image_as_asked,
    "add_image_member": _member_as_asked,
    "update_image_member": _never,
    "remove_image_member": _deleted,
    "create_aggregate": _aggregate_as_asked,
    "create_key_pair": _key_pair_as_asked,
    "add_host_to_aggregate": _host_is_in,
    "remove_host_from_aggregate": _host_is_out,
}
# These looks tell whether the work is done, also if no call has raised an error.
_SHOWN = frozenset(
    (
        _created,
        _action_begun,
        _flavor_as_asked,
        _extra_specs_as_asked,
        _image_as_asked,
        _member_as_asked,
        _key_pair_as_asked,
        _aggregate_as_asked,
        _host_is_in,
        _host_is_out,
        *(look for look in _DELETIONS.values() if look is not _deleted),
        *_LOOKS_OF_ONE.values(),
    )
)
# These calls may occupy a scheduler for the whole time-out of `first`. Therefore their first try uses `again`, too.
_SLOW = frozenset(("preview_servers", "preview_evacuation", "preview_move", "capacity"))
