"""`/v2.0/quotas`: how many networks, ports and so on a project may have. Limits without a row are those of
the options.
"""

from typing import Annotated, Any

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.network.answers import LimitsAnswer, ProjectLimitsAnswer, UsageAnswer
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.policies.base import AUTHENTICATED
from minova.api.policies.enforcer import Target
from minova.db import models, quotas

# {Neutron's name: ours}
NAMES = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "security_group": "security_group",
    "security_group_rule": "security_group_rule",
    "address_group": "address_group",
    "subnetpool": "subnetpool",
    # Not served: their limits are kept, and nothing is used of them.
    "router": "router",
    "floatingip": "floatingip",
    "rbac_policy": "rbac_policy",
}
LONGEST_ID = 255
READ = "get_quota"

Limit = Annotated[int, msgspec.Meta(ge=-1, le=0x7FFFFFFF)]


class NewNetworkLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """-1 means no limit.

    `force`: the same as without `check_limit`.
    `check_limit`: refuses a limit below the usage. Without it, nothing more can be made until the usage is below the
    limit.
    """

    network: Limit | msgspec.UnsetType = msgspec.UNSET
    subnet: Limit | msgspec.UnsetType = msgspec.UNSET
    port: Limit | msgspec.UnsetType = msgspec.UNSET
    security_group: Limit | msgspec.UnsetType = msgspec.UNSET
    security_group_rule: Limit | msgspec.UnsetType = msgspec.UNSET
    address_group: Limit | msgspec.UnsetType = msgspec.UNSET
    subnetpool: Limit | msgspec.UnsetType = msgspec.UNSET
    router: Limit | msgspec.UnsetType = msgspec.UNSET
    floatingip: Limit | msgspec.UnsetType = msgspec.UNSET
    rbac_policy: Limit | msgspec.UnsetType = msgspec.UNSET
    force: bool = False
    check_limit: bool = False


class UpdateQuota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    quota: NewNetworkLimits


def list_quotas(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    """Lists the projects that have limits of their own."""
    own = select(models.Quota.project_id).where(models.Quota.resource.in_(NAMES.values())).distinct()
    with api.db.read() as session:
        projects = session.scalars(own.order_by(models.Quota.project_id)).all()
        project_quotas = [
            {**_of(api, session, project), "project_id": project, "tenant_id": project} for project in projects
        ]
    return {"quotas": project_quotas}


def show(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    project_id = _readable_project(call)
    with api.db.read() as session:
        return {"quota": _of(api, session, project_id)}


def show_default(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    _readable_project(call)
    with api.db.read() as session:
        limits = quotas.defaults(session, api.conf)
    return {"quota": {name: limits[own] for name, own in NAMES.items()}}


def details(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    """Returns the limits with the usage."""
    project_id = _readable_project(call)
    with api.db.read() as session:
        limits = _of(api, session, project_id)
        used = quotas.current_usages(session, project_id)
    details_by_name = {
        name: {"limit": limit, "used": used.get(NAMES[name], 0), "reserved": 0} for name, limit in limits.items()
    }
    return {"quota": details_by_name}


def update(api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
    """Raises BadRequest if a limit is below the usage, and the body sets `check_limit`."""
    project_id = _project(call)
    body: NewNetworkLimits = call.body.quota
    given_limits = {own: getattr(body, name) for name, own in NAMES.items()}
    limits = {own: limit for own, limit in given_limits.items() if not isinstance(limit, msgspec.UnsetType)}
    api.conductor.update_quota_set(
        call.ctx, project_id=project_id, limits=limits, force=body.force or not body.check_limit
    )
    with api.db.read() as session:
        return {"quota": _of(api, session, project_id)}


def delete(api: NetworkApiCollaborators, call: Call) -> None:
    """Restores the defaults. Idempotent, as with Neutron's default driver."""
    api.conductor.delete_quota_set(call.ctx, project_id=_project(call), resources=tuple(NAMES.values()))


def _of(api: NetworkApiCollaborators, session: Session, project_id: str) -> dict[str, int]:
    limits = quotas.limits_of(session, api.conf, project_id)
    return {name: limits[own] for name, own in NAMES.items()}


def _project(call: Call) -> str:
    """Returns the project in the path. Raises Forbidden if the policy of the route does not permit it."""
    project_id = _in_path(call)
    call.require_for(Target(project_id=project_id))
    return project_id


def _readable_project(call: Call) -> str:
    """Returns the project in the path. As in Neutron, every user may read the limits of the own project. Raises Forbidden for another one if
    the policy does not permit it.
    """
    project_id = _in_path(call)
    if project_id != call.ctx.project_id:
        call.require(READ, Target(project_id=project_id))
    return project_id


def _in_path(call: Call) -> str:
    project_id = call.path["project_id"]
    if len(project_id) > LONGEST_ID or not project_id.isprintable():
        raise errors.BadRequest(f"Invalid project id: it must have {LONGEST_ID} printable characters at most.")
    return project_id


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.0/quotas",
        rule=READ,
        handler=list_quotas,
        answer={"quotas": list[ProjectLimitsAnswer]},
    ),
    Route(
        method="GET", path="/v2.0/quotas/{project_id}", rule=AUTHENTICATED, handler=show, answer={"quota": LimitsAnswer}
    ),
    Route(
        method="GET",
        path="/v2.0/quotas/{project_id}/default",
        rule=AUTHENTICATED,
        handler=show_default,
        answer={"quota": LimitsAnswer},
    ),
    Route(
        method="GET",
        path="/v2.0/quotas/{project_id}/details",
        rule=AUTHENTICATED,
        handler=details,
        answer={"quota": dict[str, UsageAnswer]},
    ),
    Route(
        method="PUT",
        path="/v2.0/quotas/{project_id}",
        rule="update_quota",
        handler=update,
        answer={"quota": LimitsAnswer},
        body=UpdateQuota,
    ),
    Route(method="DELETE", path="/v2.0/quotas/{project_id}", rule="delete_quota", handler=delete, status=204),
)
