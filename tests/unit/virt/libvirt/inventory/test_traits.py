from minova.objects.hosts.numa import NUMACell, NUMATopology
from minova.virt.libvirt.inventory.domain_capabilities import GuestOffer
from minova.virt.libvirt.inventory.memory_encryption import MemoryEncryption
from minova.virt.libvirt.inventory.traits import ALWAYS, offer_traits, traits_of

SMT = NUMATopology((NUMACell(id=0, memory=1, siblings=(frozenset({0, 1}),)),))


def test_features_have_standard_names_or_none() -> None:
    traits = set(traits_of("x86_64", ["vmx", "avx512-vnni", "sse4.2", "nonsense"], None)) - set(ALWAYS)
    assert traits == {
        "HW_ARCH_X86_64",
        "HW_CPU_X86_VMX",
        "HW_CPU_X86_INTEL_VMX",
        "HW_CPU_X86_AVX512VNNI",
        "HW_CPU_X86_SSE42",
    }


def test_a_machine_with_two_threads_on_a_core_says_so() -> None:
    assert "HW_CPU_HYPERTHREADING" in traits_of("aarch64", [], SMT)
    assert "HW_CPU_HYPERTHREADING" not in traits_of("aarch64", [], None)


def test_an_architecture_without_a_name_is_left_out() -> None:
    assert set(traits_of("vax", [], None)) == set(ALWAYS)


def test_what_guests_may_have_on_a_host() -> None:
    offer = GuestOffer(
        disk_buses=frozenset({"virtio", "sata"}), video_models=frozenset({"vga", "ramfb"}), uefi=True, secure_boot=True
    )
    models = ("E1000", "E1000E", "NE2K_PCI", "PCNET", "RTL8139", "VIRTIO", "VMXNET3")
    assert set(offer_traits("x86_64", offer, 7_002_000)) == {
        "COMPUTE_STORAGE_BUS_VIRTIO",
        "COMPUTE_STORAGE_BUS_SATA",
        "COMPUTE_GRAPHICS_MODEL_VGA",
        "COMPUTE_FIRMWARE_BIOS",
        "COMPUTE_FIRMWARE_UEFI",
        "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
        *(f"COMPUTE_NET_VIF_MODEL_{model}" for model in models),
        *(f"COMPUTE_SOUND_MODEL_{model}" for model in ("SB16", "ES1370", "AC97", "ICH6", "ICH9", "USB")),
        "COMPUTE_USB_MODEL_NEC_XHCI",
        "COMPUTE_USB_MODEL_QEMU_XHCI",
        "COMPUTE_EPHEMERAL_ENCRYPTION",
        "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS",
        "COMPUTE_NET_VIRTIO_PACKED",
        "COMPUTE_VIOMMU_MODEL_INTEL",
    }


def test_what_newer_versions_and_kvm_add() -> None:
    def of(arch: str, qemu: int, libvirt: int, **more: bool) -> set[str]:
        return {*offer_traits(arch, GuestOffer(), qemu, libvirt_version=libvirt, **more)}

    virtio = {"COMPUTE_VIOMMU_MODEL_VIRTIO", "COMPUTE_VIOMMU_MODEL_AUTO", "COMPUTE_ADDRESS_SPACE_EMULATED"}
    assert of("x86_64", 7_002_000, 9_000_000) - of("x86_64", 7_002_000, 8_000_000) == virtio
    added = of("x86_64", 8_002_000, 10_004_000, kvm=True) - of("x86_64", 8_002_000, 9_000_000)
    assert added == {"COMPUTE_SOUND_MODEL_VIRTIO", "COMPUTE_ADDRESS_SPACE_PASSTHROUGH"}
    assert "COMPUTE_SOUND_MODEL_PCSPK" in of("x86_64", 7_000_000, 8_000_000)
    assert "COMPUTE_VIOMMU_MODEL_SMMUV3" in of("aarch64", 7_002_000, 9_000_000)
    assert not {"COMPUTE_SOUND_MODEL_SB16", "COMPUTE_VIOMMU_MODEL_INTEL"} & of("aarch64", 7_002_000, 9_000_000)


def test_firmware_without_variables_needs_uefi_and_a_libvirt_that_knows_it() -> None:
    trait, offer = "COMPUTE_SECURITY_STATELESS_FIRMWARE", GuestOffer(uefi=True, loader="/ovmf.fd")
    assert trait in offer_traits("x86_64", offer, 7_002_000, libvirt_version=8_006_000)
    assert trait not in offer_traits("x86_64", offer, 7_002_000, libvirt_version=8_005_000)
    assert trait not in offer_traits("x86_64", GuestOffer(uefi=True), 7_002_000, libvirt_version=9_000_000)


def test_memory_is_encrypted_by_kvm_alone() -> None:
    trait, offer = "HW_CPU_X86_AMD_SEV", GuestOffer(encryption=MemoryEncryption(cbitpos=47, reduced_bits=1))
    assert trait in offer_traits("x86_64", offer, 7_002_000, kvm=True)
    assert trait not in offer_traits("x86_64", offer, 7_002_000)


def test_newer_qemu_has_igb_and_a_host_without_firmware_no_uefi() -> None:
    traits = offer_traits("aarch64", GuestOffer(), 8_000_000)
    assert "COMPUTE_NET_VIF_MODEL_IGB" in traits
    assert not [name for name in traits if "FIRMWARE" in name or "SECURITY" in name]
    assert "COMPUTE_STORAGE_BUS_IDE" in traits
