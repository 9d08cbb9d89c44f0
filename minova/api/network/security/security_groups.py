"""`/v2.0/security-groups`."""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.network import common
from minova.api.network.answers import SecurityGroupAnswer
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import ListQuery, Text, Unset
from minova.api.network.removal import delete_once_free
from minova.api.network.resource import Creation, Resource
from minova.api.policies.enforcer import Target
from minova.db.networks import ports, security_groups
from minova.objects.network.network import DEFAULT_GROUP, SecurityGroup, SecurityGroupRule
from minova.objects.network.security_rules import normalized

_STATEFUL = "connections are always followed"


class NewSecurityGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`stateful`: connections are always tracked."""

    name: Text
    description: Text = ""
    stateful: bool = True
    project_id: Text | None = None
    tenant_id: Text | None = None


class SecurityGroupsQuery(ListQuery, frozen=True, kw_only=True):
    stateful: bool | None = None
    shared: bool | None = None


class SecurityGroupChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Text | Unset = msgspec.UNSET
    description: Text | Unset = msgspec.UNSET
    stateful: bool | Unset = msgspec.UNSET


class UpdateSecurityGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    security_group: SecurityGroupChanges


def list_groups(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists the groups. The first listing of a project makes its default group."""
    filters = common.filters_of(call.query)
    if call.query.stateful is False or call.query.shared:
        filters["uuid"] = ("",)
    seen_by = None if call.ctx.is_admin else call.ctx.project_id
    # During an alarm of the broker the list is answered without a group that a later one makes.
    with suppress(errors.BrokerBlocked, errors.NoAnswer):
        ensure_default(api, call)
    with api.db.read() as session:
        return common.listing(
            api, call, "security_groups", lambda page: security_groups.visible(session, seen_by, filters, page), view
        )


def ensure_default(api: NetworkApiCollaborators, call: Call) -> None:
    with api.db.read() as session:
        default_group = security_groups.default_of(session, call.ctx.project_id)
    if default_group is None:
        api.conductor.ensure_default_security_group(call.ctx, project_id=call.ctx.project_id)


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    return common.shown(api, call, "security_group", view(find(api, call, call.path["security_group_id"])))


def new(api: NetworkApiCollaborators, call: Call, body: NewSecurityGroup) -> SecurityGroup:
    if body.name == DEFAULT_GROUP:
        raise errors.Conflict("Default security group already exists.")
    common.only_default("stateful", body.stateful, _STATEFUL)
    return SecurityGroup(
        id=str(uuid.uuid4()),
        name=common.checked_name("security group's", body.name),
        description=common.checked_text("description", body.description),
        project_id=common.owner_of(call, body.project_id, body.tenant_id, "create_security_group"),
    )


def add(api: NetworkApiCollaborators, call: Call, groups: Sequence[SecurityGroup]) -> list[dict[str, Any]]:
    return [view(group) for group in api.conductor.create_security_groups(call.ctx, groups=tuple(groups))]


def update(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    changes = common.given_fields(call.body.security_group)
    common.check_texts("security group's", changes)
    common.only_default("stateful", changes.pop("stateful", True), _STATEFUL)

    def attempt() -> SecurityGroup:
        group = _owned(api, call)
        common.require_revision(call, group)
        if group.is_default and changes.get("name", group.name) != group.name:
            raise errors.Conflict("Updating default security group not allowed.")
        return api.conductor.update_security_group(call.ctx, group=msgspec.structs.replace(group, **changes))

    return common.shown(api, call, "security_group", view(common.change(attempt)))


def delete(api: NetworkApiCollaborators, call: Call) -> None:
    """Only an administrator may delete the default group of a project, together with the project. The project's next
    port makes it again.
    """
    group = _owned(api, call)
    revision = common.revision_argument(call)
    if group.is_default and not call.ctx.is_admin:
        raise errors.SecurityGroupCannotRemoveDefault("Insufficient rights for removing default security group.")
    delete_once_free(
        api,
        call,
        lambda: api.conductor.delete_security_group(call.ctx, group_id=group.id, **revision),
        lambda session: ports.only_pending_delete_of_group(session, group.id),
    )


def _owned(api: NetworkApiCollaborators, call: Call) -> SecurityGroup:
    group = find(api, call, call.path["security_group_id"])
    call.require_for(Target(project_id=group.project_id))
    return group


def find(api: NetworkApiCollaborators, call: Call, group_id: str) -> SecurityGroup:
    """Raises SecurityGroupNotFound also for another project's group."""
    with api.db.read() as session:
        group = security_groups.find(session, common.identifier(group_id))
    if group is None or not (call.ctx.is_admin or group.project_id == call.ctx.project_id):
        raise errors.SecurityGroupNotFound(f"Security group {group_id[:255]} does not exist")
    return group


def view(group: SecurityGroup) -> dict[str, Any]:
    return {
        **common.standard(group),
        "stateful": True,
        "shared": False,
        "security_group_rules": [rule_view(rule) for rule in group.rules],
    }


def rule_view(rule: SecurityGroupRule) -> dict[str, Any]:
    return {
        **common.standard(rule),
        "security_group_id": rule.security_group_id,
        "direction": rule.direction,
        "ethertype": rule.ethertype,
        "protocol": rule.protocol,
        "port_range_min": rule.port_range_min,
        "port_range_max": rule.port_range_max,
        "remote_ip_prefix": rule.remote_ip_prefix,
        "normalized_cidr": normalized(rule.remote_ip_prefix),
        "remote_group_id": rule.remote_group_id,
        "remote_address_group_id": rule.remote_address_group_id,
    }


ROUTES: tuple[Route, ...] = Resource(
    name="security_group",
    answer=SecurityGroupAnswer,
    index=list_groups,
    query=SecurityGroupsQuery,
    creation=Creation(fields=NewSecurityGroup, new=new, add=add),
    show=show,
    update=update,
    changes=UpdateSecurityGroup,
    delete=delete,
).routes()
