"""`/os-quota-sets`, `/os-quota-class-sets` and `/limits`: the limits and the usage of projects."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, added, removed
from minova.api.http.structs import Boolean, is_true
from minova.api.policies.enforcer import Target
from minova.db import quotas
from minova.objects.catalogue.quota import RESOURCES, UNLIMITED

OTHER_PROJECT = "os_compute_api:limits:other_project"
LONGEST_ID = 255
# Nova's names in `limits`, by resource.
ABSOLUTE = {
    "maxServerMeta": "metadata_items",
    "maxImageMeta": "metadata_items",
    "maxPersonality": "injected_files",
    "maxPersonalitySize": "injected_file_content_bytes",
    "maxTotalInstances": "instances",
    "maxTotalCores": "cores",
    "maxTotalRAMSize": "ram",
    "maxTotalKeypairs": "key_pairs",
    "maxTotalFloatingIps": "floating_ips",
    "maxSecurityGroups": "security_groups",
    "maxSecurityGroupRules": "security_group_rules",
    "maxServerGroups": "server_groups",
    "maxServerGroupMembers": "server_group_members",
}
USED = {
    "totalInstancesUsed": "instances",
    "totalCoresUsed": "cores",
    "totalRAMUsed": "ram",
    "totalServerGroupsUsed": "server_groups",
    "totalFloatingIpsUsed": "floating_ips",
    "totalSecurityGroupsUsed": "security_groups",
}

Limit = Annotated[int, msgspec.Meta(ge=-1, le=0x7FFFFFFF)]
LimitText = Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,10}$")]
Settable = Limit | LimitText | msgspec.UnsetType


class NewComputeLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Numbers may be strings, as in Nova."""

    instances: Settable = msgspec.UNSET
    cores: Settable = msgspec.UNSET
    ram: Settable = msgspec.UNSET
    metadata_items: Settable = msgspec.UNSET
    key_pairs: Settable = msgspec.UNSET
    injected_files: Settable = msgspec.UNSET
    injected_file_content_bytes: Settable = msgspec.UNSET
    injected_file_path_bytes: Settable = msgspec.UNSET
    server_groups: Settable = msgspec.UNSET
    server_group_members: Settable = msgspec.UNSET
    fixed_ips: Settable = msgspec.UNSET
    floating_ips: Settable = msgspec.UNSET
    security_groups: Settable = msgspec.UNSET
    security_group_rules: Settable = msgspec.UNSET
    # minova's own: the limits of images.
    image_count_total: Settable = msgspec.UNSET
    image_size_total: Settable = msgspec.UNSET


class NewQuotaSet(NewComputeLimits, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`force`: permits limits below the usage. `tenant_id` has no effect, as in Nova."""

    force: Boolean = False
    tenant_id: str | None = None


class UpdateQuotaSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    quota_set: NewQuotaSet


class UpdateQuotaClassSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    quota_class_set: NewComputeLimits


_OF_NETWORKS = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
_OF_FILES = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
_OF_GROUPS = ("server_groups", "server_group_members")
BODY_HISTORY = History(NewQuotaSet, removed("2.36", *_OF_NETWORKS), removed("2.57", *_OF_FILES))
TAKEN_OF_CLASSES = History(NewComputeLimits, removed("2.50", *_OF_NETWORKS), removed("2.57", *_OF_FILES))
ANSWER_HISTORY = History(None, removed("2.36", *_OF_NETWORKS), removed("2.57", *_OF_FILES), title="quota_set")
SHOWN_OF_CLASSES = History(
    None,
    added("2.50", *_OF_GROUPS),
    removed("2.50", *_OF_NETWORKS),
    removed("2.57", *_OF_FILES),
    title="quota_class_set",
)
LIMITS_ANSWER_HISTORY = History(
    None,
    removed("2.36", "maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules"),
    removed("2.36", "totalFloatingIpsUsed", "totalSecurityGroupsUsed"),
    removed("2.39", "maxImageMeta"),
    removed("2.57", "maxPersonality", "maxPersonalitySize"),
    title="limits",
)


class QuotaQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Users have no limits of their own. As in Nova with unified limits, a request for a user returns those of the project."""

    user_id: str | None = None


class LimitsQuery(msgspec.Struct, frozen=True, kw_only=True):
    tenant_id: str | None = None


class QuotaDetail(msgspec.Struct, frozen=True, kw_only=True):
    in_use: int
    limit: int
    reserved: int = 0


class LimitsView(msgspec.Struct, frozen=True, kw_only=True):
    """`rate` is empty: minova does not limit rates."""

    rate: tuple[str, ...] = ()
    absolute: dict[str, int]


QUERY_HISTORY = History(QuotaQuery, strict_since=(2, 75))
ASKED_LIMITS = History(LimitsQuery, strict_since=(2, 75))


# -- quota sets --------------------------------------------------------------------------------------------------------


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    project_id = _project(call, of_user=True)
    with api.db.read() as session:
        return {"quota_set": {"id": project_id, **_limits_view(call, quotas.limits_of(session, api.conf, project_id))}}


def detail(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    project_id = _project(call, of_user=True)
    with api.db.read() as session:
        limits = quotas.limits_of(session, api.conf, project_id)
        used = quotas.current_usages(session, project_id)
    rows = {
        name: QuotaDetail(in_use=used.get(name, 0), limit=limit) for name, limit in _limits_view(call, limits).items()
    }
    return {"quota_set": {"id": project_id, **rows}}


def show_defaults(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        return {"quota_set": {"id": _named_project(call), **_limits_view(call, quotas.defaults(session, api.conf))}}


def update(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises BadRequest if a limit is below the usage and force is not set."""
    project_id = _project(call)
    body: NewQuotaSet = call.body.quota_set
    api.conductor.update_quota_set(call.ctx, project_id=project_id, limits=_new_limits(body), force=is_true(body.force))
    with api.db.read() as session:
        return {"quota_set": _limits_view(call, quotas.limits_of(session, api.conf, project_id))}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    """Keeps the limits that the Network API sets, as with Neutron."""
    resources = tuple(resource.name for resource in RESOURCES.values() if not resource.in_network)
    api.conductor.delete_quota_set(call.ctx, project_id=_project(call), resources=resources)


# -- classes -----------------------------------------------------------------------------------------------------------


def show_class(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    name = _named_project(call)
    with api.db.read() as session:
        return {"quota_class_set": {"id": name, **_shown_class(call, quotas.defaults(session, api.conf, name))}}


def update_class(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    name = _named_project(call)
    limits = _new_limits(call.body.quota_class_set)
    api.conductor.update_quota_class_set(call.ctx, class_name=name, limits=limits)
    with api.db.read() as session:
        return {"quota_class_set": _shown_class(call, quotas.defaults(session, api.conf, name))}


# -- limits ------------------------------------------------------------------------------------------------------------


def limits(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Returns the limits of the caller's own project, or of another one if the policy permits it."""
    query: LimitsQuery = call.query
    project_id = query.tenant_id or call.ctx.project_id
    if project_id != call.ctx.project_id:
        call.require(OTHER_PROJECT)
    with api.db.read() as session:
        limit = quotas.limits_of(session, api.conf, project_id)
        used = quotas.current_usages(session, project_id)
    absolute = {name: limit[resource] for name, resource in ABSOLUTE.items()}
    absolute |= {name: used.get(resource, 0) for name, resource in USED.items()}
    return {"limits": LimitsView(absolute=call.shown_keys(LIMITS_ANSWER_HISTORY, absolute))}


def _project(call: Call, *, of_user: bool = False) -> str:
    """Returns the project in the path.

    Raises BadRequest if the request names a user that is not allowed here.
    Raises Forbidden if the policy does not permit the request for this project.
    """
    query: QuotaQuery | None = call.query
    if query is not None and query.user_id is not None and not of_user:
        raise errors.BadRequest("Quotas of users are not served; quotas are of projects.")
    project_id = _named_project(call)
    call.require_for(Target(project_id=project_id))
    return project_id


def _named_project(call: Call) -> str:
    name = call.path["name"]
    if len(name) > LONGEST_ID or not name.isprintable():
        raise errors.BadRequest(f"Invalid id: it must have {LONGEST_ID} printable characters at most.")
    return name


def _limits_view(call: Call, limits: Mapping[str, int], history: History = ANSWER_HISTORY) -> dict[str, int]:
    """Selects the limits to show. The Network API shows those of networks. Glance shows those of images, and here
    minova's own clients see them if they are limited.
    """
    limits = call.shown_keys(history, limits)
    shown_limits = {name: limit for name, limit in limits.items() if not RESOURCES[name].in_network}
    more = call.shows_all
    return {
        name: limit
        for name, limit in shown_limits.items()
        if RESOURCES[name].in_compute or (more and limit != UNLIMITED)
    }


def _shown_class(call: Call, limits: Mapping[str, int]) -> dict[str, int]:
    return _limits_view(call, limits, SHOWN_OF_CLASSES)


def _new_limits(body: NewComputeLimits) -> dict[str, int]:
    """Raises BadRequest if a string holds a number that is too large."""
    body_limits = {name: getattr(body, name) for name in NewComputeLimits.__struct_fields__}
    new_limits = {name: int(value) for name, value in body_limits.items() if value is not msgspec.UNSET}
    for name, value in new_limits.items():
        if not UNLIMITED <= value <= 0x7FFFFFFF:
            raise errors.BadRequest(f"Quota limit for {name} must be from -1 to 2147483647, and is {value}.")
    return new_limits


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/limits",
        rule="os_compute_api:limits",
        handler=limits,
        answer={"limits": LimitsView},
        query=LimitsQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-quota-sets/{name}",
        rule="os_compute_api:os-quota-sets:show",
        handler=show,
        answer={"quota_set": dict[str, int | str]},
        query=QuotaQuery,
    ),
    Route(
        method="PUT",
        path="/v2.1/os-quota-sets/{name}",
        rule="os_compute_api:os-quota-sets:update",
        handler=update,
        answer={"quota_set": dict[str, int | str]},
        query=QuotaQuery,
        body=UpdateQuotaSet,
    ),
    Route(
        method="DELETE",
        path="/v2.1/os-quota-sets/{name}",
        rule="os_compute_api:os-quota-sets:delete",
        handler=delete,
        query=QuotaQuery,
        status=202,
    ),
    Route(
        method="GET",
        path="/v2.1/os-quota-sets/{name}/detail",
        rule="os_compute_api:os-quota-sets:detail",
        handler=detail,
        answer={"quota_set": dict[str, QuotaDetail | str]},
        query=QuotaQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/os-quota-sets/{name}/defaults",
        rule="os_compute_api:os-quota-sets:defaults",
        handler=show_defaults,
        answer={"quota_set": dict[str, int | str]},
    ),
    Route(
        method="GET",
        path="/v2.1/os-quota-class-sets/{name}",
        rule="os_compute_api:os-quota-class-sets:show",
        handler=show_class,
        answer={"quota_class_set": dict[str, int | str]},
    ),
    Route(
        method="PUT",
        path="/v2.1/os-quota-class-sets/{name}",
        rule="os_compute_api:os-quota-class-sets:update",
        handler=update_class,
        answer={"quota_class_set": dict[str, int | str]},
        body=UpdateQuotaClassSet,
    ),
)
