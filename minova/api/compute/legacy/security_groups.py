"""`/os-security-groups` and `/os-security-group-rules`, until 2.35: the security groups of the Network API in Nova's
format.

This format can only express ingress rules.
"""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers.security_groups import shown_groups, shown_rule
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.structs import Int64, page_size
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.security import security_group_rules, security_groups
from minova.db.networks import security_groups as stored
from minova.db.networks.pages import Page
from minova.objects.network.network import SecurityGroup
from minova.uuids import canonical_uuid

Text = Annotated[str, msgspec.Meta(max_length=255)]
Port = Int64 | Text | None
ANYWHERE = "0.0.0.0/0"
ALL_PORTS = (1, 65535)
# In rules: any type and code of ICMP, or any port of a protocol without ports.
ANY = -1


class LegacyGroupsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The value of `all_tenants` does not matter, as in Nova."""

    limit: Int64 | None = None
    offset: Int64 = 0
    all_tenants: str | None = None


class NewLegacyGroup(msgspec.Struct, frozen=True, kw_only=True):
    name: Text
    description: Text


class GroupBody(msgspec.Struct, frozen=True, kw_only=True):
    security_group: NewLegacyGroup


class NewRule(msgspec.Struct, frozen=True, kw_only=True):
    """The allowed source is the members of `group_id` if it is set, else the range `cidr`, else any address."""

    parent_group_id: Text
    group_id: Text | None = None
    ip_protocol: Text | Int64 | None = None
    from_port: Port = None
    to_port: Port = None
    cidr: Text | None = None


class RuleBody(msgspec.Struct, frozen=True, kw_only=True):
    security_group_rule: NewRule


def list_groups(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    query: LegacyGroupsQuery = call.query
    if query.offset < 0:
        raise errors.BadRequest(f"offset must not be negative, and is {query.offset}.")
    size = page_size(query.limit, api.conf.api.max_limit) or int(api.conf.api.max_limit)
    everywhere = call.ctx.is_admin and query.all_tenants is not None
    networks = _network(api)
    security_groups.ensure_default(networks, call)
    with api.db.read() as session:
        # The quota bounds the number of a project's groups.
        seen_by = None if everywhere else call.ctx.project_id
        groups = stored.visible(session, seen_by, {}, Page(limit=min(query.offset + size, _MAX_GROUPS)))
        group_views = shown_groups(session, groups[query.offset :])
    return {"security_groups": sorted(group_views, key=lambda group: (group["tenant_id"], group["name"]))}


# The most groups that one request reads.
_MAX_GROUPS = 100_000


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"security_group": _group_view(api, _find(api, call, _uuid(call)))}


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    body: NewLegacyGroup = call.body.security_group
    new = security_groups.NewSecurityGroup(name=body.name, description=body.description)
    with _in_novas_codes():
        network, as_network = _network(api), _as(call, "create_security_group")
        (created_group,) = security_groups.add(network, as_network, [security_groups.new(network, as_network, new)])
    return {"security_group": _group_view(api, _find(api, call, created_group["id"]))}


def update(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    body: NewLegacyGroup = call.body.security_group
    group_id = _uuid(call)
    changes = security_groups.SecurityGroupChanges(name=body.name, description=body.description)
    changed = _as(
        call,
        "update_security_group",
        body=security_groups.UpdateSecurityGroup(security_group=changes),
        path={"security_group_id": group_id},
    )
    with _in_novas_codes():
        security_groups.update(_network(api), changed)
    return {"security_group": _group_view(api, _find(api, call, group_id))}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    path = {"security_group_id": _uuid(call)}
    with _in_novas_codes():
        security_groups.delete(_network(api), _as(call, "delete_security_group", path=path))


def create_rule(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    body: NewRule = call.body.security_group_rule
    group = _find(api, call, _checked(body.parent_group_id))
    source = None if body.group_id is None else _find(api, call, _checked(body.group_id))
    rule = _new_rule(body, group, source)
    with _in_novas_codes():
        network, as_network = _network(api), _as(call, "create_security_group_rule")
        (created_rule,) = security_group_rules.add(
            network, as_network, [security_group_rules.new(network, as_network, rule)]
        )
    with api.db.read() as session:
        stored_rule = stored.find_rule(session, created_rule["id"])
    if stored_rule is None:
        raise errors.NotFound("The rule has been deleted meanwhile.")
    return {"security_group_rule": shown_rule(stored_rule, {} if source is None else {source.id: source})}


def delete_rule(api: ComputeApiCollaborators, call: Call) -> None:
    path = {"security_group_rule_id": _uuid(call, "security_group_rule_id")}
    with _in_novas_codes():
        security_group_rules.delete(_network(api), _as(call, "delete_security_group_rule", path=path))


def _new_rule(
    body: NewRule, group: SecurityGroup, source: SecurityGroup | None
) -> security_group_rules.NewSecurityGroupRule:
    """Returns the rule for the Network API. Raises BadRequest if it is invalid.

    As in Nova, a rule for a range must have a protocol and ports; a rule for a group need not.
    """
    protocol = None if body.ip_protocol is None else str(body.ip_protocol).lower()
    low, high = body.from_port, body.to_port
    if source is not None and low is None and high is None:
        low, high = ALL_PORTS if protocol in ("tcp", "udp") else (ANY, ANY)
    if source is None and (protocol is None or low is None or high is None):
        raise errors.BadRequest("Not enough parameters to build a valid rule.")
    ports = [_number(port) for port in (low, high)]
    prefix = None if source is not None else _range(body.cidr or ANYWHERE)
    return security_group_rules.NewSecurityGroupRule(
        security_group_id=group.id,
        direction="ingress",
        ethertype="IPv6" if prefix is not None and prefix.version == 6 else "IPv4",
        protocol=protocol,
        port_range_min=None if ports[0] == ANY else ports[0],
        port_range_max=None if ports[1] == ANY else ports[1],
        remote_ip_prefix=None if prefix is None else prefix.with_prefixlen,
        remote_group_id=None if source is None else source.id,
    )


def _number(port: Port) -> int:
    """Raises BadRequest if `port` is not an integer."""
    text = str(port)
    if not (text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) <= 6):
        raise errors.BadRequest("Invalid input received: To and From ports must be integers")
    return int(text)


def _range(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """Returns the range with the address that was given, as Neutron shows it."""
    try:
        block = ipaddress.ip_interface(text)
    except ValueError:
        raise errors.BadRequest(f"Invalid cidr {text[:64]}.") from None
    if block.network.prefixlen == 0 and not text.startswith(("0.0.0.0", "::")):
        raise errors.BadRequest(f"Bad prefix for network in cidr {text[:64]}")
    return block


def _uuid(call: Call, name: str = "security_group_id") -> str:
    return _checked(call.path[name])


def _checked(group_id: str) -> str:
    """Raises BadRequest if `group_id` is not a UUID."""
    uuid = canonical_uuid(group_id)
    if uuid is None:
        raise errors.BadRequest("Security group id should be uuid")
    return uuid


def _find(api: ComputeApiCollaborators, call: Call, group_id: str) -> SecurityGroup:
    return security_groups.find(_network(api), call, group_id)


def _group_view(api: ComputeApiCollaborators, group: SecurityGroup) -> dict[str, Any]:
    with api.db.read() as session:
        return shown_groups(session, [group])[0]


def _network(api: ComputeApiCollaborators) -> NetworkApiCollaborators:
    return NetworkApiCollaborators(conf=api.conf, db=api.db, conductor=api.conductor, waiting=api.waiting)


def _as(call: Call, rule: str, **more: Any) -> Call:
    """Returns the same request for the Network API. Raises Forbidden if the Network API's policy does not permit it,
    too.
    """
    call.require(rule)
    return msgspec.structs.replace(call, rule=rule, **more)


@contextmanager
def _in_novas_codes() -> Iterator[None]:
    """Turns a Conflict into BadRequest, as in Nova: a group is in use, or a rule exists already."""
    try:
        yield
    except errors.Conflict as error:
        raise errors.BadRequest(str(error)) from None


_GROUP = {"security_group": dict[str, Any]}
ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-security-groups",
        rule="os_compute_api:os-security-groups:get",
        handler=list_groups,
        answer={"security_groups": list[dict[str, Any]]},
        query=LegacyGroupsQuery,
        until=(2, 35),
    ),
    *(
        Route(
            method=method,
            path=path,
            rule=f"os_compute_api:os-security-groups:{verb}",
            handler=handler,
            body=body,
            answer=answer,
            status=202 if method == "DELETE" else 200,
            until=(2, 35),
        )
        for method, path, verb, handler, body, answer in (
            ("POST", "/v2.1/os-security-groups", "create", create, GroupBody, _GROUP),
            ("GET", "/v2.1/os-security-groups/{security_group_id}", "show", show, None, _GROUP),
            ("PUT", "/v2.1/os-security-groups/{security_group_id}", "update", update, GroupBody, _GROUP),
            ("DELETE", "/v2.1/os-security-groups/{security_group_id}", "delete", delete, None, {}),
            (
                "POST",
                "/v2.1/os-security-group-rules",
                "rule:create",
                create_rule,
                RuleBody,
                {"security_group_rule": dict[str, Any]},
            ),
            ("DELETE", "/v2.1/os-security-group-rules/{security_group_rule_id}", "rule:delete", delete_rule, None, {}),
        )
    ),
)
