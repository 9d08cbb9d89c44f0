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


def as_built(instance: Instance, xml: str, mark: DomainMark) -> Instance:
    """Returns the instance without the keys that its domain was built without, if its flavor and image are still the same."""
    if (mark.flavor, mark.image) != (instance.flavor.name, instance.image_ref):
        return instance
    root = ET.fromstring(xml)
    missing = {name for name, path in _ELEMENTS.items() if root.find(path) is None}
    keys = {f"{prefix}{name}" for name in missing for prefix in ("hw:", "hw_")}
    specs, image = instance.flavor.extra_specs, instance.image
    properties = image.properties if image is not None else {}
    without = sorted(keys & {*specs, *properties})
    if not without:
        return instance
    LOG.warning(
        "Instance %s was built without %s by an earlier release, and stays so", instance.uuid, ", ".join(without)
    )
    flavor = msgspec.structs.replace(instance.flavor, extra_specs=_without(specs, keys))
    if image is not None:
        image = msgspec.structs.replace(image, properties=_without(properties, keys))
    return msgspec.structs.replace(instance, flavor=flavor, image=image)


def _without(pairs: dict[str, str], keys: set[str]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if key not in keys}
