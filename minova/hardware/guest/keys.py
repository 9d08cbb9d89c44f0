"""Every key of flavors and images that minova knows, and what becomes of it. Pure.

- GIVEN: some part of minova makes it effective, in the place that the table names.
- REQUIRED: given, and only by hosts that publish the trait: the scheduler chooses no other host.
- REFUSED: a request for a server is answered with 400, which names the key.
- NOTED: a statement about the image, which asks nothing of a host. The table names its readers.

`docs/reference/guest-hardware.md` is made from this table. A test compares it with the keys whose values minova checks, and another
shows the effect of each key.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from minova import errors
from minova.objects.catalogue.image_properties import OLDER_NAMES, flag


class Fate(StrEnum):
    GIVEN = "given"
    REQUIRED = "required of the host"
    REFUSED = "refused"
    NOTED = "noted"


class KeyEntry(NamedTuple):
    """`text`: where the key is effective, the trait that a host needs, or why the key is refused."""

    fate: Fate
    text: str


def _entries(*parts: tuple[Fate, str, str]) -> dict[str, KeyEntry]:
    return {key: KeyEntry(fate, text) for fate, text, keys in parts for key in keys.split()}


_CYBORG = "there is no accelerator service (Cyborg)"
_VMWARE = "it is for VMware"
_XEN = "it is for XenServer"
_SPICE = "it needs SPICE consoles, which are not served"
_SEV_ALONE = "of the models of encrypted memory, only the default is served, amd-sev"
_SIGNATURES = "signatures of images are not verified"
_MAPPINGS = "block devices are taken from the request, not from the image"

_KINDS = [f"{what}_{unit}_sec" for what in ("read", "write", "total") for unit in ("bytes", "iops")]
_DISK_LIMITS = [f"quota:disk_{kind}{most}" for kind in _KINDS for most in ("", "_max")] + ["quota:disk_size_iops_sec"]
_VMWARE_LIMITS = [
    f"quota:{of}_{what}"
    for of in ("cpu", "memory", "disk_io", "vif")
    for what in ("limit", "reservation", "shares_level", "shares_share")
]

FLAVOR_KEYS = _entries(
    (Fate.GIVEN, "`cpu/topology`", "hw:cpu_sockets hw:cpu_cores hw:cpu_threads"),
    (Fate.GIVEN, "limits `cpu/topology`", "hw:cpu_max_sockets hw:cpu_max_cores hw:cpu_max_threads"),
    (Fate.GIVEN, "`cputune/vcpupin`, PCPU in Placement", "hw:cpu_policy hw:cpu_dedicated_mask"),
    (Fate.GIVEN, "the scheduler's choice of hosts and of their CPUs", "hw:cpu_thread_policy"),
    (Fate.GIVEN, "`cputune/vcpusched`", "hw:cpu_realtime hw:cpu_realtime_mask"),
    (Fate.GIVEN, "`cputune/emulatorpin`, one more PCPU in Placement", "hw:emulator_threads_policy"),
    (Fate.GIVEN, "`numatune`, `cpu/numa`", "hw:numa_nodes hw:numa_cpus.N hw:numa_mem.N"),
    (Fate.GIVEN, "`memoryBacking/hugepages`", "hw:mem_page_size"),
    (Fate.GIVEN, "`memoryBacking/locked`", "hw:locked_memory"),
    (Fate.GIVEN, "`cputune`", "quota:cpu_shares quota:cpu_period quota:cpu_quota"),
    (Fate.GIVEN, "`disk/iotune`", " ".join(_DISK_LIMITS)),
    (
        Fate.GIVEN,
        "`interface/bandwidth`",
        " ".join(f"quota:vif_{way}_{what}" for way in ("inbound", "outbound") for what in ("average", "peak", "burst")),
    ),
    (Fate.GIVEN, "`interface/driver` queues", "hw:vif_multiqueue_enabled"),
    (Fate.REQUIRED, "`HW_CPU_X86_AMD_SEV`, a MEM_ENCRYPTION_CONTEXT in Placement", "hw:mem_encryption"),
    (Fate.REQUIRED, "`COMPUTE_NET_VIRTIO_PACKED`", "hw:virtio_packed_ring"),
    (Fate.REQUIRED, "`COMPUTE_SOUND_MODEL_...`", "hw:sound_model"),
    (Fate.REQUIRED, "`COMPUTE_USB_MODEL_...`", "hw:usb_model"),
    (Fate.REQUIRED, "`COMPUTE_VIOMMU_MODEL_...`", "hw:viommu_model"),
    (Fate.REQUIRED, "`COMPUTE_ADDRESS_SPACE_...`", "hw:maxphysaddr_mode"),
    (Fate.GIVEN, "`cpu/maxphysaddr`", "hw:maxphysaddr_bits"),
    (Fate.REQUIRED, "`COMPUTE_SECURITY_UEFI_SECURE_BOOT`", "os:secure_boot"),
    (Fate.REQUIRED, "`COMPUTE_SECURITY_TPM_...`", "hw:tpm_version hw:tpm_model"),
    (Fate.REQUIRED, "`COMPUTE_EPHEMERAL_ENCRYPTION`", "hw:ephemeral_encryption"),
    (Fate.REQUIRED, "`COMPUTE_EPHEMERAL_ENCRYPTION_LUKS`", "hw:ephemeral_encryption_format"),
    (Fate.GIVEN, "`os/bootmenu`", "hw:boot_menu"),
    (Fate.GIVEN, "`features/pmu`", "hw:pmu"),
    (Fate.GIVEN, "`features/kvm/hidden`", "hide_hypervisor_id hw:hide_hypervisor_id"),
    (Fate.GIVEN, "`serial`, one for each port", "hw:serial_port_count"),
    (Fate.GIVEN, "`watchdog`", "hw:watchdog_action"),
    (Fate.GIVEN, "permits and limits `rng`", "hw_rng:allowed hw_rng:rate_bytes hw_rng:rate_period"),
    (Fate.GIVEN, "limits `video/model` vram", "hw_video:ram_max_mb"),
    (Fate.GIVEN, "`hostdev`, devices of the host's pools", "pci_passthrough:alias hw:pci_numa_affinity_policy"),
    (Fate.GIVEN, "AggregateInstanceExtraSpecsFilter", "aggregate_instance_extra_specs:*"),
    (Fate.GIVEN, "ComputeCapabilitiesFilter", "capabilities:*"),
    (Fate.GIVEN, "Placement", "resources:*"),
    (Fate.REQUIRED, "the trait that it names", "trait:*"),
    (Fate.REFUSED, "numbered groups of resources and traits are not served", "resourcesN:* traitN:* group_policy"),
    (Fate.REFUSED, _CYBORG, "accel:device_profile"),
    (Fate.REFUSED, _SEV_ALONE, "hw:mem_encryption_model"),
    (Fate.REFUSED, "persistent memory is not served", "hw:pmem"),
    (Fate.REFUSED, _SPICE, "hw:redirected_usb_ports"),
    (Fate.REFUSED, "the conductors keep the secrets of TPMs: deployment", "hw:tpm_secret_security"),
    (Fate.REFUSED, _VMWARE, f"vmware:hw_version vmware:storage_policy {' '.join(_VMWARE_LIMITS)}"),
)
IMAGE_KEYS = _entries(
    (Fate.GIVEN, "`cpu/topology`", "hw_cpu_sockets hw_cpu_cores hw_cpu_threads"),
    (Fate.GIVEN, "limits `cpu/topology`", "hw_cpu_max_sockets hw_cpu_max_cores hw_cpu_max_threads"),
    (Fate.GIVEN, "`cputune/vcpupin`, PCPU in Placement", "hw_cpu_policy"),
    (Fate.GIVEN, "the scheduler's choice of hosts and of their CPUs", "hw_cpu_thread_policy"),
    (Fate.GIVEN, "`cputune/vcpusched`", "hw_cpu_realtime_mask"),
    (Fate.GIVEN, "`numatune`, `cpu/numa`", "hw_numa_nodes hw_numa_cpus hw_numa_mem"),
    (Fate.GIVEN, "`memoryBacking/hugepages`", "hw_mem_page_size"),
    (Fate.GIVEN, "`memoryBacking/locked`", "hw_locked_memory"),
    (Fate.GIVEN, "`interface/driver` queues", "hw_vif_multiqueue_enabled"),
    (Fate.REQUIRED, "`COMPUTE_STORAGE_BUS_...`", "hw_disk_bus hw_cdrom_bus"),
    (Fate.REQUIRED, "`COMPUTE_NET_VIF_MODEL_...`", "hw_vif_model"),
    (Fate.REQUIRED, "`COMPUTE_GRAPHICS_MODEL_...`", "hw_video_model"),
    (Fate.REQUIRED, "`COMPUTE_NET_VIRTIO_PACKED`", "hw_virtio_packed_ring"),
    (Fate.REQUIRED, "`COMPUTE_SOUND_MODEL_...`", "hw_sound_model"),
    (Fate.REQUIRED, "`COMPUTE_USB_MODEL_...`", "hw_usb_model"),
    (Fate.REQUIRED, "`COMPUTE_VIOMMU_MODEL_...`", "hw_viommu_model"),
    (Fate.REQUIRED, "`COMPUTE_ADDRESS_SPACE_...`", "hw_maxphysaddr_mode"),
    (Fate.GIVEN, "`cpu/maxphysaddr`, ImagePropertiesFilter", "hw_maxphysaddr_bits"),
    (Fate.REQUIRED, "`COMPUTE_FIRMWARE_UEFI`", "hw_firmware_type"),
    (Fate.REQUIRED, "`COMPUTE_SECURITY_UEFI_SECURE_BOOT`", "os_secure_boot"),
    (Fate.REQUIRED, "`COMPUTE_SECURITY_STATELESS_FIRMWARE`", "hw_firmware_stateless"),
    (Fate.REQUIRED, "the traits that it names", "traits_required"),
    (Fate.REQUIRED, "its machine types (ImagePropertiesFilter)", "hw_machine_type"),
    (Fate.REQUIRED, "its architectures (ImagePropertiesFilter)", "hw_architecture img_hv_type hw_vm_mode"),
    (Fate.REQUIRED, "the version of its hypervisor (ImagePropertiesFilter)", "img_hv_requested_version"),
    (Fate.REQUIRED, "`COMPUTE_SECURITY_TPM_...`", "hw_tpm_version hw_tpm_model"),
    (Fate.REQUIRED, "`COMPUTE_EPHEMERAL_ENCRYPTION`", "hw_ephemeral_encryption"),
    (Fate.REQUIRED, "`COMPUTE_EPHEMERAL_ENCRYPTION_LUKS`", "hw_ephemeral_encryption_format"),
    (Fate.GIVEN, "`controller` of SCSI disks", "hw_scsi_model"),
    (
        Fate.GIVEN,
        "rescues with this image: `disk` behind the others, with `boot`. A rescue gets 400 for `floppy`, `fs`, `lun` and buses without disks",
        "hw_rescue_bus hw_rescue_device",
    ),
    (Fate.GIVEN, "`os/bootmenu`", "hw_boot_menu"),
    (Fate.GIVEN, "`os/kernel`, `os/initrd`: images whose files QEMU loads", "kernel_id ramdisk_id"),
    (Fate.GIVEN, "`os/cmdline`; it needs `kernel_id`", "os_command_line"),
    (Fate.GIVEN, "`features/pmu`", "hw_pmu"),
    (Fate.GIVEN, "`features/kvm/hidden`", "img_hide_hypervisor_id"),
    (Fate.GIVEN, "`serial`, one for each port", "hw_serial_port_count"),
    (Fate.GIVEN, "`watchdog`", "hw_watchdog_action"),
    (Fate.GIVEN, "`rng`", "hw_rng_model"),
    (Fate.GIVEN, "`video/model` vram", "hw_video_ram"),
    (Fate.GIVEN, "`clock/timer` hpet", "hw_time_hpet"),
    (Fate.GIVEN, "`input`", "hw_pointer_model hw_input_bus"),
    (Fate.GIVEN, "`channel`; passwords and quiesced snapshots", "hw_qemu_guest_agent"),
    (Fate.GIVEN, "snapshots: they fail if the guest cannot be quiesced", "os_require_quiesce"),
    (Fate.GIVEN, "new passwords: the user that gets them", "os_admin_user"),
    (Fate.GIVEN, "windows: `features/hyperv`, `clock` in local time", "os_type"),
    (Fate.GIVEN, "the choice of devices", "hw_pci_numa_affinity_policy"),
    (Fate.GIVEN, "new servers: mandatory gives each a config drive", "img_config_drive"),
    (Fate.GIVEN, "`OS-DCF:diskConfig` of new servers", "hw_auto_disk_config"),
    (Fate.NOTED, "`minova server ssh`, ImagePropertiesWeigher", "os_distro"),
    (Fate.NOTED, "`createImage`: images of servers do not inherit it", "img_cache_in_nova img_bittorrent"),
    (Fate.NOTED, "ImagePropertiesWeigher", "img_owner_id img_version img_root_device_name img_bdm_v2"),
    (Fate.REFUSED, "guests run on the CPU's own architecture, or on `hw_architecture`", "hw_emulation_architecture"),
    (
        Fate.REFUSED,
        "minova makes and keeps the secrets of disks itself",
        "hw_ephemeral_encryption_secret_uuid",
    ),
    (Fate.REFUSED, "the flavor must have `hw:mem_encryption`, which takes a context of the host", "hw_mem_encryption"),
    (Fate.REFUSED, _SEV_ALONE, "hw_mem_encryption_model"),
    (Fate.REFUSED, "guests have no floppy drives", "hw_floppy_bus"),
    (Fate.REFUSED, "booting by iPXE is for XenServer", "hw_ipxe_boot"),
    (Fate.REFUSED, _SPICE, "hw_redirected_usb_ports"),
    (
        Fate.REFUSED,
        _SIGNATURES,
        "img_signature img_signature_hash_method img_signature_key_type img_signature_certificate_uuid",
    ),
    (Fate.REFUSED, _MAPPINGS, "img_block_device_mapping img_mappings"),
    (Fate.REFUSED, _VMWARE, "hw_disk_type img_linked_clone"),
    (
        Fate.REFUSED,
        _XEN,
        """hw_device_id img_compression_level img_use_agent os_skip_agent_inject_files_at_boot
        os_skip_agent_inject_ssh""",
    ),
)
# Values that ask for nothing, beside the false ones of flags.
_NOTHING = {"", "[]", "0", "false", "no", "off", "none"}
_DEFAULTS = {
    "hw:tpm_secret_security": "deployment",
    "hw:mem_encryption_model": "amd-sev",
    "hw_mem_encryption_model": "amd-sev",
}
_NEWEST = {**{name: name for name in IMAGE_KEYS}, **OLDER_NAMES}


def require_served(
    extra_specs: Mapping[str, str], properties: Mapping[str, str], *, beside: Mapping[str, str] | None = None
) -> None:
    """For requests of servers, before they are written. Raises BadRequest, which names the key, if flavor or image ask for something
    that is not served. Servers that an earlier release accepted stay as they are.

    `beside`: the extra specs that the server has already, which are not checked.
    """
    is_encrypted = flag({**(beside or {}), **extra_specs}.get("hw:mem_encryption", ""))
    for key, text in extra_specs.items():
        entry = FLAVOR_KEYS.get(key)
        if entry is not None and entry.fate is Fate.REFUSED and _asks(key, text):
            raise errors.BadRequest(f"Flavor extra spec {key}: {text[:255]!r} is not served: {entry.text}.")
    for name, text in properties.items():
        entry = IMAGE_KEYS.get(_NEWEST.get(name, ""))
        if name == "hw_mem_encryption" and is_encrypted:
            continue
        if entry is not None and entry.fate is Fate.REFUSED and _asks(name, str(text)):
            raise errors.BadRequest(f"Image property {name}: {str(text)[:255]!r} is not served: {entry.text}.")


def _asks(key: str, text: str) -> bool:
    return text.strip().lower() not in {*_NOTHING, _DEFAULTS.get(key)}
