"""`/v2.0/{collection}/{id}/tags`: tags of networks, subnets, subnet pools, ports, security groups and their rules, and address groups."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Handler, Route
from minova.api.network import networks, ports, subnet_pools, subnets
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.security import address_groups, security_group_rules, security_groups
from minova.api.policies.enforcer import Target
from minova.db.networks import tags
from minova.objects.network.network import MAX_TAG, MAX_TAGS

TagText = Annotated[str, msgspec.Meta(max_length=MAX_TAG)]
# Finds the resource in the path of the call. Raises an error if the caller may not see it.
Find = Callable[[NetworkApiCollaborators, Call], Any]


class TagsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tags: tuple[TagText, ...]


class _Tags:
    """The handlers for one kind of resource."""

    def __init__(self, kind: str, find: Find) -> None:
        self._kind = kind
        self._find = find

    def index(self, api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
        return {"tags": self._of(api, self._find(api, call).id)}

    def show(self, api: NetworkApiCollaborators, call: Call) -> None:
        self._require(api, self._find(api, call).id, call.path["tag"])

    def replace(self, api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
        return {"tags": self._change(api, call, add=_checked(call.body.tags), remove=None)}

    def create(self, api: NetworkApiCollaborators, call: Call) -> dict[str, Any]:
        self._change(api, call, add=_checked(call.body.tags))
        return {"tags": call.body.tags}

    def add(self, api: NetworkApiCollaborators, call: Call) -> None:
        tag = call.path["tag"]
        if len(tag) > MAX_TAG:
            raise errors.BadRequest(f"'{tag[:64]}...' exceeds maximum length of {MAX_TAG}")
        self._change(api, call, add=(tag,))

    def delete(self, api: NetworkApiCollaborators, call: Call) -> None:
        tag = call.path["tag"]
        self._require(api, self._owned(api, call), tag)
        self._change(api, call, remove=(tag,))

    def clear(self, api: NetworkApiCollaborators, call: Call) -> None:
        self._change(api, call, remove=None)

    def _change(
        self, api: NetworkApiCollaborators, call: Call, add: tuple[str, ...] = (), remove: tuple[str, ...] | None = ()
    ) -> tuple[str, ...]:
        resource_id = self._owned(api, call)
        return api.conductor.update_network_tags(
            call.ctx, kind=self._kind, resource_id=resource_id, add=add, remove=remove
        )

    def _owned(self, api: NetworkApiCollaborators, call: Call) -> str:
        """Returns the id of the resource. Raises Forbidden if it is another project's."""
        resource = self._find(api, call)
        call.require_for(Target(project_id=resource.project_id))
        return str(resource.id)

    def _of(self, api: NetworkApiCollaborators, resource_id: str) -> list[str]:
        with api.db.read() as session:
            return tags.of_resources(session, [resource_id]).get(resource_id, [])

    def _require(self, api: NetworkApiCollaborators, resource_id: str, tag: str) -> None:
        if tag not in self._of(api, resource_id):
            raise errors.TagNotFound(f"Tag {tag[:MAX_TAG]} could not be found.")


def _checked(tag_names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(tag_names)) < len(tag_names):
        raise errors.BadRequest("Invalid input for operation: Duplicate items in the list of tags.")
    if len(tag_names) > MAX_TAGS:
        raise errors.BadRequest(f"The number of tags exceed the per-resource limit of {MAX_TAGS}")
    return tag_names


def _routes(kind: str, find: Find) -> tuple[Route, ...]:
    of_kind = _Tags(kind, find)
    path = f"/v2.0/{kind.replace('_', '-')}s/{{{kind}_id}}/tags"
    answer = {"tags": list[str]}

    def route(method: str, verb: str, handler: Handler, status: int = 204, **more: Any) -> Route:
        return Route(method=method, rule=f"{verb}_{kind}:tags", handler=handler, status=status, **more)

    return (
        route("GET", "get", of_kind.index, 200, path=path, answer=answer),
        route("PUT", "update", of_kind.replace, 200, path=path, body=TagsBody, answer=answer),
        route("POST", "create", of_kind.create, 200, path=path, body=TagsBody, answer=answer),
        route("DELETE", "delete", of_kind.clear, path=path),
        route("GET", "get", of_kind.show, path=f"{path}/{{tag}}"),
        route("PUT", "update", of_kind.add, 201, path=f"{path}/{{tag}}"),
        route("DELETE", "delete", of_kind.delete, path=f"{path}/{{tag}}"),
    )


ROUTES: tuple[Route, ...] = (
    *_routes("network", lambda api, call: networks.find(api, call, call.path["network_id"])),
    *_routes("subnet", subnets.find),
    *_routes("subnetpool", lambda api, call: subnet_pools.find(api, call, call.path["subnetpool_id"])),
    *_routes("port", ports.find),
    *_routes("security_group", lambda api, call: security_groups.find(api, call, call.path["security_group_id"])),
    *_routes("security_group_rule", security_group_rules.find),
    *_routes("address_group", lambda api, call: address_groups.find(api, call, call.path["address_group_id"])),
)
