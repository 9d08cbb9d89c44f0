"""The features of a CPU as traits of Placement. Pure."""

from collections.abc import Iterable
from functools import cache

import os_traits

_FAMILIES = {"x86_64": "X86", "i686": "X86", "aarch64": "AARCH64", "ppc64le": "PPC64LE"}


def traits_of_features(arch: str, features: Iterable[str]) -> frozenset[str]:
    """`features`: by libvirt's names (avx512-vnni, sse4.2...). Features without a standard trait are left out."""
    family = _FAMILIES.get(arch)
    names = () if family is None else [name for feature in features for name in _names(family, feature)]
    return frozenset(names) & standard_traits()


def _names(family: str, feature: str) -> Iterable[str]:
    """Yields possible trait names of a feature. A feature has one name or two: VMX and INTEL_VMX mean the same."""
    word = feature.upper().replace(".", "")
    for spelling in {word.replace("-", "_"), word.replace("-", "")}:
        for maker in ("", "AMD_", "INTEL_"):
            yield f"HW_CPU_{family}_{maker}{spelling}"


@cache
def standard_traits() -> frozenset[str]:
    return frozenset(os_traits.get_traits())
