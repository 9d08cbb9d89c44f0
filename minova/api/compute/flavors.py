"""`/flavors` and `/flavors/{id}/os-extra_specs`."""

import re
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http import links, names
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.links import Link
from minova.api.http.microversions import History, added, changed, removed
from minova.api.http.structs import Boolean, Int64, PageQuery, is_true, page_size
from minova.api.policies.base import AUTHENTICATED
from minova.db.api_queries import flavors
from minova.db.api_queries.patterns import parse
from minova.objects.catalogue import flavor_extra_specs
from minova.objects.catalogue.flavor import Flavor

# Nova's limit: the largest signed 32 bit integer.
Size = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=0x7FFFFFFF)]
Factor = Annotated[float, msgspec.Meta(gt=0, le=3.40282e38)]
SpecKey = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9\-_:. ]{1,255}$")]
SpecValue = Annotated[str, msgspec.Meta(max_length=255)]
# Nova's rule: all characters but control characters; line breaks and tabs are allowed.
Description = Annotated[str, msgspec.Meta(max_length=65535, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$")]
FLAVOR_ID = re.compile(r"[\w.\- ]{1,255}", re.ASCII)


class NewFlavor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ram` and `swap` in MB, disks in GB. `extra_specs` in a creation are minova's own: OpenStack sets them by a
    second request.
    """

    name: str
    ram: AtLeastOne
    vcpus: AtLeastOne
    disk: Size
    id: str | Int64 | None = None
    swap: Size | None = 0
    rxtx_factor: Factor | None = 1.0
    ephemeral: Size = msgspec.field(name="OS-FLV-EXT-DATA:ephemeral", default=0)
    is_public: Boolean = msgspec.field(name="os-flavor-access:is_public", default=True)
    description: Description | None = None
    extra_specs: dict[SpecKey, SpecValue] = {}


class ChangedFlavor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    description: Description | None


class UpdateFlavor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flavor: ChangedFlavor


class CreateFlavor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flavor: NewFlavor


class FlavorsQuery(PageQuery, frozen=True, kw_only=True):
    """`name` is a regular expression."""

    name: str | None = None
    is_public: str | None = None
    min_ram: Int64 | None = msgspec.field(name="minRam", default=None)
    min_disk: Int64 | None = msgspec.field(name="minDisk", default=None)
    sort_key: str = "flavorid"
    sort_dir: str = "asc"


SORT_KEYS = frozenset(
    [
        "flavorid",
        "name",
        "memory_mb",
        "vcpus",
        "root_gb",
        "ephemeral_gb",
        "swap",
        "rxtx_factor",
        "is_public",
        "disabled",
        "description",
    ]
)
# Keys that sort by the order of creation: flavors have no date of update and no weight.
BY_AGE = frozenset(("id", "created_at", "updated_at", "vcpu_weight"))


class FlavorBrief(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    links: tuple[links.Link, ...]
    description: str | None


class FlavorView(FlavorBrief, frozen=True, kw_only=True):
    """`extra_specs` is shown if the policy permits it."""

    ram: int
    disk: int
    vcpus: int
    swap: int | str
    ephemeral: int = msgspec.field(name="OS-FLV-EXT-DATA:ephemeral")
    disabled: bool = msgspec.field(name="OS-FLV-DISABLED:disabled")
    is_public: bool = msgspec.field(name="os-flavor-access:is_public")
    rxtx_factor: float
    extra_specs: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


BODY_HISTORY = History(NewFlavor, added("2.55", "description"), removed("2.102", "rxtx_factor"))
QUERY_HISTORY = History(
    FlavorsQuery,
    added("2.102", "name"),
    changed("2.102", "sort_key", note="is not rxtx_factor"),
    strict_since=(2, 75),
)
BRIEF_ANSWER_HISTORY = History(FlavorBrief, added("2.55", "description"))
ANSWER_HISTORY = History(
    FlavorView,
    added("2.55", "description"),
    added("2.61", "extra_specs"),
    changed("2.75", "swap", note="is 0 instead of an empty text"),
    removed("2.102", "rxtx_factor", "OS-FLV-DISABLED:disabled"),
)
CHECKED_SINCE = "2.86"
SPECS = "os_compute_api:os-flavor-extra-specs:index"


def visible(session: Session, flavorid: str, call: Call) -> Flavor | None:
    """Returns the flavor if the caller may see it: private flavors are for administrators and for projects
    with access.
    """
    flavor = flavors.flavor(session, flavorid)
    if flavor is None or flavor.is_public or call.ctx.is_admin:
        return flavor
    return flavor if flavorid in flavors.accessible(session, call.ctx.project_id) else None


def find(api: ComputeApiCollaborators, call: Call, flavorid: str) -> Flavor:
    with api.db.read() as session:
        flavor = visible(session, flavorid, call)
    if flavor is None:
        raise errors.NotFound(f"Flavor {flavorid} could not be found.")
    return flavor


def list_flavors(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return _page(api, call, detailed=False)


def list_detail(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return _page(api, call, detailed=True)


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"flavor": view(call, find(api, call, call.path["flavor_id"]))}


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    body: NewFlavor = call.body.flavor
    _check_specs(call, body.extra_specs)
    flavor = Flavor(
        flavorid=_flavorid(body.id),
        name=names.checked("Flavor name", body.name),
        vcpus=body.vcpus,
        memory_mb=body.ram,
        root_gb=body.disk,
        ephemeral_gb=body.ephemeral,
        swap=body.swap or 0,
        rxtx_factor=body.rxtx_factor or 1.0,
        is_public=is_true(body.is_public),
        description=body.description,
        extra_specs=body.extra_specs,
    )
    return {"flavor": view(call, api.conductor.create_flavor(call.ctx, flavor=flavor))}


def update(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Changes the description, the only attribute of a flavor that can be changed."""
    find(api, call, call.path["flavor_id"])
    body: ChangedFlavor = call.body.flavor
    flavor = api.conductor.update_flavor(call.ctx, flavorid=call.path["flavor_id"], description=body.description)
    return {"flavor": view(call, flavor)}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    find(api, call, call.path["flavor_id"])
    api.conductor.delete_flavor(call.ctx, flavorid=call.path["flavor_id"])


def _flavorid(requested: str | int | None) -> str:
    if requested is None or requested == "auto":
        return str(uuid.uuid4())
    flavorid = str(requested)
    if not FLAVOR_ID.fullmatch(flavorid) or flavorid != flavorid.strip():
        raise errors.BadRequest(
            "Invalid input for field flavor.id: 1 to 255 letters, digits, spaces, or any of . - _ are allowed."
        )
    return flavorid


def _page(api: ComputeApiCollaborators, call: Call, *, detailed: bool) -> dict[str, Any]:
    query: FlavorsQuery = call.query
    keys = SORT_KEYS | BY_AGE if call.has(ANSWER_HISTORY, "rxtx_factor") else (SORT_KEYS | BY_AGE) - {"rxtx_factor"}
    if query.sort_key not in keys or query.sort_dir not in ("asc", "desc"):
        raise errors.BadRequest(f"Flavors cannot be sorted by {query.sort_key[:64]} {query.sort_dir[:64]}.")
    with api.db.read() as session:
        public = _public(query, is_admin=call.ctx.is_admin)
        own = flavors.accessible(session, call.ctx.project_id) if public is True else frozenset()
        matching = [flavor for flavor in flavors.flavors(session) if _matches(flavor, query, public, own)]
    if query.name is not None:
        find_name = parse("name", query.name).searcher()
        matching = [flavor for flavor in matching if find_name(flavor.name) is not None]
    if query.sort_key in BY_AGE:
        matching = matching[::-1] if query.sort_dir == "desc" else matching
    else:
        matching.sort(key=_sort_key(query), reverse=query.sort_dir == "desc")
    if query.marker is not None:
        ids = [flavor.flavorid for flavor in matching]
        if query.marker not in ids:
            raise errors.BadRequest(f"marker [{query.marker}] not found")
        matching = matching[ids.index(query.marker) + 1 :]
    size = page_size(query.limit, api.conf.api.max_limit)
    show_one = view if detailed else brief
    page = matching[:size]
    answer: dict[str, Any] = {"flavors": [show_one(call, flavor) for flavor in page]}
    if links.is_full(page, size):
        answer["flavors_links"] = links.next_page(call, page[-1].flavorid)
    return answer


def _sort_key(query: FlavorsQuery) -> Any:
    field = query.sort_key
    return lambda flavor: (
        getattr(flavor, field) or "" if field == "description" else getattr(flavor, field),
        flavor.flavorid,
    )


def _public(query: FlavorsQuery, *, is_admin: bool) -> bool | None:
    """Returns whether to list public (True) or private (False) flavors; None: both. Only administrators can choose; all
    other callers get public ones.
    """
    text = (query.is_public or "true").strip().lower()
    if not is_admin or text in ("true", "t", "1", "yes", "on", "y"):
        return True
    if text in ("false", "f", "0", "no", "off", "n"):
        return False
    if text != "none":
        raise errors.BadRequest(f"Invalid is_public filter [{query.is_public}]")
    return None


def _matches(flavor: Flavor, query: FlavorsQuery, public: bool | None, own: frozenset[str]) -> bool:
    """`own`: the private flavors that the project may use, which are listed with the public ones."""
    return (
        (public in (None, flavor.is_public) or flavor.flavorid in own)
        and flavor.memory_mb >= (query.min_ram or 0)
        and flavor.root_gb >= (query.min_disk or 0)
    )


def brief(call: Call, flavor: Flavor) -> FlavorBrief:
    return call.shown(
        BRIEF_ANSWER_HISTORY,
        FlavorBrief(
            id=flavor.flavorid,
            name=flavor.name,
            links=links.links_to(call, "flavors", flavor.flavorid),
            description=flavor.description,
        ),
    )


def view(call: Call, flavor: Flavor) -> FlavorView:
    complete = FlavorView(
        id=flavor.flavorid,
        name=flavor.name,
        links=links.links_to(call, "flavors", flavor.flavorid),
        ram=flavor.memory_mb,
        disk=flavor.root_gb,
        vcpus=flavor.vcpus,
        description=flavor.description,
        swap=flavor.swap or (0 if call.since("2.75") else ""),
        ephemeral=flavor.ephemeral_gb,
        disabled=flavor.disabled,
        is_public=flavor.is_public,
        rxtx_factor=flavor.rxtx_factor,
        extra_specs=flavor.extra_specs if call.permits(SPECS) else msgspec.UNSET,
    )
    return call.shown(ANSWER_HISTORY, complete)


# -- extra specs -------------------------------------------------------------------------------------------------------

# As OpenStack, accepts numbers as values, and returns the body unchanged.
ExtraSpecs = dict[SpecKey, SpecValue | Int64 | float]


class CreateSpecs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    extra_specs: ExtraSpecs


def list_specs(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    return {"extra_specs": find(api, call, call.path["flavor_id"]).extra_specs}


def show_spec(api: ComputeApiCollaborators, call: Call) -> dict[str, str]:
    """Raises NotFound if the flavor does not have the key."""
    flavor, key = find(api, call, call.path["flavor_id"]), call.path["key"]
    if key not in flavor.extra_specs:
        raise errors.NotFound(f"Flavor {flavor.flavorid} has no extra specs with key {key[:255]}.")
    return {key: flavor.extra_specs[key]}


def create_specs(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Sets the keys of the body and keeps all other keys."""
    extra_specs: ExtraSpecs = call.body.extra_specs
    _set_specs(api, call, extra_specs)
    return {"extra_specs": extra_specs}


def update_spec(api: ComputeApiCollaborators, call: Call) -> ExtraSpecs:
    """Raises BadRequest if the body has another key than the path."""
    extra_specs: ExtraSpecs = call.body
    if [*extra_specs] != [call.path["key"]]:
        raise errors.BadRequest("Request body and URI mismatch: the body must hold the key in the path, and no other.")
    _set_specs(api, call, extra_specs)
    return extra_specs


def delete_spec(api: ComputeApiCollaborators, call: Call) -> None:
    flavor = find(api, call, call.path["flavor_id"])
    unset: dict[str, str | None] = {call.path["key"]: None}
    api.conductor.update_flavor_extra_specs(call.ctx, flavorid=flavor.flavorid, extra_specs=unset)


def _set_specs(api: ComputeApiCollaborators, call: Call, extra_specs: ExtraSpecs) -> None:
    flavor = find(api, call, call.path["flavor_id"])
    changes: dict[str, str | None] = {key: str(value) for key, value in extra_specs.items()}
    _check_specs(call, extra_specs)
    api.conductor.update_flavor_extra_specs(call.ctx, flavorid=flavor.flavorid, extra_specs=changes)


def _check_specs(call: Call, extra_specs: Mapping[str, object]) -> None:
    """Raises BadRequest if Nova does not accept a key or a value: from 2.86 on, and always for minova's clients. In
    older versions, creating a server with such a flavor is refused.
    """
    if call.since(CHECKED_SINCE) or call.shows_all:
        for key, value in extra_specs.items():
            flavor_extra_specs.check(key, str(value))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/flavors",
        rule=AUTHENTICATED,
        handler=list_flavors,
        answer={"flavors": list[FlavorBrief], "flavors_links?": list[Link]},
        query=FlavorsQuery,
    ),
    Route(
        method="GET",
        path="/v2.1/flavors/detail",
        rule=AUTHENTICATED,
        handler=list_detail,
        answer={"flavors": list[FlavorView], "flavors_links?": list[Link]},
        query=FlavorsQuery,
    ),
    Route(
        method="POST",
        path="/v2.1/flavors",
        rule="os_compute_api:os-flavor-manage:create",
        handler=create,
        answer={"flavor": FlavorView},
        body=CreateFlavor,
    ),
    Route(
        method="PUT",
        path="/v2.1/flavors/{flavor_id}",
        rule="os_compute_api:os-flavor-manage:update",
        handler=update,
        answer={"flavor": FlavorView},
        body=UpdateFlavor,
        since=(2, 55),
    ),
    Route(
        method="GET", path="/v2.1/flavors/{flavor_id}", rule=AUTHENTICATED, handler=show, answer={"flavor": FlavorView}
    ),
    Route(
        method="DELETE",
        path="/v2.1/flavors/{flavor_id}",
        rule="os_compute_api:os-flavor-manage:delete",
        handler=delete,
        status=202,
    ),
    Route(
        method="GET",
        path="/v2.1/flavors/{flavor_id}/os-extra_specs",
        rule="os_compute_api:os-flavor-extra-specs:index",
        handler=list_specs,
        answer={"extra_specs": dict[str, str]},
    ),
    Route(
        method="POST",
        path="/v2.1/flavors/{flavor_id}/os-extra_specs",
        rule="os_compute_api:os-flavor-extra-specs:create",
        handler=create_specs,
        answer={"extra_specs": dict[str, str]},
        body=CreateSpecs,
    ),
    Route(
        method="GET",
        path="/v2.1/flavors/{flavor_id}/os-extra_specs/{key}",
        rule="os_compute_api:os-flavor-extra-specs:show",
        handler=show_spec,
    ),
    Route(
        method="PUT",
        path="/v2.1/flavors/{flavor_id}/os-extra_specs/{key}",
        rule="os_compute_api:os-flavor-extra-specs:update",
        handler=update_spec,
        body=ExtraSpecs,
    ),
    Route(
        method="DELETE",
        path="/v2.1/flavors/{flavor_id}/os-extra_specs/{key}",
        rule="os_compute_api:os-flavor-extra-specs:delete",
        handler=delete_spec,
    ),
)
