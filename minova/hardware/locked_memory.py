"""Checks whether a guest's memory may be locked, and what its encryption requires of the image. Checks only."""

from collections.abc import Mapping
from typing import Any

import msgspec

from minova.hardware import errors
from minova.hardware.extra_specs import is_true
from minova.objects.catalogue.flavor import Flavor


class Encryption(msgspec.Struct, frozen=True, kw_only=True):
    """What a model of memory encryption requires of the guest. All require UEFI and machine type q35."""

    stateless_firmware: bool = False


MODELS = {
    "amd-sev": Encryption(),
    "amd-sev-es": Encryption(),
    "amd-sev-snp": Encryption(stateless_firmware=True),
    "intel-tdx": Encryption(stateless_firmware=True),
}


def check_locked_memory(flavor: Flavor, image: Mapping[str, Any]) -> None:
    """Locked memory needs a page size; flavor and image (its properties, typed) must agree."""
    of_flavor = _truth(flavor, "hw:locked_memory")
    of_image = image.get("hw_locked_memory")
    if of_flavor is not None and of_image is not None and of_flavor != of_image:
        raise errors.FlavorImageLockedMemoryConflict(
            f"hw_locked_memory={str(of_image).lower()} of the image: "
            f"the flavor has hw:locked_memory={flavor.extra_specs['hw:locked_memory']}"
        )
    if not wants_locked_memory(flavor, image):
        check_encryption(flavor, image)
    elif not (flavor.extra_specs.get("hw:mem_page_size") or image.get("hw_mem_page_size")):
        raise errors.LockMemoryForbidden("hw:locked_memory needs hw:mem_page_size")


def wants_locked_memory(flavor: Flavor, image: Mapping[str, Any]) -> bool:
    """Whether the host must keep the guest's memory from being swapped out. `image`: its properties, typed."""
    of_flavor = _truth(flavor, "hw:locked_memory")
    return bool(image.get("hw_locked_memory") if of_flavor is None else of_flavor)


def check_encryption(flavor: Flavor, image: Mapping[str, Any]) -> None:
    """Raises Invalid if flavor and image contradict each other, or the image lacks what encrypted memory needs."""
    of_flavor = _truth(flavor, "hw:mem_encryption")
    of_image = image.get("hw_mem_encryption")
    if not of_flavor and not of_image:
        return
    _check_alike("mem_encryption", of_flavor, of_image)
    models = flavor.extra_specs.get("hw:mem_encryption_model"), image.get("hw_mem_encryption_model")
    _check_alike("mem_encryption_model", *models)
    model = models[1] or models[0] or "amd-sev"
    if model not in MODELS:
        raise errors.Invalid(f"hw:mem_encryption_model={model}: not one of {', '.join(MODELS)}")
    _check_image(model, image)


def _check_image(model: str, image: Mapping[str, Any]) -> None:
    if image.get("hw_firmware_type") != "uefi":
        raise errors.FlavorImageConflict("hw:mem_encryption needs hw_firmware_type=uefi of the image")
    machine = image.get("hw_machine_type")
    if machine is not None and "q35" not in machine:
        raise errors.InvalidMachineType(f"hw_machine_type={machine} of the image: hw:mem_encryption needs q35")
    if MODELS[model].stateless_firmware and not image.get("hw_firmware_stateless"):
        raise errors.StatelessFirmwareRequired(
            f"hw:mem_encryption_model={model} needs hw_firmware_stateless=true of the image"
        )


def _check_alike(name: str, of_flavor: object, of_image: object) -> None:
    if of_flavor is not None and of_image is not None and of_flavor != of_image:
        raise errors.FlavorImageConflict(f"hw_{name} of the image and hw:{name} of the flavor say the opposite")


def _truth(flavor: Flavor, key: str) -> bool | None:
    value = flavor.extra_specs.get(key)
    return None if value is None else is_true(value)
