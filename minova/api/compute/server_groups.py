"""`/os-server-groups`: groups of servers for affinity and anti-affinity."""

import uuid
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http import names
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, added, changed, removed, required
from minova.api.http.structs import Int64, page_size
from minova.api.policies.enforcer import Target
from minova.db.catalogue import server_groups
from minova.objects.catalogue.instance_group import ANTI_AFFINITY, InstanceGroup

Policy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=0x7FFFFFFF)]


class GroupRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_server_per_host: AtLeastOne | msgspec.UnsetType = msgspec.UNSET


class NewServerGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`policies`: a list of one policy; `policy` and `rules` replace it."""

    name: str
    policies: Annotated[list[Policy], msgspec.Meta(min_length=1, max_length=1)] | msgspec.UnsetType = msgspec.UNSET
    policy: Policy | msgspec.UnsetType = msgspec.UNSET
    rules: GroupRules | msgspec.UnsetType = msgspec.UNSET


class CreateGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server_group: NewServerGroup


class ServerGroupsQuery(msgspec.Struct, frozen=True, kw_only=True):
    all_projects: str | None = None
    limit: Int64 | None = None
    offset: Int64 = 0


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """`metadata` is empty, as in Nova."""

    id: str
    name: str
    policies: tuple[str, ...]
    metadata: dict[str, str] = {}
    members: tuple[str, ...]
    project_id: str
    user_id: str
    policy: str
    rules: dict[str, int]


QUERY_HISTORY = History(ServerGroupsQuery, strict_since=(2, 75))
BODY_HISTORY = History(
    NewServerGroup,
    changed("2.15", "policies", note="soft-affinity and soft-anti-affinity are taken"),
    added("2.64", "policy", "rules"),
    removed("2.64", "policies"),
    required("2.64", "policy"),
)
ANSWER_HISTORY = History(
    GroupView,
    added("2.13", "project_id", "user_id"),
    added("2.64", "policy", "rules"),
    removed("2.64", "policies", "metadata"),
)


def list_groups(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists the groups of all projects if the request wants that and the policy permits it; otherwise those of the
    caller's project, as in Nova.
    """
    query: ServerGroupsQuery = call.query
    if query.offset < 0:
        raise errors.BadRequest(f"offset must not be negative, and is {query.offset}.")
    every = query.all_projects is not None and call.permits("os_compute_api:os-server-groups:index:all_projects")
    size = page_size(query.limit, api.conf.api.max_limit)
    with api.db.read() as session:
        groups = server_groups.all_of(session, None if every else call.ctx.project_id, query.offset, size)
    return {"server_groups": [view(call, group) for group in groups]}


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"server_group": view(call, _find(api, call))}


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    body: NewServerGroup = call.body.server_group
    name = names.checked("Server group name", body.name)
    chosen = _policy(body)
    if chosen.policy.startswith("soft-") and not (call.since("2.15") or call.shows_all):
        raise errors.BadRequest(
            f"Invalid input for field/attribute policies. '{chosen.policy}' is not one of ['anti-affinity', 'affinity']"
        )
    create_group = partial(
        api.conductor.create_server_group,
        call.ctx,
        name=name,
        policy=chosen.policy,
        max_server_per_host=chosen.max_server_per_host,
    )
    try:
        group = create_group(group_uuid=str(uuid.uuid4()))
    except errors.PeerTooOld:  # during an upgrade: if its answer is lost, the group is not found
        group = create_group()
    return {"server_group": view(call, group)}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    api.conductor.delete_server_group(call.ctx, group_uuid=_find(api, call).uuid)


class ChosenPolicy(NamedTuple):
    policy: str
    max_server_per_host: int | None = None


def _policy(body: NewServerGroup) -> ChosenPolicy:
    if isinstance(body.policies, msgspec.UnsetType) == isinstance(body.policy, msgspec.UnsetType):
        raise errors.BadRequest(
            "Invalid input for field/attribute server_group. 'policies' is a required property: a list of one. Since 2.64 it is 'policy'."
        )
    if isinstance(body.policy, msgspec.UnsetType):
        if not isinstance(body.rules, msgspec.UnsetType):
            raise errors.BadRequest("Invalid input for server_group: rules go with policy, not with policies.")
        assert not isinstance(body.policies, msgspec.UnsetType)
        return ChosenPolicy(body.policies[0])
    if isinstance(body.rules, msgspec.UnsetType) or isinstance(body.rules.max_server_per_host, msgspec.UnsetType):
        return ChosenPolicy(body.policy)
    if body.policy != ANTI_AFFINITY:
        raise errors.BadRequest(f"Only {ANTI_AFFINITY} policy supports rules.")
    return ChosenPolicy(body.policy, body.rules.max_server_per_host)


def _find(api: ComputeApiCollaborators, call: Call) -> InstanceGroup:
    """Raises NotFound also for a group of another project: Nova's 403 would reveal that the group exists."""
    group_id = call.path["group_id"]
    with api.db.read() as session:
        group = server_groups.find(session, group_id) if len(group_id) <= 36 else None
    if group is None or (group.project_id != call.ctx.project_id and not call.ctx.is_admin):
        raise errors.NotFound(f"Instance group {group_id[:255]} could not be found.")
    call.require_for(Target(project_id=group.project_id, user_id=group.user_id))
    return group


def view(call: Call, group: InstanceGroup) -> GroupView:
    complete = GroupView(
        id=group.uuid,
        name=group.name,
        policies=(group.policy,),
        members=group.members,
        project_id=group.project_id,
        user_id=group.user_id,
        policy=group.policy,
        rules=group.rules,
    )
    return call.shown(ANSWER_HISTORY, complete)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-server-groups",
        rule="os_compute_api:os-server-groups:index",
        handler=list_groups,
        answer={"server_groups": list[GroupView]},
        query=ServerGroupsQuery,
    ),
    Route(
        method="POST",
        path="/v2.1/os-server-groups",
        rule="os_compute_api:os-server-groups:create",
        handler=create,
        answer={"server_group": GroupView},
        body=CreateGroup,
    ),
    Route(
        method="GET",
        path="/v2.1/os-server-groups/{group_id}",
        rule="os_compute_api:os-server-groups:show",
        handler=show,
        answer={"server_group": GroupView},
    ),
    Route(
        method="DELETE",
        path="/v2.1/os-server-groups/{group_id}",
        rule="os_compute_api:os-server-groups:delete",
        handler=delete,
        status=204,
    ),
)
