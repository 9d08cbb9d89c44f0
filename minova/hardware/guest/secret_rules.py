"""Actions that servers with encrypted disks or a TPM cannot have."""

from minova import errors
from minova.hardware.guest.features import encrypts_disks, guest_features
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.servers.instance import Instance


def require_image_allowed(instance: Instance) -> None:
    """Raises Conflict if the disks are encrypted: an image of them would not be."""
    if encrypts_disks(instance.flavor, _properties(instance.image)):
        raise errors.Conflict(
            f"Cannot make an image of instance {instance.uuid}: its disks are encrypted (hw:ephemeral_encryption), and the image would "
            "not be"
        )


def require_evacuable(instance: Instance) -> None:
    """Raises Conflict, as Nova does, if the server has a TPM: its state is on the host that is down."""
    if guest_features(instance.flavor, _properties(instance.image)).tpm_version is not None:
        raise errors.Conflict(
            f"Operation 'evacuate' not supported for vTPM-enabled instance ({instance.uuid}): hw:tpm_version"
        )


def require_same_encryption(instance: Instance, flavor: Flavor) -> None:
    """Raises BadRequest if the disks would have to be encrypted, or decrypted, by a resize."""
    properties = _properties(instance.image)
    if encrypts_disks(instance.flavor, properties) != encrypts_disks(flavor, properties):
        raise errors.BadRequest(
            f"Flavor {flavor.name} differs in hw:ephemeral_encryption from the disks of instance {instance.uuid}: a resize keeps the "
            "disks as they are"
        )


def _properties(image: Image | None) -> dict[str, str]:
    return {} if image is None else image.properties
