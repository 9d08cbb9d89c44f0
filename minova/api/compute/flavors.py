"""`/flavors` and `/flavors/{id}/os-extra_specs`."""

import re
import uuid
from typing import Annotated, Any

import msgspec

from minova import errors
from minova.api.compute.collaborators import Collaborators
from minova.api.http import links, names
from minova.api.http.call import Call
from minova.api.http.structs import Int64, Page, page_size
from minova.db.api_queries import flavors
from minova.objects.flavor import Flavor

# Nova's largest: what a signed 32 bit column holds.
Size = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=0x7FFFFFFF)]
Factor = Annotated[float, msgspec.Meta(gt=0, le=3.40282e38)]
SpecKey = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9\-_:. ]{1,255}$")]
SpecValue = Annotated[str, msgspec.Meta(max_length=255)]
FLAVOR_ID = re.compile(r"[\w.\- ]{1,255}", re.ASCII)


class NewFlavor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ram` and `swap` in MB, disks in GB. `extra_specs` are minova's own here: OpenStack sets them by a second request."""

    name: str
    ram: AtLeastOne
    vcpus: AtLeastOne
    disk: Size
    id: str | Int64 | None = None
    swap: Size | None = 0
    rxtx_factor: Factor | None = 1.0
    ephemeral: Size = msgspec.field(name="OS-FLV-EXT-DATA:ephemeral", default=0)
    is_public: bool = msgspec.field(name="os-flavor-access:is_public", default=True)
    extra_specs: dict[SpecKey, SpecValue] = {}


class CreateFlavor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flavor: NewFlavor


class FlavorsQuery(Page, frozen=True, kw_only=True):
    is_public: str | None = None
    min_ram: Int64 | None = msgspec.field(name="minRam", default=None)
    min_disk: Int64 | None = msgspec.field(name="minDisk", default=None)
    sort_key: str = "flavorid"
    sort_dir: str = "asc"


class FlavorBrief(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    links: tuple[links.Link, ...]


class FlavorView(FlavorBrief, frozen=True, kw_only=True):
    """`extra_specs` are Nova's since 2.61: shown always here, so that no client must ask once more for each flavor."""

    ram: int
    disk: int
    vcpus: int
    swap: int | str
    ephemeral: int = msgspec.field(name="OS-FLV-EXT-DATA:ephemeral")
    disabled: bool = msgspec.field(name="OS-FLV-DISABLED:disabled")
    is_public: bool = msgspec.field(name="os-flavor-access:is_public")
    rxtx_factor: float
    extra_specs: dict[str, str]


def visible(flavor: Flavor | None, call: Call) -> Flavor | None:
    """Private flavors are for administrators, until projects can be given access."""
    return flavor if flavor is not None and (flavor.is_public or call.ctx.is_admin) else None


def find(api: Collaborators, call: Call, flavorid: str) -> Flavor:
    with api.db.read() as session:
        flavor = visible(flavors.flavor(session, flavorid), call)
    if flavor is None:
        raise errors.NotFound(f"Flavor {flavorid} could not be found.")
    return flavor


def list_flavors(api: Collaborators, call: Call) -> dict[str, Any]:
    return _page(api, call, detailed=False)


def list_detail(api: Collaborators, call: Call) -> dict[str, Any]:
    return _page(api, call, detailed=True)


def show(api: Collaborators, call: Call) -> dict[str, Any]:
    return {"flavor": view(call, find(api, call, call.path["flavor_id"]))}


def create(api: Collaborators, call: Call) -> dict[str, Any]:
    body: NewFlavor = call.body.flavor
    flavor = Flavor(
        flavorid=_flavorid(body.id),
        name=names.checked("Flavor name", body.name),
        vcpus=body.vcpus,
        memory_mb=body.ram,
        root_gb=body.disk,
        ephemeral_gb=body.ephemeral,
        swap=body.swap or 0,
        rxtx_factor=body.rxtx_factor or 1.0,
        is_public=body.is_public,
        extra_specs=body.extra_specs,
    )
    return {"flavor": view(call, api.conductor.create_flavor(call.ctx, flavor=flavor))}


def delete(api: Collaborators, call: Call) -> None:
    find(api, call, call.path["flavor_id"])
    api.conductor.delete_flavor(call.ctx, flavorid=call.path["flavor_id"])


def _flavorid(requested: str | int | None) -> str:
    if requested is None or requested == "auto":
        return str(uuid.uuid4())
    wanted = str(requested)
    if not FLAVOR_ID.fullmatch(wanted) or wanted != wanted.strip():
        raise errors.BadRequest(
            "Invalid input for field flavor.id: 1 to 255 letters, digits, spaces, or any of . - _ are allowed."
        )
    return wanted


def _page(api: Collaborators, call: Call, *, detailed: bool) -> dict[str, Any]:
    query: FlavorsQuery = call.query
    with api.db.read() as session:
        matching = [flavor for flavor in flavors.flavors(session) if _matches(flavor, call)]
    matching.sort(key=_sort_key(query), reverse=query.sort_dir == "desc")
    if query.marker is not None:
        ids = [flavor.flavorid for flavor in matching]
        if query.marker not in ids:
            raise errors.BadRequest(f"marker [{query.marker}] not found")
        matching = matching[ids.index(query.marker) + 1 :]
    size = page_size(query.limit, api.conf.api.max_limit)
    show_one = view if detailed else brief
    answer: dict[str, Any] = {"flavors": [show_one(call, flavor) for flavor in matching[:size]]}
    if 0 < size < len(matching):
        answer["flavors_links"] = links.next_page(call, matching[size - 1].flavorid)
    return answer


def _sort_key(query: FlavorsQuery) -> Any:
    fields = {"flavorid": "flavorid", "id": "flavorid", "name": "name", "memory_mb": "memory_mb", "vcpus": "vcpus"}
    fields |= {"root_gb": "root_gb", "ephemeral_gb": "ephemeral_gb", "swap": "swap"}
    if query.sort_key not in fields or query.sort_dir not in ("asc", "desc"):
        raise errors.BadRequest(f"Flavors cannot be sorted by {query.sort_key} {query.sort_dir}.")
    field = fields[query.sort_key]
    return lambda flavor: (getattr(flavor, field), flavor.flavorid)


def _matches(flavor: Flavor, call: Call) -> bool:
    query: FlavorsQuery = call.query
    is_public = (query.is_public or "true").lower()
    if not call.ctx.is_admin:
        is_public = "true"
    public = is_public == "none" or flavor.is_public == (is_public in ("true", "t", "1", "yes", "on", "y"))
    return public and flavor.memory_mb >= (query.min_ram or 0) and flavor.root_gb >= (query.min_disk or 0)


def brief(call: Call, flavor: Flavor) -> FlavorBrief:
    return FlavorBrief(id=flavor.flavorid, name=flavor.name, links=links.of_thing(call, "flavors", flavor.flavorid))


def view(call: Call, flavor: Flavor) -> FlavorView:
    return FlavorView(
        id=flavor.flavorid,
        name=flavor.name,
        links=links.of_thing(call, "flavors", flavor.flavorid),
        ram=flavor.memory_mb,
        disk=flavor.root_gb,
        vcpus=flavor.vcpus,
        swap=flavor.swap or "",
        ephemeral=flavor.ephemeral_gb,
        disabled=flavor.disabled,
        is_public=flavor.is_public,
        rxtx_factor=flavor.rxtx_factor,
        extra_specs=flavor.extra_specs,
    )


# -- extra specs -------------------------------------------------------------------------------------------------------

# OpenStack takes numbers as values, too, and answers the body as it came.
ExtraSpecs = dict[SpecKey, SpecValue | Int64 | float]


class CreateSpecs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    extra_specs: ExtraSpecs


def list_specs(api: Collaborators, call: Call) -> dict[str, Any]:
    return {"extra_specs": find(api, call, call.path["flavor_id"]).extra_specs}


def show_spec(api: Collaborators, call: Call) -> dict[str, str]:
    """Raises NotFound if the flavor does not have the key."""
    flavor, key = find(api, call, call.path["flavor_id"]), call.path["key"]
    if key not in flavor.extra_specs:
        raise errors.NotFound(f"Flavor {flavor.flavorid} has no extra specs with key {key[:255]}.")
    return {key: flavor.extra_specs[key]}


def create_specs(api: Collaborators, call: Call) -> dict[str, Any]:
    """Sets the keys of the body; other keys stay."""
    extra_specs: ExtraSpecs = call.body.extra_specs
    _set_specs(api, call, extra_specs)
    return {"extra_specs": extra_specs}


def update_spec(api: Collaborators, call: Call) -> ExtraSpecs:
    """Raises BadRequest if the body has another key than the path."""
    extra_specs: ExtraSpecs = call.body
    if [*extra_specs] != [call.path["key"]]:
        raise errors.BadRequest("Request body and URI mismatch: the body must hold the key in the path, and no other.")
    _set_specs(api, call, extra_specs)
    return extra_specs


def delete_spec(api: Collaborators, call: Call) -> None:
    flavor = find(api, call, call.path["flavor_id"])
    unset: dict[str, str | None] = {call.path["key"]: None}
    api.conductor.update_flavor_extra_specs(call.ctx, flavorid=flavor.flavorid, extra_specs=unset)


def _set_specs(api: Collaborators, call: Call, extra_specs: ExtraSpecs) -> None:
    flavor = find(api, call, call.path["flavor_id"])
    changes: dict[str, str | None] = {key: str(value) for key, value in extra_specs.items()}
    api.conductor.update_flavor_extra_specs(call.ctx, flavorid=flavor.flavorid, extra_specs=changes)
