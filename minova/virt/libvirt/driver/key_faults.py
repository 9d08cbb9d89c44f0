"""Which key of a flavor or an image makes libvirt refuse a domain. libvirt's errors name elements of its XML, which users do not know."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import libvirt
import msgspec

from minova import errors
from minova.hardware.guest.keys import FLAVOR_KEYS, IMAGE_KEYS, Fate
from minova.objects.catalogue.image_properties import OLDER_NAMES
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.error_codes import meaning

# libvirt does not accept the domain, or QEMU does not start with it.
_OF_THE_DOMAIN = {
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
    libvirt.VIR_ERR_XML_ERROR,
    libvirt.VIR_ERR_XML_DETAIL,
    libvirt.VIR_ERR_INTERNAL_ERROR,
}
_EFFECTIVE = {Fate.GIVEN, Fate.REQUIRED}


class _Key(NamedTuple):
    """`without`: the instance as if it did not have the key."""

    text: str
    without: Instance


def define(connection: Any, instance: Instance, xml: str, xml_of: Callable[[Instance], str]) -> Any:
    """Defines the domain. Raises as libvirt; if leaving out one key satisfies libvirt, the error names it.

    `xml_of`: makes the XML of an instance.
    """
    try:
        return connection.defineXML(xml)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in _OF_THE_DOMAIN or not connection.isAlive():
            raise
        keys = [key.text for key in _keys_of(instance) if _is_accepted(connection, key.without, xml_of)]
        if not keys:
            raise
        raise _with_keys(error, keys) from error


def start(domain: Any, instance: Instance, flags: int) -> None:
    """Starts the domain. Raises as libvirt; if QEMU did not start, the error names the keys that chose its devices."""
    try:
        domain.createWithFlags(flags)
    except libvirt.libvirtError as error:
        keys = [key.text for key in _keys_of(instance)]
        says_qemu = error.get_error_domain() == libvirt.VIR_FROM_QEMU
        if not keys or not says_qemu or error.get_error_code() not in _OF_THE_DOMAIN or not domain.connect().isAlive():
            raise
        raise _with_keys(error, keys) from error


def _with_keys(error: libvirt.libvirtError, keys: list[str]) -> errors.MinovaError:
    return meaning(error)(f"{error}. Flavor and image ask for {', '.join(keys)}")


def _is_accepted(connection: Any, instance: Instance, xml_of: Callable[[Instance], str]) -> bool:
    """Asks libvirt without defining anything."""
    try:
        connection.domainXMLToNative("qemu-argv", xml_of(instance), 0)
    except (libvirt.libvirtError, errors.MinovaError):
        return False
    return True


def _keys_of(instance: Instance) -> Iterator[_Key]:
    flavor, image = instance.flavor, instance.image
    for name, value in flavor.extra_specs.items():
        entry = FLAVOR_KEYS.get(name)
        if entry is not None and entry.fate in _EFFECTIVE:
            others = {key: text for key, text in flavor.extra_specs.items() if key != name}
            changed = msgspec.structs.replace(flavor, extra_specs=others)
            yield _Key(f"{name}={value}", msgspec.structs.replace(instance, flavor=changed))
    if image is None:
        return
    for name, value in image.properties.items():
        entry = IMAGE_KEYS.get(OLDER_NAMES.get(name, name))
        if entry is not None and entry.fate in _EFFECTIVE:
            other_properties = {key: text for key, text in image.properties.items() if key != name}
            of_image = msgspec.structs.replace(image, properties=other_properties)
            yield _Key(f"{name}={value}", msgspec.structs.replace(instance, image=of_image))
