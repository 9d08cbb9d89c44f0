"""The rate limits that a flavor sets its guests: `quota:cpu_*`, `quota:disk_*`, `quota:vif_*`. Pure.

Names and units are Nova's and libvirt's: bytes and operations a second, KiB a second of interfaces, microseconds of CPU periods.
"""

from collections.abc import Mapping

import msgspec

from minova.objects.catalogue.guest_hardware import InvalidExtraSpec

PREFIX = "quota:"
# libvirt's ranges, by key without the prefix.
_CPU = {"cpu_shares": (1, 262144), "cpu_period": (1000, 1_000_000), "cpu_quota": (-1, 17_592_186_044_415)}
_MIN_QUOTA = 1000
_KINDS = tuple(f"{what}_{unit}_sec" for unit in ("bytes", "iops") for what in ("read", "write", "total"))
_DISK = (*_KINDS, *(f"{kind}_max" for kind in _KINDS), "size_iops_sec")
_VIF = ("average", "peak", "burst")
_MAX_VALUE = 1_000_000_000_000_000


class GuestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits by libvirt's names. A missing one means no limit. `inbound` and `outbound` apply to each interface."""

    cpu: dict[str, int] = {}
    disk: dict[str, int] = {}
    inbound: dict[str, int] = {}
    outbound: dict[str, int] = {}


def guest_limits(extra_specs: Mapping[str, str]) -> GuestLimits:
    """Raises InvalidExtraSpec if no host could set this. 0 means no limit. Other keys of `quota:` are for other
    hypervisors.
    """
    cpu = {
        name.removeprefix("cpu_"): amount
        for name, (least, most) in _CPU.items()
        if (amount := _amount(extra_specs, name, least, most))
    }
    if 0 < cpu.get("quota", _MIN_QUOTA) < _MIN_QUOTA:
        raise _invalid("cpu_quota", str(cpu["quota"]), f"it must be from {_MIN_QUOTA} up, or -1: no limit")
    disk = {name: amount for name in _DISK if (amount := _amount(extra_specs, f"disk_{name}", 0, _MAX_VALUE))}
    _check_disk(disk)
    return GuestLimits(
        cpu=cpu, disk=disk, inbound=_bandwidth(extra_specs, "inbound"), outbound=_bandwidth(extra_specs, "outbound")
    )


def _check_disk(limits: Mapping[str, int]) -> None:
    """Rejects what libvirt would reject."""
    for name, amount in limits.items():
        what, _, unit = name.partition("_")
        if what == "total":
            for part in ("read", "write"):
                if f"{part}_{unit}" in limits:
                    raise _invalid(f"disk_{name}", str(amount), f"{PREFIX}disk_{part}_{unit} is there, too")
        base = name.removesuffix("_max")
        if base != name and base not in limits:
            raise _invalid(f"disk_{name}", str(amount), f"it needs {PREFIX}disk_{base}")
    if "size_iops_sec" in limits and not any(name.endswith("_iops_sec") and name != "size_iops_sec" for name in limits):
        raise _invalid("disk_size_iops_sec", str(limits["size_iops_sec"]), "it needs a limit of operations")


def _bandwidth(extra_specs: Mapping[str, str], way: str) -> dict[str, int]:
    limits = {name: amount for name in _VIF if (amount := _amount(extra_specs, f"vif_{way}_{name}", 0, _MAX_VALUE))}
    if limits and "average" not in limits:
        name, amount = next(iter(limits.items()))
        raise _invalid(f"vif_{way}_{name}", str(amount), f"it needs {PREFIX}vif_{way}_average")
    return limits


def _amount(extra_specs: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = extra_specs.get(PREFIX + name, "0")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(most))):
        raise _invalid(name, text, "it must be a number")
    amount = int(text)
    if amount and not least <= amount <= most:
        raise _invalid(name, text, f"it must be from {least} to {most}")
    return amount


def _invalid(name: str, text: str, why: str) -> InvalidExtraSpec:
    return InvalidExtraSpec(f"Flavor extra spec {PREFIX}{name}: {text[:255]!r} is not valid: {why}")
