"""What one instance takes from Placement: the only place that computes this, for the scheduler and for every audit.
Pure.

The flavor's numbers, each unless a `resources:CLASS` of its extra specs replaces it, and its CPUs by their policy:

shared          VCPU
dedicated       PCPU (one more for emulator threads of its own), or VCPU on a host that offers no PCPU
mixed           PCPU for the pinned CPUs, VCPU for the others
resources:PCPU  PCPU, in place of VCPU

Encrypted memory (`hw:mem_encryption` of the flavor) takes a MEM_ENCRYPTION_CONTEXT. `resources:VGPU` is used unchanged. PCI devices are no resources of Placement: the compute node's pools count them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import os_resource_classes

from minova import errors
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image_properties import flag
from minova.objects.hosts.numa import InstanceNUMATopology

RESOURCE_PREFIX = "resources:"
ENCRYPTION_CONTEXT = "MEM_ENCRYPTION_CONTEXT"
CPU_CLASSES = frozenset({"VCPU", "PCPU"})
_NUMBERED = re.compile(r"(resources|trait)[a-zA-Z0-9_-]{1,64}:")
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")
# The longest name of a trait or class that Placement takes.
_LONGEST = 255

Resources = dict[str, int]


def resource_alternatives(flavor: Flavor, numa_topology: InstanceNUMATopology | None) -> tuple[Resources, ...]:
    """Returns what the scheduler may claim for one instance, the preferred first. Classes with amount 0 are left out.

    `numa_topology`: the instance's, as requested or as fitted to its host. Raises BadRequest for a malformed extra
    spec.
    """
    plain = _with_flavor_cpus(flavor)
    dedicated = dedicated_cpus(numa_topology)
    if numa_topology is None or not dedicated:
        return (plain,)
    emulator_threads = 1 if numa_topology.emulator_threads_policy == "isolate" else 0
    shared = sum(len(cell.cpuset) for cell in numa_topology.cells)
    others = {name: amount for name, amount in plain.items() if name not in CPU_CLASSES}
    pinned = {"PCPU": dedicated + emulator_threads, **({"VCPU": shared} if shared else {}), **others}
    # As in Nova: only a guest whose CPUs are all pinned may run on a host without PCPU.
    return (pinned,) if shared or pinned == plain else (pinned, plain)


def claimed_as(held: Mapping[str, int], alternatives: Sequence[Mapping[str, int]]) -> bool:
    """Whether `held` is one of the alternatives. Classes that no alternative names are ignored: they are held for
    another reason.
    """
    classes = {name for resources in alternatives for name in resources}
    relevant = {name: amount for name, amount in held.items() if amount and name in classes}
    return any(relevant == resources for resources in alternatives)


def dedicated_cpus(numa_topology: InstanceNUMATopology | None) -> int:
    """Returns the number of the guest's pinned CPUs."""
    return sum(len(cell.pcpuset) for cell in numa_topology.cells) if numa_topology is not None else 0


def encrypts_memory(flavor: Flavor) -> bool:
    return flag(flavor.extra_specs.get("hw:mem_encryption", ""))


def _with_flavor_cpus(flavor: Flavor) -> Resources:
    overrides = dict(_overrides(flavor.extra_specs))
    amounts = {"MEMORY_MB": flavor.memory_mb, "DISK_GB": flavor.disk_gb}
    if "PCPU" not in overrides:
        amounts = {"VCPU": flavor.vcpus, **amounts}
    if encrypts_memory(flavor):
        amounts[ENCRYPTION_CONTEXT] = 1
    return {name: amount for name, amount in {**amounts, **overrides}.items() if amount}


def _overrides(extra_specs: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for key, value in prefixed(extra_specs, RESOURCE_PREFIX):
        spec_text, name = f"Flavor extra spec {key}={value!r}", key.removeprefix(RESOURCE_PREFIX)
        if name not in os_resource_classes.STANDARDS and not is_custom(name):
            raise errors.BadRequest(f"{spec_text}: no resource class is named {name!r}.")
        if not value.isascii() or not value.isdigit():
            raise errors.BadRequest(f"{spec_text}: the amount must be a whole number from 0 up.")
        yield name, int(value)


def prefixed(pairs: Mapping[str, str], prefix: str) -> Iterator[tuple[str, str]]:
    """Yields the pairs whose key begins with `prefix`. Raises BadRequest for a numbered group,
    which is not supported.
    """
    for key, value in pairs.items():
        if key.startswith(prefix):
            yield key, value
        elif _NUMBERED.match(key):
            raise errors.BadRequest(f"{key}={value!r}: numbered groups of resources and traits are not served.")


def is_custom(name: str) -> bool:
    """Whether this is a valid name of an operator's own trait or resource class."""
    return len(name) <= _LONGEST and _CUSTOM.fullmatch(name) is not None
