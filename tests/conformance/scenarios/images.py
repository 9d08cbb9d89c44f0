"""Image properties."""

import random
from collections.abc import Sequence
from typing import Any

from tests.conformance.scenarios.words import NUMA_POLICIES, chance, picked

PROPERTIES: dict[str, Sequence[Any]] = {
    "hw_architecture": ("x86_64", "i686", "aarch64", "amd64", "i386", "X86_64"),
    "architecture": ("x86_64", "i686", "ppc64"),
    "img_hv_type": ("kvm", "qemu", "KVM", "xen", "xapi"),
    "hypervisor_type": ("qemu", "xen"),
    "hw_vm_mode": ("hvm", "HVM", "hv", "pv", "xen", "exe", "baremetal"),
    "vm_mode": ("xen", "hvm", "exe"),
    "img_hv_requested_version": (">=6.2.0", ">=8.2,<9", "!=9.0", "<8.2", ">= 7.0", "==9.0.0", ">0"),
    "hypervisor_version_requires": (">=6.2.0", "<8.2"),
    "hw_maxphysaddr_mode": ("emulate", "passthrough"),
    "os_type": ("linux", "windows", "Linux"),
    "os_distro": ("rhel", "ubuntu", "debian"),
    "hw_disk_bus": ("virtio", "scsi", "ide"),
    "hw_boot_menu": (True, "True", "true", "no", "yes", False),
    "hw_qemu_guest_agent": ("yes", "1", "off"),
    "hw_video_ram": (16, "64"),
    "hw_scsi_model": ("virtio-scsi", "lsilogic"),
    "vmware_adaptertype": ("ide", "lsilogic", "lsiLogicsas", "paraVirtual"),
    "hw_vif_model": ("virtio", "e1000", "VirtualE1000"),
    "owner_specified.openstack.sha256": ("abc",),
    "trait:CUSTOM_GOLD": ("required", "forbidden"),
    "cache_in_nova": ("True",),
    "os_require_quiesce": ("yes",),
    "hw_time_hpet": (True,),
    "img_signature_hash_method": ("SHA-256",),
}
WRONG: dict[str, Sequence[Any]] = {
    "hw_architecture": ("x86", "z80"),
    "img_hv_type": ("acme",),
    "hw_vm_mode": ("paravirtual",),
    "img_hv_requested_version": ("nine", ">=x", "9.0", ""),
    "hw_disk_bus": ("floppy",),
    "os_type": ("beos",),
    "hw_numa_nodes": ("x", "1.5", 0, -1),
    "hw_cpu_policy": ("free", ""),
    "hw_video_ram": ("lots",),
    "hw_maxphysaddr_bits": ("wide",),
    "hw_cpu_cores": ("a",),
}
CPUS: dict[str, Sequence[Any]] = {
    "hw_cpu_policy": ("shared", "dedicated", "mixed"),
    "hw_cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw_numa_nodes": (1, "1", "2", 2, "3"),
    "hw_mem_page_size": ("small", "large", "any", "2048", "2MB", "tiny", "4"),
    "hw_pci_numa_affinity_policy": NUMA_POLICIES,
    "hw_cpu_realtime_mask": ("^0", "^0-1", "^9", "0"),
    "hw_locked_memory": ("true", False, "no"),
    "hw_emulation_architecture": ("aarch64",),
    "hw_mem_encryption": ("true", "false"),
    "hw_firmware_type": ("uefi", "bios"),
    "hw_machine_type": ("q35", "pc"),
    "hw_mem_encryption_model": ("amd-sev", "amd-sev-es"),
}


def image(rng: random.Random, *, valid: bool = False) -> dict[str, Any]:
    properties = picked(rng, PROPERTIES, 0.06)
    if not valid and chance(rng, 0.12):
        properties |= picked(rng, CPUS, 0.2)
    if not valid and chance(rng, 0.03):
        properties |= picked(rng, WRONG, 0.15)
    return properties
