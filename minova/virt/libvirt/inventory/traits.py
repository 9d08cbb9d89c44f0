"""The capabilities of a libvirt host as traits of Placement. Pure."""

from collections.abc import Iterable

from minova.hardware.guest.features import (
    ENCRYPTED_DISKS,
    ENCRYPTED_DISKS_LUKS,
    MEMORY_ENCRYPTION,
    STATELESS_FIRMWARE,
    TPM_TRAITS,
)
from minova.objects.catalogue.guest_hardware import SECURE_BOOT, UEFI, VIF_MODELS
from minova.objects.hosts.numa import NUMATopology
from minova.virt.libvirt.inventory.cpu_traits import standard_traits, traits_of_features
from minova.virt.libvirt.inventory.domain_capabilities import GuestOffer

# Traits of this driver on every host.
ALWAYS = (
    "COMPUTE_NODE",
    "COMPUTE_IMAGE_TYPE_QCOW2",
    "COMPUTE_IMAGE_TYPE_RAW",
)
# The first version of QEMU, in libvirt's numbering, that has the model igb.
_IGB_SINCE = 8_000_000
# libvirt has the PC speaker only by an option that QEMU dropped.
_NO_PC_SPEAKER_SINCE = 7_001_000
_VIRTIO_SOUND_SINCE, _QEMU_WITH_VIRTIO_SOUND = 10_004_000, 8_002_000
_VIRTIO_IOMMU_SINCE, _ADDRESS_BITS_SINCE = 8_003_000, 8_007_000
STATELESS_SINCE = 8_006_000
_SOUND_MODELS = ("ES1370", "AC97", "ICH6", "ICH9", "USB")


def traits_of(arch: str, features: Iterable[str], topology: NUMATopology | None) -> tuple[str, ...]:
    """Returns traits of the host's CPU. `features` are the CPU's, by libvirt's names (avx512-vnni, sse4.2...). Features
    without a standard trait are left out.
    """
    traits = {*ALWAYS, f"HW_ARCH_{arch.upper()}", *traits_of_features(arch, features)}
    if topology is not None and any(len(core) > 1 for cell in topology.cells for core in cell.siblings):
        traits.add("HW_CPU_HYPERTHREADING")
    return tuple(sorted(traits & standard_traits()))


def offer_traits(
    arch: str, offer: GuestOffer, hypervisor_version: int, *, libvirt_version: int = 0, kvm: bool = False
) -> tuple[str, ...]:
    """Returns traits of what guests may have. libvirt's capabilities do not list models of interfaces and other devices: QEMU has all
    of them, as far as the versions support them.
    """
    models = [model for model in VIF_MODELS if model != "igb" or hypervisor_version >= _IGB_SINCE]
    traits = {
        *(f"COMPUTE_STORAGE_BUS_{bus}".upper() for bus in offer.disk_buses),
        *(f"COMPUTE_GRAPHICS_MODEL_{model}".upper() for model in offer.video_models),
        *(f"COMPUTE_NET_VIF_MODEL_{model}".upper() for model in models),
        *(f"COMPUTE_SOUND_MODEL_{model}" for model in _SOUND_MODELS),
        *(trait for name, trait in TPM_TRAITS.items() if name in offer.tpms),
        # QEMU and qemu-img, which all releases that minova supports have.
        ENCRYPTED_DISKS,
        ENCRYPTED_DISKS_LUKS,
        "COMPUTE_NET_VIRTIO_PACKED",
        "COMPUTE_USB_MODEL_NEC_XHCI",
        "COMPUTE_USB_MODEL_QEMU_XHCI",
    }
    if libvirt_version >= _VIRTIO_SOUND_SINCE and hypervisor_version >= _QEMU_WITH_VIRTIO_SOUND:
        traits.add("COMPUTE_SOUND_MODEL_VIRTIO")
    iommus = {"x86_64": ("INTEL",), "aarch64": ("SMMUV3",)}.get(arch, ())
    traits |= {f"COMPUTE_VIOMMU_MODEL_{model}" for model in iommus}
    if iommus and libvirt_version >= _VIRTIO_IOMMU_SINCE:
        traits |= {"COMPUTE_VIOMMU_MODEL_VIRTIO", "COMPUTE_VIOMMU_MODEL_AUTO"}
    if libvirt_version >= _ADDRESS_BITS_SINCE:
        # An emulated CPU has no addresses of the host's to pass on.
        traits |= {"COMPUTE_ADDRESS_SPACE_EMULATED", *(("COMPUTE_ADDRESS_SPACE_PASSTHROUGH",) if kvm else ())}
    if arch in {"x86_64", "i686"}:
        traits |= {"COMPUTE_FIRMWARE_BIOS", "COMPUTE_SOUND_MODEL_SB16"}
        if hypervisor_version < _NO_PC_SPEAKER_SINCE:
            traits.add("COMPUTE_SOUND_MODEL_PCSPK")
    if offer.uefi:
        traits.add(UEFI)
    if offer.secure_boot:
        traits.add(SECURE_BOOT)
    if offer.uefi and offer.loader and libvirt_version >= STATELESS_SINCE:
        traits.add(STATELESS_FIRMWARE)
    if offer.encryption is not None and kvm:
        traits.add(MEMORY_ENCRYPTION)
    return tuple(sorted(traits & standard_traits()))
