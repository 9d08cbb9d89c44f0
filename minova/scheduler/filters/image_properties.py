"""ImagePropertiesFilter: hosts that can run what the image says it needs."""

import re
from typing import Any

from minova import errors
from minova.objects.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.host_record import ImageSupport

# Nova's names of the properties, each with the older one that images may still carry.
ARCHITECTURE = ("hw_architecture", "architecture")
HYPERVISOR_TYPE = ("img_hv_type", "hypervisor_type")
VM_MODE = ("hw_vm_mode", "vm_mode")
VERSION = ("img_hv_requested_version", "hypervisor_version_requires")

ALIASES: dict[tuple[str, ...], dict[str, str]] = {
    ARCHITECTURE: {"amd64": "x86_64", "i386": "i686", "i486": "i686", "i586": "i686"},
    HYPERVISOR_TYPE: {"xapi": "xen"},
    VM_MODE: {"pv": "xen", "hv": "hvm", "baremetal": "hvm"},
}
COMPARE = {
    "<": lambda have, need: have < need,
    "<=": lambda have, need: have <= need,
    "==": lambda have, need: have == need,
    "!=": lambda have, need: have != need,
    ">=": lambda have, need: have >= need,
    ">": lambda have, need: have > need,
}
PREDICATE = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\d+(?:\.\d+)*)\s*")


class ImagePropertiesFilter(ClassFilter):
    """Architecture, hypervisor type and vm mode must be among the host's `supported_instances`; the hypervisor's
    version is looked at when one of them is asked for, as in Nova.
    """

    of = "image_support"

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.default_architecture: str | None = conf.filter_scheduler.image_properties_default_architecture

    def verdict(self, value: ImageSupport, spec: RequestSpec) -> str | None:
        properties = spec.image.properties if spec.image else {}
        wanted = [canonical(names, properties) for names in (ARCHITECTURE, HYPERVISOR_TYPE, VM_MODE)]
        wanted[0] = wanted[0] or self.default_architecture
        if not any(wanted):
            return None
        if not any(_supports(supported, wanted) for supported in value.supported_instances):
            asked = ", ".join(word for word in wanted if word)
            able = "; ".join(", ".join(supported) for supported in value.supported_instances) or "nothing"
            return f"image needs {asked}, host supports {able}"
        return _version_refusal(value.hypervisor_version, first(VERSION, properties))


def first(names: tuple[str, ...], properties: dict[str, str]) -> str | None:
    return next((properties[name] for name in names if properties.get(name)), None)


def canonical(names: tuple[str, ...], properties: dict[str, str]) -> str | None:
    """The property in the word that drivers report. BadRequest: an architecture that is none."""
    value = first(names, properties)
    if value is None:
        return None
    word = value.lower()
    if names is ARCHITECTURE and word == "x86":
        raise errors.BadRequest(f"Image property {names[0]}: {value!r} is no architecture; i686 or x86_64 are.")
    return ALIASES[names].get(word, word)


def _supports(supported: tuple[str, str, str], wanted: list[str | None]) -> bool:
    return all(word in supported for word in wanted if word)


def _version_refusal(version: int, required: str | None) -> str | None:
    """`version` as the hypervisor counts: 9000002 is 9.0.2. BadRequest: `required` is no list like `>=6.0, <10`."""
    if not required or not version:
        return None
    have = [version // 1000000, version // 1000 % 1000, version % 1000]
    for part in required.split(","):
        match = PREDICATE.fullmatch(part)
        if match is None:
            raise errors.BadRequest(f"Image property {VERSION[0]}: {required!r} is no list like '>=6.0, <10.1'.")
        need = [int(number) for number in match[2].split(".")]
        need += [0] * (3 - len(need))
        if not COMPARE[match[1]](have, need):
            return f"hypervisor version {'.'.join(map(str, have))}, image needs {required}"
    return None
