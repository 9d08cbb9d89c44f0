"""Guests that an earlier release built without devices that their flavor or image names. It placed them on hosts that need not have those,
so they keep the hardware that they have until they are rebuilt, or get another flavor.
"""

import logging
from xml.etree import ElementTree as ET

import msgspec

from minova.objects.servers.instance import Instance
from minova.virt.libvirt.xml.mark import DomainMark

LOG = logging.getLogger(__name__)
# The element that a guest with the key has, by the key's name without hw: or hw_.
_ELEMENTS = {
    "mem_encryption": "launchSecurity",
    "firmware_stateless": "os/loader[@stateless='yes']",
    "viommu_model": "devices/iommu",
    "sound_model": "devices/sound",
    "maxphysaddr_mode": "cpu/maxphysaddr",
    "ephemeral_encryption": "devices/disk//encryption",
}


def lacks_of(instance: Instance, xml: str, mark: DomainMark) -> tuple[str, ...]:
    """Returns the keys of flavor and image that an earlier release built this domain without, if both are still the same.

    A domain of a release that notes these keys lacks no others: where its element is missing, something else has removed it.
    """
    if (mark.flavor, mark.image) != (instance.flavor.name, instance.image_ref):
        return ()
    properties = instance.image.properties if instance.image is not None else {}
    requested_keys = {*instance.flavor.extra_specs, *properties}
    if mark.lacks is not None:
        return tuple(sorted(requested_keys & set(mark.lacks)))
    root = ET.fromstring(xml)
    missing = {name for name, path in _ELEMENTS.items() if root.find(path) is None}
    return tuple(sorted(requested_keys & {f"{prefix}{name}" for name in missing for prefix in ("hw:", "hw_")}))


def as_built(instance: Instance, lacks: tuple[str, ...]) -> Instance:
    """Returns the instance without the keys of `lacks_of`."""
    if not lacks:
        return instance
    LOG.warning("Instance %s was built without %s by an earlier release, and stays so", instance.uuid, ", ".join(lacks))
    flavor = msgspec.structs.replace(instance.flavor, extra_specs=_without(instance.flavor.extra_specs, lacks))
    image = instance.image
    if image is not None:
        image = msgspec.structs.replace(image, properties=_without(image.properties, lacks))
    return msgspec.structs.replace(instance, flavor=flavor, image=image)


def _without(pairs: dict[str, str], keys: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if key not in keys}
