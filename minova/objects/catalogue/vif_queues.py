"""The number of queues of a guest's interface: one, or with multiqueue one for each of its CPUs. Pure.

`hw_vif_multiqueue_enabled` of the image or `hw:vif_multiqueue_enabled` of the flavor requests it, as in Nova. Models
other than virtio have one queue.
"""

from collections.abc import Mapping

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.guest_hardware import InvalidExtraSpec
from minova.objects.catalogue.image_properties import flag, typed

IMAGE_KEY, FLAVOR_KEY = "hw_vif_multiqueue_enabled", "hw:vif_multiqueue_enabled"


def wants_queues(flavor: Flavor, properties: Mapping[str, str]) -> bool:
    """Raises InvalidExtraSpec if flavor and image contradict each other. Returns False for a guest with one CPU, which
    cannot use it, whatever they request.
    """
    if flavor.vcpus < 2:
        return False
    of_image = typed(properties).get(IMAGE_KEY)
    of_flavor = flag(flavor.extra_specs[FLAVOR_KEY]) if FLAVOR_KEY in flavor.extra_specs else None
    if of_image is not None and of_flavor is not None and of_image != of_flavor:
        raise InvalidExtraSpec(
            f"Flavor {flavor.name} has {FLAVOR_KEY} extra spec explicitly set to {of_flavor}, conflicting with the image, which has "
            f"{IMAGE_KEY} explicitly set to {of_image}."
        )
    return bool(of_flavor or of_image)


def queues_of(flavor: Flavor, properties: Mapping[str, str], model: str, most: int) -> int:
    """`most`: the maximum that this host allows. Raises InvalidExtraSpec as `wants_queues`."""
    return min(flavor.vcpus, most) if model == "virtio" and wants_queues(flavor, properties) else 1


def most_queues_of_kernel(release: str) -> int:
    """Returns the maximum of a tap device, by the release of the host's kernel, such as 6.1.0-18-amd64."""
    major = release.partition(".")[0]
    if not major.isascii() or not major.isdigit() or int(major) >= 4:
        return 256
    return 8 if int(major) == 3 else 1
