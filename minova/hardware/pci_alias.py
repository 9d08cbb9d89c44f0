"""[pci] alias: names for kinds of devices. Flavors request devices by alias and number. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from minova.hardware import errors
from minova.hardware.pci_pools import LEGACY, POLICIES, Pools, shortage
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image_properties import TRUE, typed, words
from minova.objects.hosts.pci import InstancePCIRequest, Pairs

_ID = re.compile(r"[0-9a-fA-F]{4}")
_DEVICE_TYPES = ("type-PCI", "type-PF", "type-VF")
_TRUTHS = {
    **dict.fromkeys(TRUE, "true"),
    **dict.fromkeys(words("0 f false off n no"), "false"),
}
_CHOICES = {"capability_type": ("pci",), "device_type": _DEVICE_TYPES, "numa_policy": POLICIES}
_KEYS = (
    "name",
    "capability_type",
    "product_id",
    "vendor_id",
    "device_type",
    "numa_policy",
    "resource_class",
    "traits",
    "live_migratable",
)


class Alias(msgspec.Struct, frozen=True, kw_only=True):
    """A device that meets one of the `specs` is of this kind."""

    numa_policy: str = LEGACY
    specs: tuple[Pairs, ...] = ()


Aliases = Mapping[str, Alias]


def parse_aliases(texts: Sequence[str], *, pci_in_placement: bool = False) -> Aliases:
    """Returns the aliases by name. Several texts with one name are alternatives: a device that matches any of them is
    suitable.

    Raises PciInvalidAlias, which names key and value. `pci_in_placement` is [filter_scheduler] pci_in_placement: with
    it an alias has one text, and may name a resource class instead of vendor and product.
    """
    aliases: dict[str, Alias] = {}
    for text in texts:
        values = _parsed(text)
        name = values.pop("name").strip()
        policy = values.pop("numa_policy", "") or LEGACY
        spec = _spec(text, values)
        earlier_alias = aliases.get(name)
        if earlier_alias is not None:
            _check_same(text, earlier_alias, policy, spec)
        specs = (*earlier_alias.specs, spec) if earlier_alias is not None else (spec,)
        aliases[name] = Alias(numa_policy=policy, specs=specs)
    for name, alias in aliases.items():
        _check_whole(name, alias, pci_in_placement)
    return aliases


def numa_policy_of(flavor: Flavor, image_properties: Mapping[str, str]) -> str | None:
    """Returns hw:pci_numa_affinity_policy, which takes precedence over the alias's own policy. Flavor and image must
    agree.
    """
    of_image = typed(image_properties).get("hw_pci_numa_affinity_policy")
    of_flavor = flavor.extra_specs.get("hw:pci_numa_affinity_policy")
    if of_flavor and of_image and of_flavor != of_image:
        raise errors.ImagePCINUMAPolicyForbidden(
            f"hw_pci_numa_affinity_policy={of_image} of the image: "
            f"the flavor has hw:pci_numa_affinity_policy={of_flavor}"
        )
    if of_flavor and of_flavor not in POLICIES:
        raise errors.InvalidPCINUMAAffinity(
            f"hw:pci_numa_affinity_policy={of_flavor}: not one of {', '.join(POLICIES)}"
        )
    return of_flavor or of_image


def requests_of(flavor: Flavor, aliases: Aliases, numa_policy: str | None = None) -> tuple[InstancePCIRequest, ...]:
    """Returns the requests of pci_passthrough:alias (`NAME:COUNT,...`). `numa_policy` (of `numa_policy_of`) takes
    precedence over the aliases' policies.

    The caller sets `request_id` when it stores the request. Raises PciRequestAliasNotDefined or MalformedValue.
    """
    text = flavor.extra_specs.get("pci_passthrough:alias")
    if text is None:
        return ()
    return tuple(_request(text, item, aliases, numa_policy) for item in text.split(","))


def unmet(aliases: Aliases, pools: Pools) -> list[str]:
    """Returns the names of the aliases for which the pools have no device."""
    requests = {name: InstancePCIRequest(count=1, spec=alias.specs) for name, alias in aliases.items()}
    return [name for name, request in requests.items() if shortage(pools, [request]) is not None]


def _request(text: str, item: str, aliases: Aliases, numa_policy: str | None) -> InstancePCIRequest:
    name, colon, count = item.partition(":")
    if not colon or ":" in count:
        raise errors.MalformedValue(f"pci_passthrough:alias={text}: {item!r} is not of the form NAME:COUNT")
    name = name.strip()
    alias = aliases.get(name)
    if alias is None:
        raise errors.PciRequestAliasNotDefined(f"pci_passthrough:alias={text}: [pci] alias does not define {name!r}")
    if not count.strip().isdigit():
        raise errors.MalformedValue(f"pci_passthrough:alias={text}: {count!r} of {name} is not a number of devices")
    return InstancePCIRequest(
        count=int(count), spec=alias.specs, alias_name=name, numa_policy=numa_policy or alias.numa_policy
    )


def _parsed(text: str) -> dict[str, str]:
    try:
        values: Any = json.loads(text)
    except ValueError as error:
        raise _invalid(text, f"is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise _invalid(text, "is no JSON object")
    for key, value in values.items():
        _check_value(text, key, value)
    if not values.get("name"):
        raise _invalid(text, "has no name")
    return values


def _check_value(text: str, key: str, value: object) -> None:
    if key not in _KEYS:
        raise _invalid(text, f"has the unknown key {key}; known: {', '.join(_KEYS)}")
    if not isinstance(value, str):
        raise _invalid(text, f"{key}={value!r} is no text")
    if key in ("product_id", "vendor_id") and not _ID.fullmatch(value):
        raise _invalid(text, f"{key}={value} is not of four hexadecimal digits")
    if key in _CHOICES and value not in _CHOICES[key]:
        raise _invalid(text, f"{key}={value} is not one of {', '.join(_CHOICES[key])}")
    if key == "name" and len(value) > 256:
        raise _invalid(text, f"{key}={value} has more than 256 characters")
    if key == "live_migratable" and value.strip().lower() not in _TRUTHS:
        raise _invalid(text, f"{key}={value} is neither true nor false")


def _spec(text: str, values: Mapping[str, str]) -> Pairs:
    spec = dict(values)
    if "device_type" in spec:
        spec["dev_type"] = spec.pop("device_type")
    if "live_migratable" in spec:
        spec["live_migratable"] = _TRUTHS[spec["live_migratable"].strip().lower()]
    return tuple(sorted(spec.items()))


def _check_same(text: str, earlier_alias: Alias, policy: str, spec: Pairs) -> None:
    """Checks what all texts of one name must have in common."""
    if policy != earlier_alias.numa_policy:
        raise _invalid(text, f"numa_policy={policy}, but another of that name has {earlier_alias.numa_policy}")
    kinds = [dict(alias_spec).get("dev_type") for alias_spec in (earlier_alias.specs[0], spec)]
    if None in kinds or kinds[0] != kinds[1]:
        raise _invalid(
            text, f"device_type={kinds[1]}, but another of that name has {kinds[0]}: both must have the same"
        )


def _check_whole(name: str, alias: Alias, pci_in_placement: bool) -> None:
    if pci_in_placement and len(alias.specs) > 1:
        raise errors.PciInvalidAlias(
            f"[pci] alias {name} is defined more than once, which [filter_scheduler] pci_in_placement does not allow"
        )
    for spec in alias.specs:
        keys = dict(spec).keys()
        if {"vendor_id", "product_id"} <= keys or (pci_in_placement and "resource_class" in keys):
            continue
        raise errors.PciInvalidAlias(f"[pci] alias {name} has no vendor_id and product_id")


def _invalid(text: str, what: str) -> errors.PciInvalidAlias:
    return errors.PciInvalidAlias(f"[pci] alias {text}: {what}")
