"""The traits that flavor and image require from Placement: `trait:NAME`. Pure.

Raises BadRequest with key and value if one is malformed: ignoring it would boot another server than requested.
"""

from collections.abc import Mapping
from typing import NamedTuple

import os_traits

from minova import errors
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.requests.resource_request import is_custom, prefixed, resource_alternatives

TRAIT_PREFIX = "trait:"


class Traits(NamedTuple):
    required: set[str]
    forbidden: set[str]


def traits_of(extra_specs: Mapping[str, str]) -> Traits:
    """Returns what the flavor's extra specs require and forbid."""
    traits: dict[str, set[str]] = {"required": set(), "forbidden": set()}
    for key, value in prefixed(extra_specs, TRAIT_PREFIX):
        if value not in traits:
            raise errors.BadRequest(f"Flavor extra spec {key}={value!r}: a trait is required or forbidden.")
        traits[value].add(_trait(f"Flavor extra spec {key}={value!r}", key))
    return Traits(traits["required"], traits["forbidden"])


def required_of_image(image: Image | None) -> set[str]:
    """An image can require traits, but not forbid them."""
    required = set()
    for key, value in prefixed(image.properties if image is not None else {}, TRAIT_PREFIX):
        if value != "required":
            raise errors.BadRequest(f"Image property {key}={value!r}: an image's trait can only be required.")
        required.add(_trait(f"Image property {key}={value!r}", key))
    return required


def check(flavor: Flavor, image: Image | None) -> None:
    """Raises BadRequest if flavor or image request something that Placement cannot serve. Called before a request is
    written.
    """
    resource_alternatives(flavor, None)
    traits_of(flavor.extra_specs)
    required_of_image(image)


def _trait(shown: str, key: str) -> str:
    name = key.removeprefix(TRAIT_PREFIX)
    if not hasattr(os_traits, name) and not is_custom(name):
        raise errors.BadRequest(f"{shown}: no trait is named {name!r}.")
    return name
