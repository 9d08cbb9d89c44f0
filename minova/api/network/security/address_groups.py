"""`/v2.0/address-groups`."""

import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.network import common
from minova.api.network.answers import AddressGroupAnswer
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import Text, Unset
from minova.api.network.resource import Creation, Resource
from minova.api.policies.enforcer import Target
from minova.db.networks import address_groups as stored
from minova.objects.network.address_groups import MAX_RANGES_OF_GROUP, AddressGroup, added, canonical

RangeText = Annotated[str, msgspec.Meta(max_length=64)]
Addresses = Annotated[tuple[RangeText, ...], msgspec.Meta(max_length=MAX_RANGES_OF_GROUP)]


class NewAddressGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text = ""
    description: Text = ""
    addresses: Addresses | None = None
    project_id: Text | None = None
    tenant_id: Text | None = None


class AddressGroupChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text | Unset = msgspec.UNSET
    description: Text | Unset = msgspec.UNSET


class UpdateAddressGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    address_group: AddressGroupChanges


class AddressesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    addresses: Addresses


class AddressGroupsQuery(common.ListQuery, frozen=True, kw_only=True):
    """Filters: names and tags."""


def list_groups(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    filters = common.filters_of(call.query)
    seen_by = None if call.ctx.is_admin else call.ctx.project_id
    with api.db.read() as session:
        return common.listing(
            api, call, "address_groups", lambda page: stored.visible(session, seen_by, filters, page), view
        )


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    return common.shown(api, call, "address_group", view(find(api, call, call.path["address_group_id"])))


def new(api: NetworkApiCollaborators, call: Call, body: NewAddressGroup) -> AddressGroup:
    group = AddressGroup(
        id=str(uuid.uuid4()),
        name=common.checked_name("address group's", body.name),
        description=common.checked_text("description", body.description),
        project_id=common.owner_of(call, body.project_id, body.tenant_id, "create_address_group"),
    )
    return msgspec.structs.replace(group, addresses=added(group, canonical(body.addresses or ())))


def add(api: NetworkApiCollaborators, call: Call, groups: Sequence[AddressGroup]) -> list[dict[str, Any]]:
    return [view(group) for group in api.conductor.create_address_groups(call.ctx, address_groups=tuple(groups))]


def update(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    changes = common.given_fields(call.body.address_group)
    common.check_texts("address group's", changes)

    def attempt() -> AddressGroup:
        group = _owned(api, call)
        common.require_revision(call, group)
        return api.conductor.update_address_group(call.ctx, address_group=msgspec.structs.replace(group, **changes))

    return common.shown(api, call, "address_group", view(common.change(attempt)))


def add_addresses(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    group = _owned(api, call)
    changed = api.conductor.change_addresses(call.ctx, group_id=group.id, add=canonical(call.body.addresses))
    return {"address_group": view(changed)}


def remove_addresses(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    group = _owned(api, call)
    changed = api.conductor.change_addresses(call.ctx, group_id=group.id, remove=canonical(call.body.addresses))
    return {"address_group": view(changed)}


def delete(api: NetworkApiCollaborators, call: Call) -> None:
    group = _owned(api, call)
    api.conductor.delete_address_group(call.ctx, group_id=group.id, **common.revision_argument(call))


def _owned(api: NetworkApiCollaborators, call: Call) -> AddressGroup:
    group = find(api, call, call.path["address_group_id"])
    call.require_for(Target(project_id=group.project_id))
    return group


def find(api: NetworkApiCollaborators, call: Call, group_id: str) -> AddressGroup:
    """Raises AddressGroupNotFound also for another project's group."""
    with api.db.read() as session:
        group = stored.find(session, common.identifier(group_id))
    if group is None or not (call.ctx.is_admin or group.project_id == call.ctx.project_id):
        raise errors.AddressGroupNotFound(f"Address group {group_id[:255]} could not be found.")
    return group


def view(group: AddressGroup) -> dict[str, Any]:
    return {**common.standard(group), "addresses": group.addresses}


def _change(verb: str, handler: Any) -> Route:
    return Route(
        method="PUT",
        path=f"/v2.0/address-groups/{{address_group_id}}/{verb}",
        rule=verb,
        handler=handler,
        body=AddressesBody,
        answer={"address_group": AddressGroupAnswer},
    )


ROUTES: tuple[Route, ...] = (
    *Resource(
        name="address_group",
        answer=AddressGroupAnswer,
        index=list_groups,
        query=AddressGroupsQuery,
        creation=Creation(fields=NewAddressGroup, new=new, add=add),
        show=show,
        update=update,
        changes=UpdateAddressGroup,
        delete=delete,
    ).routes(),
    _change("add_addresses", add_addresses),
    _change("remove_addresses", remove_addresses),
)
