"""`/flavors/{id}/os-extra_specs`: what a flavor asks of hosts beyond its size."""

from typing import Any

import msgspec

from minova import errors
from minova.api.compute import flavors
from minova.api.http.call import Api, Call

# OpenStack takes numbers as values, too, and answers the body as it came.
Values = dict[flavors.SpecKey, flavors.SpecValue | int | float]


class CreateSpecs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    extra_specs: Values


def list_specs(api: Api, call: Call) -> dict[str, Any]:
    return {"extra_specs": flavors.find(api, call, call.path["flavor_id"]).extra_specs}


def show(api: Api, call: Call) -> dict[str, str]:
    """NotFound: the flavor has none such."""
    flavor, key = flavors.find(api, call, call.path["flavor_id"]), call.path["key"]
    if key not in flavor.extra_specs:
        raise errors.NotFound(f"Flavor {flavor.flavorid} has no extra specs with key {key[:255]}.")
    return {key: flavor.extra_specs[key]}


def create(api: Api, call: Call) -> dict[str, Any]:
    """These are set, others stay."""
    asked: Values = call.body.extra_specs
    _set(api, call, asked)
    return {"extra_specs": asked}


def update(api: Api, call: Call) -> Values:
    """BadRequest: another key in the body than in the path."""
    asked: Values = call.body
    if [*asked] != [call.path["key"]]:
        raise errors.BadRequest("Request body and URI mismatch: the body must hold the key in the path, and no other.")
    _set(api, call, asked)
    return asked


def delete(api: Api, call: Call) -> None:
    flavor = flavors.find(api, call, call.path["flavor_id"])
    unset: dict[str, str | None] = {call.path["key"]: None}
    api.conductor.update_flavor_extra_specs(call.ctx, flavorid=flavor.flavorid, extra_specs=unset)


def _set(api: Api, call: Call, asked: Values) -> None:
    flavor = flavors.find(api, call, call.path["flavor_id"])
    changes: dict[str, str | None] = {key: str(value) for key, value in asked.items()}
    api.conductor.update_flavor_extra_specs(call.ctx, flavorid=flavor.flavorid, extra_specs=changes)
