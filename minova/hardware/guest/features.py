"""Guest features by flavor and image, beside disks, interfaces, firmware and CPU policy. Pure.

If flavor and image contradict each other, the flavor's word counts here. `AGREEMENTS` refuse such requests, so that only servers of
an earlier release have contradictions.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from minova.hardware import errors
from minova.hardware.extra_specs import is_true, number
from minova.hardware.numa_constraints import numa_constraints
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.image_properties import typed
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.requests.resource_request import encrypts_memory

# The most that libvirt gives a guest on x86.
MAX_SERIAL_PORTS = 4
# Keys that flavor and image may both have, and then alike, without the prefixes hw: and hw_.
_FLAGS = ("pmu", "virtio_packed_ring", "mem_encryption", "ephemeral_encryption")
_ALIKE = (
    "maxphysaddr_mode",
    "maxphysaddr_bits",
    "sound_model",
    "usb_model",
    "viommu_model",
    "mem_encryption_model",
    "ephemeral_encryption_format",
    "tpm_model",
    "tpm_version",
)
_NO_USB = "none"
_X86_64, _ARM = frozenset({"x86_64"}), frozenset({"aarch64"})
_IOMMU_ARCHS = {"intel": _X86_64, "smmuv3": _ARM}
LUKS = "luks"
TPM_TIS, TPM_CRB = "tpm-tis", "tpm-crb"
TPM_1_2, TPM_2_0 = "1.2", "2.0"
ENCRYPTED_DISKS, ENCRYPTED_DISKS_LUKS = "COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"
TPM_TRAITS = {
    TPM_1_2: "COMPUTE_SECURITY_TPM_1_2",
    TPM_2_0: "COMPUTE_SECURITY_TPM_2_0",
    TPM_TIS: "COMPUTE_SECURITY_TPM_TIS",
    TPM_CRB: "COMPUTE_SECURITY_TPM_CRB",
}
# What a host offers only where the conductors can keep the secrets of guests.
NEED_SECRETS = frozenset({ENCRYPTED_DISKS, ENCRYPTED_DISKS_LUKS, *TPM_TRAITS.values()})
MEMORY_ENCRYPTION, STATELESS_FIRMWARE = "HW_CPU_X86_AMD_SEV", "COMPUTE_SECURITY_STATELESS_FIRMWARE"


class GuestFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """None: the host's own choice, or no such device.

    - `address_mode`, `address_bits`: how wide the guest's physical addresses are: passthrough, or emulate with so many bits.
    - `input_bus`: of a tablet and a keyboard; usb or virtio.
    - `pointer_model`: usbtablet, or None: what the host's `pointer_model` says.
    - `tpm_version`: 1.2 or 2.0; `tpm_model`: of such a TPM.
    - `encryption_format`: of encrypted disks, if flavor or image name it; LUKS in any case.
    """

    windows: bool = False
    hpet: bool = False
    serial_ports: int = 1
    pmu: bool | None = None
    hidden: bool = False
    packed_ring: bool = False
    iommu_model: str | None = None
    sound_model: str | None = None
    usb_model: str | None = None
    address_mode: str | None = None
    address_bits: int | None = None
    input_bus: str | None = None
    pointer_model: str | None = None
    encrypted_memory: bool = False
    stateless_firmware: bool = False
    tpm_version: str | None = None
    tpm_model: str = TPM_TIS
    encrypted_disks: bool = False
    encryption_format: str | None = None


class FlavorAndImage:
    """The requirements of flavor and image on a guest's hardware. Each part is derived when it is read first, and once: then it raises
    InvalidImageProperty or Invalid for a value that is none.
    """

    def __init__(self, flavor: Flavor, image: Image | None = None) -> None:
        self.flavor = flavor
        self.specs = flavor.extra_specs
        self.properties: Mapping[str, str] = image.properties if image is not None else {}

    @cached_property
    def image(self) -> dict[str, Any]:
        """The properties of the image, by their newest names, with booleans and numbers."""
        return typed(self.properties)

    @cached_property
    def features(self) -> GuestFeatures:
        return guest_features(self.flavor, self.properties)

    @cached_property
    def numa_topology(self) -> InstanceNUMATopology | None:
        return numa_constraints(self.flavor, self.properties)


def guest_features(flavor: Flavor, properties: Mapping[str, str]) -> GuestFeatures:
    """Raises InvalidImageProperty or Invalid for a value that is none."""
    image, specs = typed(properties), flavor.extra_specs
    bits = _either(specs, image, "maxphysaddr_bits")
    return GuestFeatures(
        windows=image.get("os_type") == "windows",
        hpet=bool(image.get("hw_time_hpet")),
        serial_ports=_serial_ports(specs, image),
        pmu=_flag(specs, image, "pmu"),
        hidden=is_true(specs.get("hw:hide_hypervisor_id"))
        or is_true(specs.get("hide_hypervisor_id"))
        or bool(image.get("img_hide_hypervisor_id")),
        packed_ring=bool(_flag(specs, image, "virtio_packed_ring")),
        iommu_model=_either(specs, image, "viommu_model"),
        sound_model=_either(specs, image, "sound_model"),
        usb_model=_either(specs, image, "usb_model"),
        address_mode=_either(specs, image, "maxphysaddr_mode"),
        address_bits=None if bits is None else number("hw:maxphysaddr_bits", bits),
        input_bus=image.get("hw_input_bus"),
        pointer_model=image.get("hw_pointer_model"),
        encrypted_memory=encrypts_memory(flavor),
        stateless_firmware=bool(image.get("hw_firmware_stateless")),
        tpm_version=_either(specs, image, "tpm_version"),
        tpm_model=_either(specs, image, "tpm_model") or TPM_TIS,
        encrypted_disks=encrypts_disks(flavor, properties),
        encryption_format=_either(specs, image, "ephemeral_encryption_format"),
    )


def encrypts_disks(flavor: Flavor, properties: Mapping[str, str]) -> bool:
    return bool(_flag(flavor.extra_specs, typed(properties), "ephemeral_encryption"))


def traits_of_features(features: GuestFeatures) -> frozenset[str]:
    """Returns the traits that a host of such a guest needs."""
    model_by_prefix = {
        "COMPUTE_SOUND_MODEL": features.sound_model,
        "COMPUTE_USB_MODEL": None if features.usb_model == _NO_USB else features.usb_model,
        "COMPUTE_VIOMMU_MODEL": features.iommu_model,
    }
    needed = {f"{prefix}_{model}".upper().replace("-", "_") for prefix, model in model_by_prefix.items() if model}
    if features.packed_ring:
        needed.add("COMPUTE_NET_VIRTIO_PACKED")
    if features.stateless_firmware:
        needed.add(STATELESS_FIRMWARE)
    if features.encrypted_memory:
        needed.add(MEMORY_ENCRYPTION)
    if features.tpm_version is not None:
        needed |= {TPM_TRAITS[features.tpm_version], TPM_TRAITS[features.tpm_model]}
    if features.encrypted_disks:
        needed |= {ENCRYPTED_DISKS, *([ENCRYPTED_DISKS_LUKS] if features.encryption_format == LUKS else [])}
    if features.address_mode is not None:
        mode = "PASSTHROUGH" if features.address_mode == "passthrough" else "EMULATED"
        needed.add(f"COMPUTE_ADDRESS_SPACE_{mode}")
    return frozenset(needed)


# -- each of them ------------------------------------------------------------------------------------------------------


def _require_alike_keys(guest: FlavorAndImage) -> None:
    image, specs = guest.image, guest.specs
    for name in _FLAGS:
        of_flavor, of_image = specs.get(f"hw:{name}"), image.get(f"hw_{name}")
        _require_alike(name, None if of_flavor is None else is_true(of_flavor), of_image)
    for name in _ALIKE:
        of_flavor, of_image = specs.get(f"hw:{name}"), image.get(f"hw_{name}")
        _require_alike(name, of_flavor, None if of_image is None else str(of_image))
    most = number("hw:serial_port_count", specs.get("hw:serial_port_count", 0))
    if most and image.get("hw_serial_port_count", 0) > most:
        raise errors.ImageSerialPortNumberExceedFlavorValue(
            f"hw_serial_port_count={image['hw_serial_port_count']} of the image: the flavor has hw:serial_port_count={most}"
        )


def _require_alike(name: str, of_flavor: object, of_image: object) -> None:
    if of_flavor is not None and of_image is not None and of_flavor != of_image:
        raise errors.FlavorImageConflict(
            f"hw_{name}={str(of_image).lower()} of the image: the flavor has hw:{name}={str(of_flavor).lower()}"
        )


def _require_encrypted_memory(guest: FlavorAndImage) -> None:
    if guest.image.get("hw_mem_encryption") and not encrypts_memory(guest.flavor):
        raise errors.Invalid(
            "hw_mem_encryption of the image needs hw:mem_encryption of the flavor, which takes a context of the host"
        )


def _require_possible(guest: FlavorAndImage) -> None:
    features, image = guest.features, guest.image
    if not 1 <= features.serial_ports <= MAX_SERIAL_PORTS:
        raise errors.SerialPortNumberLimitExceeded(
            f"hw:serial_port_count or hw_serial_port_count is {features.serial_ports}: a guest has 1 to {MAX_SERIAL_PORTS} serial ports"
        )
    on_usb = "usb" in {features.input_bus, "usb" if features.pointer_model else None, image.get("hw_disk_bus")}
    if features.usb_model == _NO_USB and (on_usb or features.sound_model == "usb"):
        raise errors.Invalid("hw:usb_model=none: a disk, pointer, input or sound device of the image is on USB")
    if features.iommu_model is not None:
        _require_iommu(features.iommu_model, image)
    _require_buses(features, image)


def _require_iommu(model: str, image: Mapping[str, Any]) -> None:
    """As Nova: on x86 each model needs q35, on ARM virt. An image that names neither gets such a machine from its host."""
    arch, machine = image.get("hw_architecture"), str(image.get("hw_machine_type") or "")
    archs = _IOMMU_ARCHS.get(model, _X86_64 | _ARM)
    if arch is not None and arch not in archs:
        raise errors.InvalidVIOMMUArchitecture(
            f"hw_architecture={arch} of the image: hw:viommu_model={model} needs {' or '.join(sorted(archs))}"
        )
    machines = {
        "q35": "q35" in machine and bool(archs & _X86_64) and arch not in _ARM,
        "virt": machine.startswith("virt") and bool(archs & _ARM) and arch not in _X86_64,
    }
    if machine and not any(machines.values()):
        needed = "virt" if archs <= _ARM or arch in _ARM else "q35"
        raise errors.InvalidVIOMMUMachineType(
            f"hw_machine_type={machine} of the image: hw:viommu_model={model} needs {needed}"
        )


def _require_buses(features: GuestFeatures, image: Mapping[str, Any]) -> None:
    """An image that names no machine gets q35 for these features."""
    key = "hw:viommu_model" if features.iommu_model else "hw:mem_encryption" if features.encrypted_memory else None
    for name in ("hw_disk_bus", "hw_cdrom_bus"):
        if key is not None and image.get(name) == "ide":
            raise errors.Invalid(f"{name}=ide of the image: {key} needs machine q35, which has no IDE")


def _require_firmware(guest: FlavorAndImage) -> None:
    image, specs = guest.image, guest.specs
    if not image.get("hw_firmware_stateless"):
        return
    if image.get("hw_firmware_type") != "uefi":
        raise errors.Invalid("hw_firmware_stateless of the image needs hw_firmware_type=uefi")
    if "required" in {specs.get("os:secure_boot"), image.get("os_secure_boot")}:
        raise errors.Invalid(
            "hw_firmware_stateless of the image: firmware without variables has no keys for os_secure_boot=required"
        )


def _require_tpm(guest: FlavorAndImage) -> None:
    features, image, specs = guest.features, guest.image, guest.specs
    chosen = (
        ("hw:tpm_version", features.tpm_version, (TPM_1_2, TPM_2_0)),
        ("hw:tpm_model", features.tpm_model, (TPM_TIS, TPM_CRB)),
    )
    for key, value, valid_values in chosen:
        if value is not None and value not in valid_values:
            raise errors.Invalid(
                f"Flavor extra spec {key}: {value[:255]!r} is not valid: known are {', '.join(valid_values)}"
            )
    if features.tpm_version is None and _either(specs, image, "tpm_model"):
        raise errors.Invalid("hw:tpm_model needs hw:tpm_version")
    if features.tpm_version == TPM_1_2 and features.tpm_model == TPM_CRB:
        raise errors.Invalid(f"hw:tpm_model={TPM_CRB} needs hw:tpm_version={TPM_2_0}")


def _require_address_bits(guest: FlavorAndImage) -> None:
    features, specs = guest.features, guest.specs
    emulated = features.address_mode == "emulate"
    if emulated and not features.address_bits:
        raise errors.Invalid("hw:maxphysaddr_mode=emulate needs hw:maxphysaddr_bits")
    # The image's bits alone choose hosts (ImagePropertiesFilter).
    if features.address_bits and not emulated and (features.address_mode or "hw:maxphysaddr_bits" in specs):
        raise errors.Invalid("hw:maxphysaddr_bits needs hw:maxphysaddr_mode=emulate")


def _require_disk_format(guest: FlavorAndImage) -> None:
    features = guest.features
    disk_format = features.encryption_format
    if disk_format is not None and not features.encrypted_disks:
        raise errors.Invalid("hw:ephemeral_encryption_format needs hw:ephemeral_encryption")
    if disk_format not in {None, LUKS}:
        raise errors.Invalid(
            f"hw:ephemeral_encryption_format={disk_format} is not served: disks are encrypted as {LUKS}"
        )


# Each raises FlavorImageConflict, with both keys, if flavor and image contradict each other, as Nova compares them, or Invalid for
# values that no host can give together. In the order in which their errors are answered.
AGREEMENTS = (
    _require_alike_keys,
    _require_encrypted_memory,
    _require_possible,
    _require_address_bits,
    _require_firmware,
    _require_tpm,
    _require_disk_format,
)


def _serial_ports(specs: Mapping[str, str], image: Mapping[str, Any]) -> int:
    """The image may ask for fewer than the flavor."""
    of_flavor = number("hw:serial_port_count", specs.get("hw:serial_port_count", 0))
    of_image: int = image.get("hw_serial_port_count", 0)
    return min(of_flavor, of_image) if of_flavor and of_image else of_flavor or of_image or 1


def _flag(specs: Mapping[str, str], image: Mapping[str, Any], name: str) -> bool | None:
    of_flavor, of_image = specs.get(f"hw:{name}"), image.get(f"hw_{name}")
    return of_image if of_flavor is None else is_true(of_flavor)


def _either(specs: Mapping[str, str], image: Mapping[str, Any], name: str) -> Any:
    return specs.get(f"hw:{name}") or image.get(f"hw_{name}")
