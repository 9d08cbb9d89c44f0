"""Nova's image properties: their names, their older names, and their values in canonical form.

Names and values are those of Nova 34. Other properties are not checked.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from packaging.version import Version

from minova import errors

Reader = Callable[[str], Any]


class InvalidImageProperty(errors.BadRequest):
    """A value that the property cannot have. The text names both."""

    nova_name = "ValueError"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_DIGITS = 20
TRUE = words("1 t true on y yes")

# Older names that images may still have. If both are set, the newer name wins.
OLDER_NAMES = {
    "architecture": "hw_architecture",
    "auto_disk_config": "hw_auto_disk_config",
    "bdm_v2": "img_bdm_v2",
    "bittorrent": "img_bittorrent",
    "block_device_mapping": "img_block_device_mapping",
    "cache_in_nova": "img_cache_in_nova",
    "hypervisor_type": "img_hv_type",
    "hypervisor_version_requires": "img_hv_requested_version",
    "ipxe_boot": "hw_ipxe_boot",
    "mappings": "img_mappings",
    "owner_id": "img_owner_id",
    "root_device_name": "img_root_device_name",
    "vm_mode": "hw_vm_mode",
    "vmware_disktype": "hw_disk_type",
    "vmware_image_version": "img_version",
    "vmware_linked_clone": "img_linked_clone",
    "vmware_ostype": "os_distro",
    "xenapi_device_id": "hw_device_id",
    "xenapi_image_compression_level": "img_compression_level",
    "xenapi_skip_agent_inject_files_at_boot": "os_skip_agent_inject_files_at_boot",
    "xenapi_skip_agent_inject_ssh": "os_skip_agent_inject_ssh",
    "xenapi_use_agent": "img_use_agent",
}

ARCHITECTURES = words(
    """alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips mipsel mips64 mips64el
    openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa
    xtensaeb"""
)
OLD_ARCHITECTURES = {
    "amd64": "x86_64",
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
}
HYPERVISORS = words(
    """baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test uml vbox vz vmware xen
    zvm prsm"""
)
DISK_BUSES = "fdc ide sata scsi usb virtio xen lxc uml"
VIF_MODELS = "virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet vmxnet3 igb"
OLD_VIF_MODELS = {
    "virtuale1000": "e1000",
    "virtuale1000e": "e1000e",
    "virtualpcnet32": "pcnet",
    "virtualsriovethernetcard": "sriov",
    "virtualvmxnet": "vmxnet",
    "virtualvmxnet3": "vmxnet3",
}
SCSI_MODELS = "buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi"
OLD_SCSI_MODELS = {"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"}
SIGNATURE_KEYS = "DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 RSA-PSS"
PREDICATE = re.compile(r"\s*(<=|>=|<|>|!=|==)\s*(\S+)\s*")
# Lists that are made of numbered properties.
LISTS = ("hw_numa_mem", "hw_numa_cpus", "traits_required")


def flag(text: str) -> bool:
    return text.strip().lower() in TRUE


def whole(text: str) -> int:
    """Raises ValueError if the text is no whole number, or longer than any meaningful number. Python refuses to print
    very long numbers.
    """
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has at most {MAX_DIGITS} digits")
    return int(text)


def one_of(choices: frozenset[str], text: str) -> str:
    if text not in choices:
        raise ValueError(f"known are {', '.join(sorted(choices))}")
    return text


def word(choices: frozenset[str], aliases: Mapping[str, str], text: str) -> str:
    """Compares case-insensitively."""
    lower = text.lower()
    return one_of(choices, aliases.get(lower, lower))


def choice(text: str) -> Reader:
    return partial(one_of, words(text))


def predicates(text: str) -> list[tuple[str, Version]]:
    """Returns (operator, version) of each part of `>=6.0, <10`. Raises ValueError if the text is no such list."""
    checks = []
    for part in text.split(","):
        match = PREDICATE.fullmatch(part)
        if match is None:
            raise ValueError("it is no list such as '>=6.0, <10'")
        checks.append((match[1], Version(match[2])))
    return checks


def version_range(text: str) -> str:
    predicates(text)
    return text


READERS: dict[Reader, str] = {
    flag: """hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot hw_locked_memory hw_mem_encryption
        hw_pmu hw_qemu_guest_agent hw_time_hpet hw_vif_multiqueue_enabled hw_virtio_packed_ring img_bdm_v2 img_bittorrent
        img_cache_in_nova img_hide_hypervisor_id img_linked_clone img_use_agent os_require_quiesce
        os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh""",
    whole: """hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_sockets hw_cpu_threads
        hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports hw_serial_port_count hw_video_ram
        img_compression_level img_version""",
    str: """hw_auto_disk_config hw_cpu_realtime_mask hw_disk_type hw_ephemeral_encryption_secret_uuid hw_machine_type
        hw_mem_page_size hw_numa_cpus hw_numa_mem img_block_device_mapping img_mappings img_owner_id
        img_root_device_name img_signature img_signature_certificate_uuid os_admin_user os_command_line os_distro
        traits_required""",
    partial(word, ARCHITECTURES, OLD_ARCHITECTURES): "hw_architecture hw_emulation_architecture",
    partial(word, HYPERVISORS, {"xapi": "xen"}): "img_hv_type",
    partial(word, words("hvm xen uml exe"), {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}): "hw_vm_mode",
    partial(word, words("linux windows"), {}): "os_type",
    partial(word, words(VIF_MODELS), OLD_VIF_MODELS): "hw_vif_model",
    partial(word, words(SCSI_MODELS), OLD_SCSI_MODELS): "hw_scsi_model",
    version_range: "img_hv_requested_version",
    choice(DISK_BUSES): "hw_cdrom_bus hw_disk_bus hw_floppy_bus hw_rescue_bus",
    choice("shared dedicated mixed"): "hw_cpu_policy",
    choice("prefer isolate require"): "hw_cpu_thread_policy",
    choice("required preferred legacy socket"): "hw_pci_numa_affinity_policy",
    choice("uefi bios"): "hw_firmware_type",
    choice("usb virtio"): "hw_input_bus",
    choice("amd-sev amd-sev-es amd-sev-snp intel-tdx"): "hw_mem_encryption_model",
    choice("usbtablet"): "hw_pointer_model",
    choice("cdrom disk floppy fs lun"): "hw_rescue_device",
    choice("virtio"): "hw_rng_model",
    choice("cirrus qxl vga vmvga xen virtio gop none bochs"): "hw_video_model",
    choice("intel smmuv3 virtio auto"): "hw_viommu_model",
    choice("none pause poweroff reset disabled"): "hw_watchdog_action",
    choice("tpm-tis tpm-crb"): "hw_tpm_model",
    choice("1.2 2.0"): "hw_tpm_version",
    choice("plain luks luksv2"): "hw_ephemeral_encryption_format",
    choice("passthrough emulate"): "hw_maxphysaddr_mode",
    choice("sb16 es1370 pcspk ac97 ich6 ich9 usb virtio"): "hw_sound_model",
    choice("none nec-xhci qemu-xhci"): "hw_usb_model",
    choice("optional mandatory"): "img_config_drive",
    choice("SHA-224 SHA-256 SHA-384 SHA-512"): "img_signature_hash_method",
    choice(SIGNATURE_KEYS): "img_signature_key_type",
    choice("required disabled optional"): "os_secure_boot",
}
# The reader of each property, by its name.
FIELDS: dict[str, Reader] = {name: reader for reader, names in READERS.items() for name in names.split()}


def typed(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns the properties under their newest names, with booleans and numbers converted.

    `hw_numa_mem.N`, `hw_numa_cpus.N` and `trait:NAME` become lists: `hw_numa_mem`, `hw_numa_cpus`, `traits_required`.
    Raises InvalidImageProperty for an invalid value.
    """
    adapter = properties.get("vmware_adaptertype")
    typed_values: dict[str, Any] = {}
    if adapter == "ide":
        typed_values["hw_disk_bus"] = "ide"
    elif adapter:
        typed_values.update(hw_disk_bus="scsi", hw_scsi_model=read("hw_scsi_model", adapter))
    typed_values.update({new: read(new, properties[old]) for old, new in OLDER_NAMES.items() if old in properties})
    typed_values.update(
        {name: read(name, text) for name, text in properties.items() if name in FIELDS and name not in LISTS}
    )
    lists = {
        "hw_numa_mem": [read("hw_numa_nodes", text) for text in numbered(properties, "hw_numa_mem")],
        "hw_numa_cpus": numbered(properties, "hw_numa_cpus"),
        "traits_required": [
            name[6:] for name, text in properties.items() if name.startswith("trait:") and text == "required"
        ],
    }
    return {**typed_values, **{name: values for name, values in lists.items() if values}}


def read(name: str, text: str) -> Any:
    """Returns the value of one property. Raises InvalidImageProperty if it is invalid."""
    try:
        return FIELDS[name](str(text))
    except ValueError as error:
        raise InvalidImageProperty(f"Image property {name}: {str(text)[:255]!r} is not valid: {error}") from error


def numbered(properties: Mapping[str, str], name: str) -> list[str]:
    """Returns the values of `name.0`, `name.1` and so on, up to the first missing one."""
    values: list[str] = []
    while f"{name}.{len(values)}" in properties:
        values.append(properties[f"{name}.{len(values)}"])
    return values
