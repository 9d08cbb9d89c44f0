"""Elements of a guest with secrets: its TPM, its encrypted disks, and libvirt's secrets that they name. Pure."""

import uuid
from xml.etree import ElementTree as ET

from minova.hardware.guest.features import TPM_2_0, GuestFeatures
from minova.objects.guests.guest_secrets import SecretKind

_USAGES = {SecretKind.DISKS: ("volume", "volume"), SecretKind.TPM: ("vtpm", "name")}


def secret_uuid(instance_uuid: str, kind: SecretKind) -> str:
    """Returns the UUID of libvirt's secret, the same on each host."""
    return str(uuid.uuid5(uuid.UUID(instance_uuid), f"minova:{kind}"))


def secret_xml(instance_uuid: str, kind: SecretKind) -> str:
    """Returns the definition of a secret that libvirt keeps in its memory alone, and shows to no client."""
    secret = ET.Element("secret", ephemeral="yes", private="yes")
    ET.SubElement(secret, "uuid").text = secret_uuid(instance_uuid, kind)
    usage, name = _USAGES[kind]
    ET.SubElement(ET.SubElement(secret, "usage", type=usage), name).text = f"minova {instance_uuid} {kind}"
    return ET.tostring(secret, encoding="unicode")


def decrypt_disk(source: ET.Element, instance_uuid: str) -> None:
    encryption = ET.SubElement(source, "encryption", format="luks")
    ET.SubElement(encryption, "secret", type="passphrase", uuid=secret_uuid(instance_uuid, SecretKind.DISKS))


def add_tpm(devices: ET.Element, features: GuestFeatures, instance_uuid: str) -> None:
    if features.tpm_version is None:
        return
    tpm = ET.SubElement(devices, "tpm", model=features.tpm_model)
    backend = ET.SubElement(tpm, "backend", type="emulator", version=features.tpm_version)
    ET.SubElement(backend, "encryption", secret=secret_uuid(instance_uuid, SecretKind.TPM))


def kinds_of(xml: str) -> tuple[SecretKind, ...]:
    """Returns what the guest of the domain needs secrets for."""
    devices = ET.fromstring(xml).find("devices")
    if devices is None:
        return ()
    elements = {
        SecretKind.DISKS: devices.find("disk//encryption/secret"),
        SecretKind.TPM: devices.find("tpm/backend/encryption"),
    }
    return tuple(kind for kind, element in elements.items() if element is not None)


def tpm_version_of(xml: str) -> str | None:
    """Returns the version of the domain's emulated TPM."""
    backend = ET.fromstring(xml).find("devices/tpm/backend[@type='emulator']")
    return None if backend is None else backend.get("version", TPM_2_0)
