"""The extra specs that Nova knows, and the values that each may have. Pure.

As of Nova 34. A key without a scope, or of a scope that is not Nova's, may have any value.
"""

import re
from collections.abc import Callable
from functools import partial

import os_resource_classes
import os_traits

from minova.objects.catalogue.guest_hardware import InvalidExtraSpec
from minova.objects.catalogue.image_properties import words

Reader = Callable[[str], None]

_BOOLEANS = words("1 t true on y yes 0 f false off n no")
_CPUS = r"\^?\d+((-\d+)?(,\^?\d+(-\d+)?)?)*"
_MAX_DIGITS = 20
_LEVELS = words("custom high normal low")
# Keys of `capabilities:` that may have further levels, such as capabilities:cpu_info:arch.
_NESTED = words(
    "cpu_info metrics stats numa_topology supported_hv_specs pci_device_pools nodename pci_stats supported_instances limits instances"
)
_FLAT = words(
    """id uuid service_id host vcpus memory_mb local_gb vcpus_used memory_mb_used local_gb_used hypervisor_type hypervisor_version
    hypervisor_hostname free_ram_mb free_disk_gb current_workload running_vms disk_available_least host_ip mapped
    cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio total_usable_ram_mb total_usable_disk_gb disk_mb_used
    free_disk_mb vcpus_total num_instances num_io_ops failed_builds aggregates cell_uuid updated"""
)


def known_keys() -> set[str]:
    """Returns the keys. `N` stands for a number, `*` for a name."""
    return {*_FIXED, *(name for name, _, _ in _FORMS)}


def check(key: str, value: str) -> None:
    """Raises InvalidExtraSpec if Nova knows no such key in this scope, or the key may not have this value."""
    reader = _FIXED.get(key) or next((reader for _, form, reader in _FORMS if form.fullmatch(key)), None)
    try:
        if reader is not None:
            reader(value)
        elif ":" in key and _SCOPES.fullmatch(key.partition(":")[0]):
            raise ValueError("there is no such extra spec")
    except ValueError as error:
        raise InvalidExtraSpec(f"Flavor extra spec {key[:255]}: {value[:255]!r} is not valid: {error}") from error


def _any(value: str) -> None:
    """Accepts every text."""


def _boolean(value: str) -> None:
    if value.strip().lower() not in _BOOLEANS:
        raise ValueError("it must be true or false")


def _require_whole(least: int | None, most: int | None, value: str) -> None:
    digits = value.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        raise ValueError("it must be a whole number")
    number = int(value)
    if least is not None and number < least:
        raise ValueError(f"it must be at least {least}")
    if most is not None and number > most:
        raise ValueError(f"it must be at most {most}")


def _one_of(choices: frozenset[str], value: str) -> None:
    if value not in choices:
        raise ValueError(f"known are {', '.join(sorted(choices))}")


def _form(pattern: str, value: str) -> None:
    # Values longer than a column are rejected elsewhere. The cut keeps patterns from running on long texts.
    if not re.fullmatch(pattern, value[:1024], re.ASCII):
        raise ValueError(f"it must have the form {pattern}")


def _choice(text: str) -> Reader:
    return partial(_one_of, words(text))


_TRAIT = _choice("required forbidden")
_FROM_0, _FROM_1, _NUMBER = (
    partial(_require_whole, 0, None),
    partial(_require_whole, 1, None),
    partial(_require_whole, None, None),
)
_READERS: tuple[tuple[Reader, str], ...] = (
    (_any, "accel:device_profile vmware:hw_version vmware:storage_policy"),
    (
        _boolean,
        """hide_hypervisor_id hw:boot_menu hw:cpu_realtime hw:ephemeral_encryption hw:hide_hypervisor_id hw:locked_memory
        hw:mem_encryption hw:pmu hw:vif_multiqueue_enabled hw:virtio_packed_ring hw_rng:allowed""",
    ),
    (
        _FROM_0,
        """hw:serial_port_count hw_rng:rate_bytes hw_rng:rate_period hw_video:ram_max_mb quota:cpu_period quota:cpu_shares
        quota:disk_read_bytes_sec quota:disk_read_iops_sec quota:disk_total_bytes_sec quota:disk_total_iops_sec
        quota:disk_write_bytes_sec quota:disk_write_iops_sec quota:vif_inbound_average quota:vif_inbound_burst
        quota:vif_inbound_peak quota:vif_outbound_average quota:vif_outbound_burst quota:vif_outbound_peak""",
    ),
    (
        _FROM_1,
        """hw:cpu_cores hw:cpu_max_cores hw:cpu_max_sockets hw:cpu_max_threads hw:cpu_sockets hw:cpu_threads hw:numa_nodes""",
    ),
    (_NUMBER, "quota:cpu_quota"),
    (partial(_require_whole, 0, 15), "hw:redirected_usb_ports"),
    (_choice("shared dedicated mixed"), "hw:cpu_policy"),
    (_choice("prefer isolate require"), "hw:cpu_thread_policy"),
    (_choice("share isolate"), "hw:emulator_threads_policy"),
    (_choice("required preferred legacy socket"), "hw:pci_numa_affinity_policy"),
    (_choice("amd-sev amd-sev-es amd-sev-snp intel-tdx"), "hw:mem_encryption_model"),
    (_choice("tpm-tis tpm-crb"), "hw:tpm_model"),
    (_choice("1.2 2.0"), "hw:tpm_version"),
    (_choice("user host deployment"), "hw:tpm_secret_security"),
    (_choice("none pause poweroff reset disabled"), "hw:watchdog_action"),
    (_choice("intel smmuv3 virtio auto"), "hw:viommu_model"),
    (_choice("sb16 es1370 pcspk ac97 ich6 ich9 usb virtio"), "hw:sound_model"),
    (_choice("none nec-xhci qemu-xhci"), "hw:usb_model"),
    (_choice("plain luks luksv2"), "hw:ephemeral_encryption_format"),
    (_choice("passthrough emulate"), "hw:maxphysaddr_mode"),
    (_FROM_0, "hw:maxphysaddr_bits"),
    (_choice("disabled required"), "os:secure_boot"),
    (_choice("isolate none"), "group_policy"),
    (partial(_form, r"(\^)?\d+((-\d+)?(,\^?\d+(-\d+)?)?)*"), "hw:cpu_realtime_mask"),
    (partial(_form, _CPUS), "hw:cpu_dedicated_mask"),
    (partial(_form, r"(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)"), "hw:mem_page_size"),
    (partial(_form, r"([a-zA-Z0-9_]+,?)+"), "hw:pmem"),
    (partial(_form, r"[^:]+:\d+(?:\s*,\s*[^:]+:\d+)*"), "pci_passthrough:alias"),
)
_FIXED = {key: reader for reader, keys in _READERS for key in keys.split()}
for _of in ("cpu", "memory", "disk_io", "vif"):
    _FIXED |= {
        f"quota:{_of}_limit": _FROM_0,
        f"quota:{_of}_reservation": _NUMBER,
        f"quota:{_of}_shares_level": partial(_one_of, _LEVELS),
        f"quota:{_of}_shares_share": _FROM_0,
    }
# minova's own keys: libvirt's other limits of disks.
_FIXED |= {
    f"quota:disk_{what}_{unit}_sec_max": _FROM_0 for what in ("read", "write", "total") for unit in ("bytes", "iops")
} | {"quota:disk_size_iops_sec": _FROM_0}
_GROUP = "([a-zA-Z0-9_-]{1,64})?"


def _names(names: list[str]) -> str:
    return "|".join([*map(re.escape, names), "CUSTOM_[A-Z0-9_]+"])


_FORMS: tuple[tuple[str, re.Pattern[str], Reader], ...] = (
    ("hw:numa_cpus.N", re.compile(r"hw:numa_cpus\.\d+", re.ASCII), partial(_form, _CPUS)),
    ("hw:numa_mem.N", re.compile(r"hw:numa_mem\.\d+", re.ASCII), _FROM_1),
    ("aggregate_instance_extra_specs:*", re.compile(r"aggregate_instance_extra_specs:.+"), _any),
    ("capabilities:*", re.compile(rf"capabilities:({'|'.join(_FLAT)})"), _any),
    ("capabilities:*", re.compile(rf"capabilities:({'|'.join(_NESTED)})(:\w+)*", re.ASCII), _any),
    ("resources:*", re.compile(rf"resources{_GROUP}:({_names(os_resource_classes.STANDARDS)})"), _NUMBER),
    ("trait:*", re.compile(rf"trait{_GROUP}:({_names(os_traits.get_traits())})"), _TRAIT),
)
_SCOPES = re.compile(
    "accel|aggregate_instance_extra_specs|capabilities|hw|hw_rng|hw_video|os|pci_passthrough|quota|vmware|"
    rf"resources{_GROUP}|trait{_GROUP}"
)
