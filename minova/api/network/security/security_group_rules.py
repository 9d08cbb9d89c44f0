"""`/v2.0/security-group-rules`."""

import uuid
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.structs import Int64
from minova.api.network import common
from minova.api.network.answers import SecurityGroupRuleAnswer
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import Text
from minova.api.network.resource import Creation, Resource
from minova.api.network.security import address_groups, security_groups
from minova.api.network.security.security_groups import rule_view
from minova.api.policies.enforcer import Target
from minova.db.networks import security_groups as stored
from minova.objects.network import security_rules
from minova.objects.network.network import SecurityGroupRule


class NewSecurityGroupRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    security_group_id: Text
    direction: Literal["ingress", "egress"]
    ethertype: Literal["IPv4", "IPv6"] | None = None
    protocol: Text | Int64 | None = None
    port_range_min: Int64 | None = None
    port_range_max: Int64 | None = None
    remote_ip_prefix: Text | None = None
    remote_group_id: Text | None = None
    remote_address_group_id: Text | None = None
    description: Text = ""
    project_id: Text | None = None
    tenant_id: Text | None = None


class RulesQuery(common.TaggedQuery, frozen=True, kw_only=True):
    security_group_id: tuple[str, ...] = ()
    remote_group_id: tuple[str, ...] = ()
    remote_address_group_id: tuple[str, ...] = ()
    direction: tuple[str, ...] = ()
    ethertype: tuple[str, ...] = ()
    protocol: tuple[str, ...] = ()
    port_range_min: tuple[Int64, ...] = ()
    port_range_max: tuple[Int64, ...] = ()
    remote_ip_prefix: tuple[str, ...] = ()


def list_rules(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    query: RulesQuery = call.query
    remotes = ("remote_group_id", "remote_address_group_id", "remote_ip_prefix")
    ports = ("port_range_min", "port_range_max")
    names = ("security_group_id", "direction", "ethertype", "protocol", *ports, *remotes)
    filters = common.filters_of(query, **{name: getattr(query, name) for name in names})
    seen_by = None if call.ctx.is_admin else call.ctx.project_id
    security_groups.ensure_default(api, call)
    with api.db.read() as session:
        return common.listing(
            api,
            call,
            "security_group_rules",
            lambda page: stored.visible_rules(session, seen_by, filters, page),
            rule_view,
        )


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    return common.shown(api, call, "security_group_rule", rule_view(find(api, call)))


def new(api: NetworkApiCollaborators, call: Call, body: NewSecurityGroupRule) -> SecurityGroupRule:
    group = security_groups.find(api, call, body.security_group_id)
    call.require_for(Target(project_id=group.project_id))
    ethertype = body.ethertype or "IPv4"
    remote = None if body.remote_group_id is None else security_groups.find(api, call, body.remote_group_id).id
    ranges = body.remote_address_group_id
    rule = SecurityGroupRule(
        id=str(uuid.uuid4()),
        security_group_id=group.id,
        project_id=group.project_id,
        direction=body.direction,
        ethertype=ethertype,
        protocol=security_rules.canonical_protocol(body.protocol, ethertype),
        port_range_min=body.port_range_min,
        port_range_max=body.port_range_max,
        remote_ip_prefix=security_rules.canonical_prefix(body.remote_ip_prefix, ethertype),
        remote_group_id=remote,
        remote_address_group_id=None if ranges is None else address_groups.find(api, call, ranges).id,
        description=common.checked_text("description", body.description),
    )
    security_rules.check(rule)
    return rule


def add(api: NetworkApiCollaborators, call: Call, rules: Sequence[SecurityGroupRule]) -> list[dict[str, Any]]:
    return [rule_view(rule) for rule in api.conductor.create_security_group_rules(call.ctx, rules=tuple(rules))]


def delete(api: NetworkApiCollaborators, call: Call) -> None:
    rule = find(api, call)
    call.require_for(Target(project_id=rule.project_id))
    api.conductor.delete_security_group_rule(call.ctx, rule_id=rule.id, **common.revision_argument(call))


def find(api: NetworkApiCollaborators, call: Call) -> SecurityGroupRule:
    """Raises SecurityGroupRuleNotFound also for another project's rule."""
    rule_id = call.path["security_group_rule_id"]
    with api.db.read() as session:
        rule = stored.find_rule(session, common.identifier(rule_id))
    if rule is None or not (call.ctx.is_admin or rule.project_id == call.ctx.project_id):
        raise errors.SecurityGroupRuleNotFound(f"Security group rule {rule_id[:255]} does not exist")
    return rule


ROUTES: tuple[Route, ...] = Resource(
    name="security_group_rule",
    answer=SecurityGroupRuleAnswer,
    index=list_rules,
    query=RulesQuery,
    creation=Creation(fields=NewSecurityGroupRule, new=new, add=add),
    show=show,
    delete=delete,
).routes()
