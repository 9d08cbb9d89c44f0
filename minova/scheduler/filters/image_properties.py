"""ImagePropertiesFilter: passes hosts that meet the requirements in the image's properties."""

import json
import operator
from collections.abc import Mapping
from typing import Any

from packaging.version import Version

from minova import errors
from minova.objects.catalogue.image_properties import ARCHITECTURES, predicates, typed
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.hosts.record import HypervisorCapabilities

COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class ImagePropertiesFilter(ClassFilter):
    """Architecture, hypervisor type and vm mode must be among the host's `supported_instances`. The hypervisor's
    version and the width of its addresses are checked if the image requires one of these three, as in Nova. Beyond
    Nova, a machine type must be one of those that the host lists, if the host lists any.
    """

    of = "capabilities"
    RUN_ON_REBUILD = True

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        default = conf.filter_scheduler.image_properties_default_architecture
        if default not in (None, *ARCHITECTURES):
            option = "[filter_scheduler] image_properties_default_architecture"
            raise errors.InvalidConfiguration(f"{option}: {default!r} is none of {', '.join(sorted(ARCHITECTURES))}.")
        self.default_architecture: str | None = default

    def verdict(self, value: HypervisorCapabilities, spec: RequestSpec) -> str | None:
        properties = typed(spec.image.properties) if spec.image else {}
        return self._kind_refusal(value, properties) or _machine_refusal(value.cpu_info, properties)

    def _kind_refusal(self, value: HypervisorCapabilities, properties: Mapping[str, Any]) -> str | None:
        architecture = properties.get("hw_architecture", self.default_architecture)
        requirements = [
            word for word in (architecture, properties.get("img_hv_type"), properties.get("hw_vm_mode")) if word
        ]
        if not requirements:
            return None
        if not any(set(requirements) <= set(supported) for supported in value.supported_instances):
            able = "; ".join(", ".join(supported) for supported in value.supported_instances) or "nothing"
            return f"image needs {', '.join(requirements)}, host supports {able}"
        return _version_refusal(value.hypervisor_version, properties.get("img_hv_requested_version")) or _width_refusal(
            value.cpu_info, properties.get("hw_maxphysaddr_bits")
        )


def _version_refusal(version: int, required: str | None) -> str | None:
    """`version` in the hypervisor's format: 9000002 is 9.0.2; 0: not reported."""
    if not required or not version:
        return None
    have = version_text(version)
    if all(COMPARE[sign](Version(have), need) for sign, need in predicates(required)):
        return None
    return f"hypervisor version {have}, image needs {required}"


def version_text(version: int) -> str:
    """Splits the number into groups of three digits."""
    high, low = divmod(version, 1000)
    return f"{version_text(high)}.{low}" if high else str(low)


def _width_refusal(cpu_info: str, required: int | None) -> str | None:
    """`required`: in bits. A host that does not report the width of its addresses passes."""
    have = json.loads(cpu_info).get("maxphysaddr", {}).get("bits") if cpu_info and required else None
    if not have or not required or have >= required:
        return None
    return f"physical addresses of {have} bits, image needs {required}"


def _machine_refusal(cpu_info: str, properties: Mapping[str, Any]) -> str | None:
    """Hosts of an older release, and hosts without such machines, list none and pass."""
    machine = properties.get("hw_machine_type")
    info = json.loads(cpu_info) if cpu_info and machine else {}
    offered = info.get("machine_types")
    if not offered:
        return None
    arch = properties.get("hw_architecture") or info.get("arch")
    if machine in offered.get(arch, ()):
        return None
    return f"image needs machine type {machine}, host has no such machine for {arch}"
