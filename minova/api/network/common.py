"""Code that networks, subnets and ports share: texts of bodies, listings, owners, changes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import msgspec

from minova import errors
from minova.api.http import names, times
from minova.api.http.call import Call
from minova.api.http.structs import Int64, page_size
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.policies.enforcer import Target
from minova.db.networks.pages import Page, Sort
from minova.db.networks.tags import TABLES, TagFilter, of_resources
from minova.objects.network.address_groups import AddressGroup
from minova.objects.network.network import MAX_TAGS, Network, Port, SecurityGroup, SecurityGroupRule, Subnet
from minova.objects.network.subnet_pools import SubnetPool
from minova.races import CHANGED, repeat_lost
from minova.uuids import canonical_uuid

Resource = TypeVar("Resource", Network, Subnet, SubnetPool, Port, SecurityGroup, SecurityGroupRule, AddressGroup)
Text = Annotated[str, msgspec.Meta(max_length=255)]
Unset = msgspec.UnsetType
# The most values of one filter.
MAX_VALUES = 200
# {collection: {key by which it is sorted: column}}. The keys are Neutron's, and times and revisions.
_STANDARD = {
    "id": "uuid",
    "project_id": "project_id",
    "tenant_id": "project_id",
    **{key: key for key in ("description", "revision_number", "created_at", "updated_at")},
}
_NAMED = {**_STANDARD, "name": "name"}


def _keys(*columns: str, **renamed: str) -> dict[str, str]:
    return {**{column: column for column in columns}, **renamed}


SORT_KEYS: Mapping[str, Mapping[str, str]] = {
    # The status of every network is the same.
    "networks": _NAMED | _keys("admin_state_up", "mtu", "port_security_enabled", "shared", status="id"),
    "subnets": _NAMED | _keys("ip_version", "network_id", "cidr", "gateway_ip", "enable_dhcp", subnetpool_id="pool_id"),
    "subnetpools": _NAMED
    | _keys("ip_version", "default_prefixlen", "min_prefixlen", "max_prefixlen", "default_quota", "shared"),
    "ports": _NAMED | _keys("network_id", "admin_state_up", "mac_address", "device_id", "device_owner", "status"),
    "security_groups": _NAMED,
    "security_group_rules": _STANDARD
    | _keys("direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix")
    | {"security_group_id": "group_id", "remote_group_id": "remote_group_id"},
    "address_groups": _NAMED,
}


class NetworkPageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The query of every listing. A filter is a tuple of values, of which one must match; a listing refuses filters that
    it does not have.

    `changed_since`: a time in ISO 8601; only what was changed then or later.
    """

    limit: Int64 | None = None
    marker: str | None = None
    page_reverse: bool = False
    sort_key: tuple[str, ...] = ()
    sort_dir: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    description: tuple[str, ...] = ()
    project_id: tuple[str, ...] = ()
    tenant_id: tuple[str, ...] = ()
    revision_number: tuple[Int64, ...] = ()
    changed_since: str | None = None


class TaggedQuery(NetworkPageQuery, frozen=True, kw_only=True):
    """The query of a listing of resources with tags."""

    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = msgspec.field(name="tags-any", default=())
    not_tags: tuple[str, ...] = msgspec.field(name="not-tags", default=())
    not_tags_any: tuple[str, ...] = msgspec.field(name="not-tags-any", default=())


class ListQuery(TaggedQuery, frozen=True, kw_only=True):
    """The query of a listing of resources with names, too."""

    name: tuple[str, ...] = ()


class FieldsQuery(msgspec.Struct, frozen=True, kw_only=True):
    fields: tuple[str, ...] = ()


def filters_of(query: Any, **more: Any) -> dict[str, Sequence[Any]]:
    """Returns the values of the filters by column.

    `more`: filters of one kind of resource; empty ones are left out.
    """
    values_by_column: dict[str, Any] = {
        "uuid": query.id,
        "name": getattr(query, "name", ()),
        "description": query.description,
        "project_id": (*query.project_id, *query.tenant_id),
        "admin_state_up": getattr(query, "admin_state_up", None),
        "revision_number": query.revision_number,
        **more,
    }
    filters: dict[str, Sequence[Any]] = {}
    for column, values in values_by_column.items():
        if values is None or values == ():
            continue
        filters[column] = values if isinstance(values, tuple) else (values,)
        if len(filters[column]) > MAX_VALUES:
            raise errors.BadRequest(f"A filter takes {MAX_VALUES} values at most.")
    return filters


def listing(
    api: NetworkApiCollaborators,
    call: Call,
    name: str,
    read: Callable[[Page], Sequence[Resource]],
    view: Callable[[Resource], dict[str, Any]],
) -> dict[str, Any]:
    """Returns a page of `name`, with links to the next and previous pages if they exist."""
    query: NetworkPageQuery = call.query
    tag_filter = _tag_filter(query) if isinstance(query, TaggedQuery) else TagFilter()
    size = page_size(query.limit, api.conf.api.max_limit) or int(api.conf.api.max_limit)
    first = Page(
        limit=size + 1,
        marker=query.marker,
        reverse=query.page_reverse,
        tags=tag_filter,
        sorts=_sorts(name, query.sort_key, query.sort_dir),
        changed_since=None if query.changed_since is None else times.parse(query.changed_since),
    )
    try:
        resources = list(read(first))
    except LookupError:
        raise errors.BadRequest(f"Invalid input for marker. Reason: {str(query.marker)[:64]} does not exist.") from None
    more = len(resources) > size
    page = resources[-size:] if query.page_reverse else resources[:size]
    documents = tagged(api, name.removesuffix("s"), [view(each) for each in page])
    answer: dict[str, Any] = {name: [_only(each, query.fields) for each in documents]}
    links = _links(call, name, page, query, more=more)
    if links:
        answer[f"{name}_links"] = links
    return answer


def _sorts(name: str, keys: Sequence[str], directions: Sequence[str]) -> tuple[Sort, ...]:
    """Raises BadRequest, as Neutron does, for unknown keys and directions, and if their numbers differ; also for more keys than exist,
    because each key makes the condition of a page longer. A column that comes again changes no order.
    """
    if len(keys) != len(directions):
        raise errors.BadRequest("The number of sort_keys and sort_dirs must be same")
    columns = SORT_KEYS[name]
    if len(keys) > len(columns):
        raise errors.BadRequest(f"There are {len(keys)} sort_keys, and at most {len(columns)} are allowed.")
    unknown = [key[:64] for key in keys if key not in columns]
    if unknown:
        raise errors.BadRequest(f"{unknown} is invalid attribute for sort_keys")
    wrong = [direction[:64] for direction in directions if direction not in ("asc", "desc")]
    if wrong:
        raise errors.BadRequest(f"{wrong} is invalid value for sort_dirs, valid value is 'asc' and 'desc'")
    first: dict[str, bool] = {}
    for key, direction in zip(keys, directions, strict=True):
        first.setdefault(columns[key], direction == "asc")
    return tuple(Sort(column, ascending) for column, ascending in first.items())


def _links(
    call: Call, name: str, page: Sequence[Resource], query: NetworkPageQuery, *, more: bool
) -> list[dict[str, str]]:
    if not page:
        return []
    links = []
    if more if not query.page_reverse else query.marker is not None:
        links.append({"rel": "next", "href": _page_url(call, name, page[-1].id, reverse=False)})
    if query.marker is not None if not query.page_reverse else more:
        links.append({"rel": "previous", "href": _page_url(call, name, page[0].id, reverse=True)})
    return links


def _page_url(call: Call, name: str, marker: str, *, reverse: bool) -> str:
    pairs: list[tuple[str, str]] = []
    for key, value in call.request.params.items():
        values: Sequence[str] = value if isinstance(value, list) else [value]
        pairs += [(key, each) for each in values if key not in ("marker", "page_reverse")]
    pairs.append(("marker", marker))
    if reverse:
        pairs.append(("page_reverse", "True"))
    return call.url(f"/v2.0/{name.replace('_', '-')}?{urlencode(pairs)}")


def _tag_filter(query: TaggedQuery) -> TagFilter:
    """Raises BadRequest for more tags than a resource can have."""
    tags = [_split(each) for each in (query.tags, query.tags_any, query.not_tags, query.not_tags_any)]
    if any(len(each) > MAX_TAGS for each in tags):
        raise errors.BadRequest(f"A filter takes {MAX_TAGS} tags at most.")
    every, some, not_every, not_some = tags
    return TagFilter(every=every, some=some, not_every=not_every, not_some=not_some)


def _split(values: Sequence[str]) -> tuple[str, ...]:
    """Tags are separated by commas, as in Neutron."""
    return tuple(tag for value in values for tag in value.split(",") if tag)


def tagged(api: NetworkApiCollaborators, kind: str, documents: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Adds the tags, if resources of this kind have any."""
    if kind not in TABLES:
        return documents
    with api.db.read() as session:
        tags_by_id = of_resources(session, [each["id"] for each in documents])
    return [{**each, "tags": tags_by_id.get(each["id"], [])} for each in documents]


def shown(api: NetworkApiCollaborators, call: Call, name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Returns one resource, with the fields that the query selects."""
    (tagged_document,) = tagged(api, name, [document])
    return {name: _only(tagged_document, () if call.query is None else call.query.fields)}


def required_revision(call: Call) -> int | None:
    """Returns the revision that the request requires, `If-Match: revision_number=N`. Raises BadRequest for other conditions."""
    header = call.request.get_header("If-Match")
    if header is None:
        return None
    key, _, number = header.strip().partition("=")
    if key != "revision_number" or not (number.isascii() and number.isdigit() and len(number) < 19):
        raise errors.BadRequest("Invalid input for If-Match. Reason: only revision_number=N is allowed.")
    return int(number)


def require_revision(call: Call, resource: Resource) -> None:
    """Raises PreconditionFailed if the request requires another revision of the resource."""
    required = required_revision(call)
    if required is not None and required != resource.revision_number:
        raise errors.PreconditionFailed(
            f"Constrained to {required}, but current revision is {resource.revision_number}"
        )


def revision_argument(call: Call) -> dict[str, int]:
    """Returns the argument of a deletion that requires a revision. Without one there is no argument: conductors of earlier
    releases do not know it.
    """
    required = required_revision(call)
    return {} if required is None else {"revision": required}


def only_default(field: str, is_default: bool, reason: str) -> None:
    """Raises BadRequest if a field that clients send has another value than its default."""
    if not is_default:
        raise errors.BadRequest(f"Invalid input for {field}. Reason: {reason}.")


def _only(document: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key in fields} if fields else document


def identifier(text: str) -> str:
    """Returns an id for a query; "" if the text is not a UUID, which matches nothing."""
    return canonical_uuid(text) or ""


def owner_of(call: Call, project_id: str | None, tenant_id: str | None, rule: str) -> str:
    """Returns the project of a new resource. Raises Forbidden if the caller may not make one for that project."""
    owner = project_id or tenant_id or call.ctx.project_id
    if project_id and tenant_id and project_id != tenant_id:
        raise errors.BadRequest("'project_id' and 'tenant_id' do not match")
    if owner != call.ctx.project_id:
        call.require(rule, Target(project_id=owner))
    return owner


def checked_name(what: str, text: str) -> str:
    """As in Neutron, a name may be empty, and may begin or end with spaces. Raises BadRequest for other
    invalid names.
    """
    inner = text.strip(" ")
    if inner:
        names.checked(f"Invalid input for name: the {what} name", inner)
    return text


def checked_text(field: str, text: str) -> str:
    """Raises BadRequest if the text has control characters, other than tabs and line breaks."""
    if any(ord(letter) < 32 and letter not in "\t\n\r" for letter in text):
        raise errors.BadRequest(f"Invalid input for {field}. Reason: it has control characters.")
    return text


def check_texts(what: str, changes: Mapping[str, Any], *more: str) -> None:
    """Raises BadRequest if the name or description of a change, or one of the fields `more`, is invalid. `what`: such as "port's"."""
    if "name" in changes:
        checked_name(what, changes["name"])
    for field in ("description", *more):
        checked_text(field, changes.get(field, ""))


def given_fields(body: msgspec.Struct) -> dict[str, Any]:
    """Returns the fields that the body of a change has."""
    return {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}


def change(attempt: Callable[[], Resource]) -> Resource:
    """Repeats a change if another one was faster: `attempt` reads the record again."""
    return repeat_lost(attempt, [CHANGED])


def standard(resource: Resource) -> dict[str, Any]:
    """Returns the attributes that every resource has; a rule of a security group has no name."""
    assert resource.created_at is not None
    return {
        "id": resource.id,
        **({} if isinstance(resource, SecurityGroupRule) else {"name": resource.name}),
        "description": resource.description,
        "project_id": resource.project_id,
        "tenant_id": resource.project_id,
        "revision_number": resource.revision_number,
        "created_at": times.seconds(resource.created_at),
        "updated_at": times.seconds(resource.updated_at or resource.created_at),
    }


def require_each(call: Call, rule: str, attributes: Mapping[str, bool], target: Target | None = None) -> None:
    """Raises Forbidden if an attribute is set (True) that the caller may not set."""
    for name, is_set in attributes.items():
        if is_set:
            call.require(f"{rule}:{name}", target)
