"""The capabilities of a libvirt host as traits of Placement. Pure."""

from collections.abc import Iterable
from functools import cache

import os_traits

from minova.objects.catalogue.guest_hardware import SECURE_BOOT, UEFI, VIF_MODELS
from minova.objects.hosts.numa import NUMATopology
from minova.virt.libvirt.inventory.domain_capabilities import GuestOffer

# Traits of this driver on every host.
ALWAYS = (
    "COMPUTE_NODE",
    "COMPUTE_IMAGE_TYPE_QCOW2",
    "COMPUTE_IMAGE_TYPE_RAW",
)
# The first version of QEMU, in libvirt's numbering, that has the model igb.
_IGB_SINCE = 8_000_000
_ARCHES = {"x86_64": "X86", "i686": "X86", "aarch64": "AARCH64", "ppc64le": "PPC64LE"}


def traits_of(arch: str, features: Iterable[str], topology: NUMATopology | None) -> tuple[str, ...]:
    """Returns traits of the host's CPU. `features` are the CPU's, by libvirt's names (avx512-vnni, sse4.2...). Features
    without a standard trait are left out.
    """
    traits = {*ALWAYS, f"HW_ARCH_{arch.upper()}"}
    family = _ARCHES.get(arch)
    if family is not None:
        traits |= {name for feature in features for name in _names(family, feature)}
    if topology is not None and any(len(core) > 1 for cell in topology.cells for core in cell.siblings):
        traits.add("HW_CPU_HYPERTHREADING")
    return tuple(sorted(traits & _standard()))


def offer_traits(arch: str, offer: GuestOffer, hypervisor_version: int) -> tuple[str, ...]:
    """Returns traits of what guests may have. libvirt's capabilities do not list models of interfaces: QEMU has all of
    them, as far as its version supports them.
    """
    models = [model for model in VIF_MODELS if model != "igb" or hypervisor_version >= _IGB_SINCE]
    traits = {
        *(f"COMPUTE_STORAGE_BUS_{bus}".upper() for bus in offer.disk_buses),
        *(f"COMPUTE_GRAPHICS_MODEL_{model}".upper() for model in offer.video_models),
        *(f"COMPUTE_NET_VIF_MODEL_{model}".upper() for model in models),
    }
    if arch in {"x86_64", "i686"}:
        traits.add("COMPUTE_FIRMWARE_BIOS")
    if offer.uefi:
        traits.add(UEFI)
    if offer.secure_boot:
        traits.add(SECURE_BOOT)
    return tuple(sorted(traits & _standard()))


def _names(family: str, feature: str) -> Iterable[str]:
    """Yields possible trait names of a feature. A feature has one name or two: VMX and INTEL_VMX mean the same."""
    word = feature.upper().replace(".", "")
    for spelling in {word.replace("-", "_"), word.replace("-", "")}:
        for maker in ("", "AMD_", "INTEL_"):
            yield f"HW_CPU_{family}_{maker}{spelling}"


@cache
def _standard() -> frozenset[str]:
    return frozenset(os_traits.get_traits())
