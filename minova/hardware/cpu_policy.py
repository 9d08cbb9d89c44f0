"""How a guest's CPUs run: shared, pinned or mixed, on which threads of a core, and which of them in real time."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from minova.hardware import errors
from minova.hardware.extra_specs import is_true, mask
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import CPUs

POLICIES = ("dedicated", "shared", "mixed")
THREAD_POLICIES = ("prefer", "isolate", "require")
EMULATOR_POLICIES = ("share", "isolate")
_RESOURCE = re.compile(r"resources(?:[1-9][0-9]*)?:(VCPU|PCPU)")
_HYPERTHREADING = re.compile(r"trait(?:[1-9][0-9]*)?:HW_CPU_HYPERTHREADING")


class CpuPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`mask`: the pinned CPUs of a mixed guest."""

    cpus: str | None
    threads: str | None
    emulator_threads: str | None
    mask: CPUs = frozenset()


def cpu_policy_of(flavor: Flavor, image: Mapping[str, Any]) -> CpuPolicy:
    """Returns what flavor and image (its properties, typed) request together. The errors name the contradiction."""
    specs = flavor.extra_specs
    cpus = _cpus(specs.get("hw:cpu_policy"), image.get("hw_cpu_policy"))
    threads = _threads(specs.get("hw:cpu_thread_policy"), image.get("hw_cpu_thread_policy"))
    realtime = _realtime(flavor, image.get("hw_cpu_realtime_mask"))
    dedicated = _dedicated(flavor)
    emulator = _emulator_threads(flavor)
    cpus = _by_resources(flavor, cpus, emulator)
    threads = _by_trait(flavor, image.get("traits_required", ()), threads)
    if cpus in (None, "shared"):
        _check_shared(threads, emulator, dedicated, realtime)
    elif cpus == "dedicated" and dedicated:
        raise _mask_without_mixed()
    elif cpus == "mixed" and bool(realtime) == bool(dedicated):
        raise errors.RequiredMixedOrRealtimeCPUMask(
            "hw:cpu_policy=mixed needs either hw:cpu_dedicated_mask or hw:cpu_realtime_mask, and not both"
        )
    return CpuPolicy(
        cpus=cpus,
        threads=threads,
        emulator_threads=emulator,
        mask=(dedicated or realtime or frozenset()) if cpus == "mixed" else frozenset(),
    )


def _cpus(of_flavor: str | None, of_image: str | None) -> str | None:
    if of_flavor and of_flavor not in POLICIES:
        raise errors.InvalidCPUAllocationPolicy(f"hw:cpu_policy={of_flavor}: not one of {', '.join(POLICIES)}")
    forbidden = {"mixed": ("dedicated",), "shared": ("mixed", "dedicated")}.get(of_flavor or "", ())
    if of_image in forbidden:
        raise errors.ImageCPUPinningForbidden(
            f"hw_cpu_policy={of_image} of the image: the flavor has hw:cpu_policy={of_flavor}"
        )
    return of_flavor or of_image


def _threads(of_flavor: str | None, of_image: str | None) -> str | None:
    if of_flavor and of_flavor not in THREAD_POLICIES:
        raise errors.InvalidCPUThreadAllocationPolicy(
            f"hw:cpu_thread_policy={of_flavor}: not one of {', '.join(THREAD_POLICIES)}"
        )
    if of_flavor in (None, "prefer"):
        return of_flavor or of_image
    if of_image and of_image != of_flavor:
        raise errors.ImageCPUThreadPolicyForbidden(
            f"hw_cpu_thread_policy={of_image} of the image: the flavor has hw:cpu_thread_policy={of_flavor}"
        )
    return of_flavor


def _emulator_threads(flavor: Flavor) -> str | None:
    policy = flavor.extra_specs.get("hw:emulator_threads_policy")
    if policy and policy not in EMULATOR_POLICIES:
        raise errors.InvalidEmulatorThreadsPolicy(
            f"hw:emulator_threads_policy={policy}: not one of {', '.join(EMULATOR_POLICIES)}"
        )
    return policy or None


def realtime_cpus(flavor: Flavor, image: Mapping[str, Any]) -> CPUs:
    """Returns the guest's CPUs that run in real time; empty if none does."""
    return _realtime(flavor, image.get("hw_cpu_realtime_mask")) or frozenset()


def _realtime(flavor: Flavor, of_image: str | None) -> CPUs | None:
    """Returns the realtime CPUs. The image's mask takes precedence over the flavor's."""
    if not is_true(flavor.extra_specs.get("hw:cpu_realtime")):
        return None
    all_cpus = frozenset(range(flavor.vcpus))
    text = of_image or flavor.extra_specs.get("hw:cpu_realtime_mask")
    cpus = mask("hw:cpu_realtime_mask", text, flavor.vcpus) if text else all_cpus
    # Nova checks the policy of the emulator threads already here, so a wrong policy is reported before a mask that is
    # too wide.
    if not cpus or (not _emulator_threads(flavor) and cpus == all_cpus):
        raise errors.RealtimeMaskNotFoundOrInvalid(
            f"hw:cpu_realtime_mask={text}: realtime needs a CPU that is not, or hw:emulator_threads_policy"
        )
    if not cpus <= all_cpus:
        raise errors.RealtimeMaskNotFoundOrInvalid(
            f"hw:cpu_realtime_mask={text}: the flavor has CPUs 0 to {flavor.vcpus - 1}"
        )
    return cpus


def _dedicated(flavor: Flavor) -> CPUs | None:
    text = flavor.extra_specs.get("hw:cpu_dedicated_mask")
    if not text:
        return None
    cpus = mask("hw:cpu_dedicated_mask", text, flavor.vcpus)
    all_cpus = frozenset(range(flavor.vcpus))
    if not cpus or not cpus < all_cpus:
        raise errors.InvalidMixedInstanceDedicatedMask(
            f"hw:cpu_dedicated_mask={text}: it must pin some, but not all, of CPUs 0 to {flavor.vcpus - 1}"
        )
    return cpus


def _by_resources(flavor: Flavor, cpus: str | None, emulator: str | None) -> str | None:
    """resources:PCPU and resources:VCPU are equivalent to the policies dedicated and shared."""
    amounts = {"VCPU": 0, "PCPU": 0}
    for key, value in flavor.extra_specs.items():
        if (match := _RESOURCE.fullmatch(key)) and value.strip().lstrip("+-").isdigit():
            amounts[match[1]] += int(value)
    if not any(amounts.values()):
        return cpus
    if cpus:
        raise errors.InvalidRequest("resources:VCPU or resources:PCPU cannot stand beside hw:cpu_policy")
    if all(amounts.values()):
        raise errors.InvalidRequest("resources:VCPU and resources:PCPU cannot stand together")
    if amounts["VCPU"]:
        return "shared"
    needed = flavor.vcpus + (emulator == "isolate")
    if amounts["PCPU"] != needed:
        raise errors.InvalidRequest(f"resources:PCPU={amounts['PCPU']}: flavor and emulator threads need {needed}")
    return "dedicated"


def _by_trait(flavor: Flavor, required: Collection[str], threads: str | None) -> str | None:
    """The trait HW_CPU_HYPERTHREADING is equivalent to the thread policies isolate or require."""
    traits = [value for key, value in flavor.extra_specs.items() if _HYPERTHREADING.fullmatch(key)]
    if not traits and "HW_CPU_HYPERTHREADING" in required:
        traits = ["required"]
    if not traits or not traits[0]:
        return threads
    if threads:
        raise errors.InvalidRequest("trait:HW_CPU_HYPERTHREADING cannot stand beside hw:cpu_thread_policy")
    return {"forbidden": "isolate", "required": "require"}.get(traits[0])


def _check_shared(threads: str | None, emulator: str | None, dedicated: CPUs | None, realtime: CPUs | None) -> None:
    if threads:
        raise errors.CPUThreadPolicyConfigurationInvalid(f"hw:cpu_thread_policy={threads} needs pinned CPUs")
    if emulator == "isolate":
        raise errors.BadRequirementEmulatorThreadsPolicy("hw:emulator_threads_policy=isolate needs pinned CPUs")
    if dedicated:
        raise _mask_without_mixed()
    if realtime:
        raise errors.RealtimeConfigurationInvalid("hw:cpu_realtime needs pinned CPUs: hw:cpu_policy=dedicated or mixed")


def _mask_without_mixed() -> errors.RequiredMixedInstancePolicy:
    return errors.RequiredMixedInstancePolicy("hw:cpu_dedicated_mask needs hw:cpu_policy=mixed")
