"""What flavor and image say to Placement: `resources:CLASS`, `trait:NAME`. Pure.

A key or value that cannot be is a BadRequest that names both: to leave it out would boot something else than was asked.
"""

import re
from collections.abc import Iterator, Mapping

import os_resource_classes
import os_traits

from minova import errors
from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.request_spec import RequestSpec

TRAIT_PREFIX = "trait:"
RESOURCE_PREFIX = "resources:"
_NUMBERED = re.compile(r"(resources|trait)[a-zA-Z0-9_-]{1,64}:")
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")
# The longest name of a trait or class that Placement takes.
_LONGEST = 255


def resources_of(spec: RequestSpec) -> dict[str, int]:
    """What one instance takes: the flavor's numbers, each unless the flavor says otherwise; a class of 0 is left out.

    PCPU named by the flavor stands for VCPU too, as in Nova.
    """
    said = dict(_said(spec.flavor.extra_specs))
    wanted = {"MEMORY_MB": spec.flavor.memory_mb, "DISK_GB": spec.flavor.disk_gb}
    if "PCPU" not in said:
        wanted = {"VCPU": spec.flavor.vcpus, **wanted}
    return {name: amount for name, amount in {**wanted, **said}.items() if amount}


def traits_of(extra_specs: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """(required, forbidden)."""
    found: dict[str, set[str]] = {"required": set(), "forbidden": set()}
    for key, value in _prefixed(extra_specs, TRAIT_PREFIX):
        if value not in found:
            raise errors.BadRequest(f"Flavor extra spec {key}={value!r}: a trait is required or forbidden.")
        found[value].add(_trait(f"Flavor extra spec {key}={value!r}", key))
    return found["required"], found["forbidden"]


def required_of_image(image: Image | None) -> set[str]:
    """An image can require traits, not forbid them."""
    found = set()
    for key, value in _prefixed(image.properties if image is not None else {}, TRAIT_PREFIX):
        if value != "required":
            raise errors.BadRequest(f"Image property {key}={value!r}: an image's trait can only be required.")
        found.add(_trait(f"Image property {key}={value!r}", key))
    return found


def check(flavor: Flavor, image: Image | None) -> None:
    """BadRequest: something of it cannot be asked of Placement. For those who take a request, before it is written."""
    resources_of(RequestSpec(flavor=flavor))
    traits_of(flavor.extra_specs)
    required_of_image(image)


def _said(extra_specs: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for key, value in _prefixed(extra_specs, RESOURCE_PREFIX):
        shown, name = f"Flavor extra spec {key}={value!r}", key.removeprefix(RESOURCE_PREFIX)
        if name not in os_resource_classes.STANDARDS and not _custom(name):
            raise errors.BadRequest(f"{shown}: no resource class is named {name!r}.")
        if not value.isascii() or not value.isdigit():
            raise errors.BadRequest(f"{shown}: the amount must be a whole number from 0 up.")
        yield name, int(value)


def _prefixed(pairs: Mapping[str, str], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in pairs.items():
        if key.startswith(prefix):
            yield key, value
        elif _NUMBERED.match(key):
            raise errors.BadRequest(f"{key}={value!r}: numbered groups of resources and traits are not served.")


def _trait(shown: str, key: str) -> str:
    name = key.removeprefix(TRAIT_PREFIX)
    if not hasattr(os_traits, name) and not _custom(name):
        raise errors.BadRequest(f"{shown}: no trait is named {name!r}.")
    return name


def _custom(name: str) -> bool:
    return len(name) <= _LONGEST and _CUSTOM.fullmatch(name) is not None
