"""`/v2.0/subnetpools`."""

import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.structs import Int64
from minova.api.network import common
from minova.api.network.answers import SubnetPoolAnswer
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.common import Text, Unset
from minova.api.network.resource import Creation, Resource
from minova.api.policies.enforcer import Target
from minova.db.networks import subnet_pools as stored
from minova.objects.network.subnet_pools import (
    BITS,
    SHORTEST,
    SubnetPool,
    check_lengths,
    parse_prefixes,
    require_prefixes,
)

Prefix = Annotated[str, msgspec.Meta(max_length=64)]
Length = Annotated[int, msgspec.Meta(ge=0, le=128)] | Annotated[str, msgspec.Meta(max_length=3, pattern="^[0-9]+$")]
Amount = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]
_SCOPE = "built-in networks have no address scopes"


class NewSubnetPool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`default_quota`: how many addresses, or of IPv6 ranges of /64, each project may have of the pool."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    prefixes: tuple[Prefix, ...]
    description: Text = ""
    default_prefixlen: Length | None = None
    min_prefixlen: Length | None = None
    max_prefixlen: Length | None = None
    default_quota: Amount | None = None
    is_default: bool = False
    shared: bool = False
    address_scope_id: Text | None = None
    project_id: Text | None = None
    tenant_id: Text | None = None


class SubnetPoolChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | Unset = msgspec.UNSET
    description: Text | Unset = msgspec.UNSET
    prefixes: tuple[Prefix, ...] | Unset = msgspec.UNSET
    default_prefixlen: Length | Unset = msgspec.UNSET
    min_prefixlen: Length | Unset = msgspec.UNSET
    max_prefixlen: Length | Unset = msgspec.UNSET
    default_quota: Amount | Unset | None = msgspec.UNSET
    is_default: bool | Unset = msgspec.UNSET
    address_scope_id: Text | Unset | None = msgspec.UNSET


class UpdateSubnetPool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subnetpool: SubnetPoolChanges


class SubnetPoolsQuery(common.ListQuery, frozen=True, kw_only=True):
    ip_version: tuple[Int64, ...] = ()
    default_prefixlen: tuple[Int64, ...] = ()
    min_prefixlen: tuple[Int64, ...] = ()
    max_prefixlen: tuple[Int64, ...] = ()
    default_quota: tuple[Int64, ...] = ()
    shared: bool | None = None
    is_default: bool | None = None


def list_pools(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    query: SubnetPoolsQuery = call.query
    lengths = ("ip_version", "default_prefixlen", "min_prefixlen", "max_prefixlen", "default_quota")
    filters = common.filters_of(query, shared=query.shared, **{name: getattr(query, name) for name in lengths})
    seen_by = None if call.ctx.is_admin else call.ctx.project_id
    with api.db.read() as session:
        return common.listing(
            api,
            call,
            "subnetpools",
            lambda page: stored.visible(session, seen_by, filters, page, is_default=query.is_default),
            view,
        )


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    return common.shown(api, call, "subnetpool", view(find(api, call, call.path["subnetpool_id"])))


def new(api: NetworkApiCollaborators, call: Call, body: NewSubnetPool) -> SubnetPool:
    common.require_each(call, "create_subnetpool", {"shared": body.shared, "is_default": body.is_default})
    common.only_default("address_scope_id", body.address_scope_id is None, _SCOPE)
    prefixes, ip_version = parse_prefixes(body.prefixes)
    shortest = SHORTEST[ip_version] if body.min_prefixlen is None else int(body.min_prefixlen)
    longest = BITS[ip_version] if body.max_prefixlen is None else int(body.max_prefixlen)
    default = shortest if body.default_prefixlen is None else int(body.default_prefixlen)
    check_lengths(ip_version, shortest, longest, default)
    return SubnetPool(
        id=str(uuid.uuid4()),
        name=common.checked_name("subnet pool's", body.name),
        description=common.checked_text("description", body.description),
        project_id=common.owner_of(call, body.project_id, body.tenant_id, "create_subnetpool"),
        prefixes=prefixes,
        ip_version=ip_version,
        default_prefixlen=default,
        min_prefixlen=shortest,
        max_prefixlen=longest,
        default_quota=body.default_quota,
        is_default=body.is_default,
        shared=body.shared,
    )


def add(api: NetworkApiCollaborators, call: Call, pools: Sequence[SubnetPool]) -> list[dict[str, Any]]:
    return [view(pool) for pool in api.conductor.create_subnet_pools(call.ctx, pools=tuple(pools))]


def update(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    changes = common.given_fields(call.body.subnetpool)
    common.require_each(call, "update_subnetpool", {"is_default": "is_default" in changes})
    common.only_default("address_scope_id", changes.pop("address_scope_id", None) is None, _SCOPE)
    common.check_texts("subnet pool's", changes)
    changes |= {name: int(value) for name, value in changes.items() if name.endswith("_prefixlen")}

    def attempt() -> SubnetPool:
        pool = _owned(api, call)
        common.require_revision(call, pool)
        return api.conductor.update_subnet_pool(call.ctx, pool=_changed(pool, changes))

    return common.shown(api, call, "subnetpool", view(common.change(attempt)))


def _changed(pool: SubnetPool, changes: dict[str, Any]) -> SubnetPool:
    values = dict(changes)
    if "prefixes" in changes:
        values["prefixes"], ip_version = parse_prefixes(changes["prefixes"])
        if ip_version != pool.ip_version:
            raise errors.BadRequest("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
        require_prefixes(pool, values["prefixes"])
    after = msgspec.structs.replace(pool, **values)
    check_lengths(after.ip_version, after.min_prefixlen, after.max_prefixlen, after.default_prefixlen)
    return after


def delete(api: NetworkApiCollaborators, call: Call) -> None:
    pool = _owned(api, call)
    api.conductor.delete_subnet_pool(call.ctx, pool_id=pool.id, **common.revision_argument(call))


def _owned(api: NetworkApiCollaborators, call: Call) -> SubnetPool:
    pool = find(api, call, call.path["subnetpool_id"])
    call.require_for(Target(project_id=pool.project_id))
    return pool


def find(api: NetworkApiCollaborators, call: Call, pool_id: str) -> SubnetPool:
    """Raises SubnetPoolNotFound also for a pool that the caller may not use."""
    with api.db.read() as session:
        pool = stored.find(session, common.identifier(pool_id))
    if pool is None or not pool.usable_by(call.ctx.project_id, is_admin=call.ctx.is_admin):
        raise errors.SubnetPoolNotFound(f"Subnet pool {pool_id[:255]} could not be found.")
    return pool


def default_of(api: NetworkApiCollaborators, call: Call, ip_version: int) -> SubnetPool:
    """Raises BadRequest if the caller may use no default pool of this IP version."""
    with api.db.read() as session:
        pool = stored.default_of(session, ip_version)
    if pool is None or not pool.usable_by(call.ctx.project_id, is_admin=call.ctx.is_admin):
        raise errors.BadRequest(f"Bad subnets request: No default subnetpool found for IPv{ip_version}.")
    return pool


def view(pool: SubnetPool) -> dict[str, Any]:
    return {
        **common.standard(pool),
        "prefixes": pool.prefixes,
        "ip_version": pool.ip_version,
        "default_prefixlen": pool.default_prefixlen,
        "min_prefixlen": pool.min_prefixlen,
        "max_prefixlen": pool.max_prefixlen,
        "default_quota": pool.default_quota,
        "is_default": pool.is_default,
        "shared": pool.shared,
        "address_scope_id": None,
    }


ROUTES: tuple[Route, ...] = Resource(
    name="subnetpool",
    answer=SubnetPoolAnswer,
    index=list_pools,
    query=SubnetPoolsQuery,
    creation=Creation(fields=NewSubnetPool, new=new, add=add),
    show=show,
    update=update,
    changes=UpdateSubnetPool,
    delete=delete,
).routes()
