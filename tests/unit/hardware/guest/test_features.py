"""What flavor and image ask of a guest's devices, and that they may not contradict each other."""

import pytest

from minova.errors import BadRequest
from minova.hardware import errors
from minova.hardware.guest.features import (
    AGREEMENTS,
    FlavorAndImage,
    GuestFeatures,
    guest_features,
    traits_of_features,
)
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image


def flavor(specs: dict[str, str]) -> Flavor:
    return Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=256, root_gb=1, extra_specs=specs)


def require_agreement(flavor: Flavor, properties: dict[str, str]) -> None:
    guest = FlavorAndImage(flavor, Image(id="i", properties=properties))
    for check in AGREEMENTS:
        check(guest)


PAIRS = [
    ("pmu", "true", "false"),
    ("virtio_packed_ring", "true", "false"),
    ("mem_encryption", "false", "true"),
    ("ephemeral_encryption", "false", "true"),
    ("ephemeral_encryption_format", "luks", "plain"),
    ("mem_encryption_model", "amd-sev", "amd-sev-es"),
    ("maxphysaddr_mode", "emulate", "passthrough"),
    ("maxphysaddr_bits", "42", "40"),
    ("sound_model", "ich9", "ac97"),
    ("usb_model", "none", "nec-xhci"),
    ("viommu_model", "auto", "virtio"),
    ("tpm_model", "tpm-tis", "tpm-crb"),
    ("tpm_version", "2.0", "1.2"),
]


@pytest.mark.parametrize(("name", "of_flavor", "of_image"), PAIRS)
def test_flavor_and_image_that_differ_are_refused_with_both_keys(name: str, of_flavor: str, of_image: str) -> None:
    with pytest.raises(errors.FlavorImageConflict, match=f"hw_{name}={of_image} of the image.*hw:{name}={of_flavor}"):
        require_agreement(flavor({f"hw:{name}": of_flavor}), {f"hw_{name}": of_image})


def test_flags_are_compared_by_meaning() -> None:
    require_agreement(flavor({"hw:pmu": "yes"}), {"hw_pmu": "1"})


@pytest.mark.parametrize(
    ("specs", "properties", "words"),
    [
        ({"hw:serial_port_count": "1"}, {"hw_serial_port_count": "2"}, "hw_serial_port_count=2"),
        ({"hw:serial_port_count": "5"}, {}, "hw:serial_port_count"),
        ({}, {"hw_serial_port_count": "-1"}, "hw_serial_port_count is -1"),
        ({"hw:maxphysaddr_mode": "emulate"}, {}, "hw:maxphysaddr_mode=emulate needs hw:maxphysaddr_bits"),
        ({"hw:maxphysaddr_bits": "42"}, {}, "hw:maxphysaddr_bits needs hw:maxphysaddr_mode"),
        ({"hw:maxphysaddr_mode": "passthrough"}, {"hw_maxphysaddr_bits": "42"}, "needs hw:maxphysaddr_mode=emulate"),
        ({"hw:usb_model": "none"}, {"hw_pointer_model": "usbtablet"}, "hw:usb_model=none"),
        ({"hw:usb_model": "none"}, {"hw_disk_bus": "usb"}, "hw:usb_model=none"),
        ({"hw:usb_model": "none", "hw:sound_model": "usb"}, {}, "hw:usb_model=none"),
        ({}, {"hw_mem_encryption": "true"}, "hw_mem_encryption of the image needs hw:mem_encryption"),
        *(
            (
                {"hw:viommu_model": model},
                {"hw_machine_type": machine},
                f"hw_machine_type={machine}.*viommu_model={model}",
            )
            for model in ("intel", "virtio", "auto", "smmuv3")
            for machine in ("pc", "pc-i440fx-7.2")
        ),
        (
            {},
            {"hw_viommu_model": "virtio", "hw_machine_type": "pc"},
            "hw_machine_type=pc.*viommu_model=virtio needs q35",
        ),
        ({"hw:viommu_model": "smmuv3"}, {"hw_machine_type": "q35"}, "hw_machine_type=q35.*needs virt"),
        ({"hw:viommu_model": "intel"}, {"hw_machine_type": "virt"}, "hw_machine_type=virt.*needs q35"),
        ({"hw:viommu_model": "auto"}, {"hw_machine_type": "q35", "hw_architecture": "aarch64"}, "needs virt"),
        ({"hw:viommu_model": "intel"}, {"hw_architecture": "aarch64"}, "hw_architecture=aarch64.*viommu_model=intel"),
        ({"hw:viommu_model": "smmuv3"}, {"hw_architecture": "x86_64"}, "hw_architecture=x86_64.*viommu_model=smmuv3"),
        ({"hw:viommu_model": "auto"}, {"hw_architecture": "ppc64le"}, "hw_architecture=ppc64le"),
        ({"hw:viommu_model": "auto"}, {"hw_disk_bus": "ide"}, "hw_disk_bus=ide.*hw:viommu_model"),
        ({"hw:mem_encryption": "true"}, {"hw_cdrom_bus": "ide"}, "hw_cdrom_bus=ide.*hw:mem_encryption"),
    ],
)
def test_what_no_guest_can_have_is_refused(specs: dict[str, str], properties: dict[str, str], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        require_agreement(flavor(specs), properties)


@pytest.mark.parametrize(
    ("model", "properties"),
    [
        ("intel", {}),
        ("intel", {"hw_machine_type": "pc-q35-7.2", "hw_architecture": "x86_64"}),
        ("smmuv3", {"hw_machine_type": "virt", "hw_architecture": "aarch64"}),
        ("virtio", {"hw_machine_type": "q35"}),
        ("auto", {"hw_machine_type": "virt-7.2"}),
        ("auto", {"hw_architecture": "aarch64"}),
    ],
)
def test_an_iommu_that_its_machine_has(model: str, properties: dict[str, str]) -> None:
    require_agreement(flavor({"hw:viommu_model": model}), properties)


@pytest.mark.parametrize(
    ("specs", "properties", "ports"),
    [
        ({}, {}, 1),
        ({"hw:serial_port_count": "3"}, {}, 3),
        ({}, {"hw_serial_port_count": "2"}, 2),
        ({"hw:serial_port_count": "3"}, {"hw_serial_port_count": "2"}, 2),
        ({"hw:serial_port_count": "0"}, {}, 1),
    ],
)
def test_serial_ports(specs: dict[str, str], properties: dict[str, str], ports: int) -> None:
    require_agreement(flavor(specs), properties)
    assert guest_features(flavor(specs), properties).serial_ports == ports


def test_a_server_of_an_earlier_release_follows_its_flavor() -> None:
    assert guest_features(flavor({"hw:pmu": "true"}), {"hw_pmu": "false"}).pmu is True


def test_traits_of_devices() -> None:
    features = guest_features(
        flavor({"hw:usb_model": "qemu-xhci", "hw:virtio_packed_ring": "yes", "hw:maxphysaddr_mode": "passthrough"}),
        {"hw_sound_model": "ich9", "hw_viommu_model": "virtio"},
    )
    assert traits_of_features(features) == {
        "COMPUTE_USB_MODEL_QEMU_XHCI",
        "COMPUTE_NET_VIRTIO_PACKED",
        "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
        "COMPUTE_SOUND_MODEL_ICH9",
        "COMPUTE_VIOMMU_MODEL_VIRTIO",
    }
    assert traits_of_features(GuestFeatures(usb_model="none")) == set()


@pytest.mark.parametrize(
    ("features", "traits"),
    [
        ({}, set()),
        ({"encrypted_memory": True}, {"HW_CPU_X86_AMD_SEV"}),
        ({"stateless_firmware": True}, {"COMPUTE_SECURITY_STATELESS_FIRMWARE"}),
        ({"packed_ring": True}, {"COMPUTE_NET_VIRTIO_PACKED"}),
    ],
)
def test_a_feature_needs_hosts_with_its_trait(features: dict[str, bool], traits: set[str]) -> None:
    plain = traits_of_features(GuestFeatures())
    assert traits_of_features(GuestFeatures(**features)) == plain | traits  # type: ignore[arg-type]
