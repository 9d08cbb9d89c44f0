"""The PCI devices of a host that instances may have: `[pci] device_spec`, a list of JSON objects. Pure.

The fields and their meanings are Nova's. `vendor_id`, `product_id`, and `address` (a glob such as `*:0a:00.*`, or an
object of regular expressions) or `devname` select devices. All other fields become tags of the devices.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from minova import errors
from minova.objects.hosts.pci import PciDevice

OPTION = "[pci] device_spec"
PARTS = ("domain", "bus", "slot", "function")
WIDTHS = (4, 2, 2, 1)
_CHOOSING = {"vendor_id", "product_id", "address", "devname"}
# Fields that Nova supports besides tags but minova does not: accepting them would be misleading.
_NOT_SERVED = {"remote_managed"}
_ID = re.compile(r"[0-9a-fA-F]{4}")
_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,4}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])")


class DeviceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One entry. `vendor_id`, `product_id` None: any."""

    text: str
    vendor_id: str | None
    product_id: str | None
    address: Callable[[str], bool]
    single: bool  # the address has no wildcards
    devname: str | None
    tags: tuple[tuple[str, str], ...]

    def matches(self, device: PciDevice, devname: str | None = None) -> bool:
        return (
            self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and self.devname in (None, devname)
            and (self.address(device.address) or self._is_child(device))
        )

    def _is_child(self, device: PciDevice) -> bool:
        """The exact address of a PF also selects its VFs."""
        return self.single and device.parent_addr is not None and self.address(device.parent_addr)


def parse_specs(texts: Sequence[str]) -> tuple[DeviceSpec, ...]:
    """Raises InvalidConfiguration, which names the entry and the error. An entry may be a list of
    objects, as in Nova.
    """
    specs = []
    for text in texts:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise errors.InvalidConfiguration(f"{OPTION}: {text!r} is no JSON: {error}") from None
        for entry in value if isinstance(value, list) else [value]:
            if not isinstance(entry, dict):
                raise _wrong(text, "is no JSON object")
            specs.append(_spec(text, entry))
    return tuple(specs)


def _spec(text: str, fields: dict[str, Any]) -> DeviceSpec:
    if "address" in fields and "devname" in fields:
        raise _wrong(text, "has both address and devname: one of them chooses the devices")
    for name in _NOT_SERVED & fields.keys():
        raise _wrong(text, f"has {name}, which minova does not serve")
    # null means no value: Nova's examples use it for the physical_network of tunnelled networks.
    given_fields = [name for name in fields.keys() - _CHOOSING if fields[name] is not None]
    tags = tuple(sorted((name, _tag(text, name, fields[name])) for name in given_fields))
    address = fields.get("address") or "*:*:*.*"
    return DeviceSpec(
        text=text,
        vendor_id=_hex_id(text, fields, "vendor_id"),
        product_id=_hex_id(text, fields, "product_id"),
        address=_address(text, address),
        single=isinstance(address, str) and "*" not in _parts_of(text, address),
        devname=fields.get("devname"),
        tags=tags,
    )


def _hex_id(text: str, fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None or value == "*":
        return None
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise _wrong(text, f"{name} {value!r} is not four hexadecimal digits such as 8086")
    return value.lower()


def _tag(text: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(text, f"{name} {value!r} is no text")
    return value


def _address(text: str, value: Any) -> Callable[[str], bool]:
    if isinstance(value, str):
        parts = _parts_of(text, value)
        return lambda address: all(
            want in ("*", have) for have, want in zip(split_address(address), parts, strict=True)
        )
    if isinstance(value, dict):
        return _expressions(text, value)
    raise _wrong(text, f"address {value!r} is neither a text such as *:0a:00.* nor an object of expressions")


def _parts_of(text: str, value: str) -> tuple[str, ...]:
    """`0a:00.1` omits the domain, and `00.` also the bus, as in Nova: omitted parts match anything."""
    rest, _, function = value.partition(".")
    parts = [part.strip() or "*" for part in rest.split(":")]
    if len(parts) > 3:
        raise _wrong(text, f"address {value!r} is not like domain:bus:slot.function")
    parts = ["*"] * (3 - len(parts)) + parts + [function.strip() or "*"]
    return tuple(_part(text, value, part, width) for part, width in zip(parts, WIDTHS, strict=True))


def _part(text: str, value: str, part: str, width: int) -> str:
    digits = "[0-7]" if width == 1 else rf"[0-9a-fA-F]{{1,{width}}}"
    if part != "*" and not re.fullmatch(digits, part):
        expected = "a function of 0 to 7" if width == 1 else f"a hexadecimal number of {width} digits"
        raise _wrong(text, f"address {value!r}: {part!r} is neither * nor {expected}")
    return part if part == "*" else part.lower().zfill(width)


def _expressions(text: str, value: dict[str, Any]) -> Callable[[str], bool]:
    unknown = value.keys() - set(PARTS)
    if unknown:
        raise _wrong(text, f"address has {', '.join(sorted(unknown))}; its parts are {', '.join(PARTS)}")
    compiled = []
    for part in PARTS:
        try:
            compiled.append(re.compile(str(value.get(part, ".*"))))
        except re.error as error:
            raise _wrong(text, f"address {part} {value[part]!r} is no regular expression: {error}") from None
    return lambda address: all(
        pattern.match(have) for have, pattern in zip(split_address(address), compiled, strict=True)
    )


def split_address(address: str) -> tuple[str, str, str, str]:
    """Returns domain, bus, slot and function, with as many digits as Linux writes. Raises ValueError if it is no PCI
    address.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(f"{address!r} is no PCI address such as 0000:0a:00.1")
    domain, bus, slot, function = match.groups()
    return (domain or "0").lower().zfill(4), bus.lower().zfill(2), slot.lower().zfill(2), function


def _wrong(text: str, why: str) -> errors.InvalidConfiguration:
    return errors.InvalidConfiguration(f"{OPTION}: {text} {why}.")


def assignable(specs: Sequence[DeviceSpec], devices: Sequence[tuple[PciDevice, str | None]]) -> list[PciDevice]:
    """Returns the devices that an entry lets instances have. The first matching entry gives a device its tags.

    `devices`: each with the name of its network interface, if it has one. Raises ValueError if a device's address is
    invalid.
    """
    devices_found = []
    for device, devname in devices:
        spec = next((spec for spec in specs if spec.matches(device, devname)), None)
        if spec is not None:
            devices_found.append(msgspec.structs.replace(device, tags=spec.tags))
    return devices_found


def unmatched(specs: Sequence[DeviceSpec], devices: Sequence[tuple[PciDevice, str | None]]) -> list[str]:
    """Returns the entries that match no device of this host."""
    return [spec.text for spec in specs if not any(spec.matches(device, name) for device, name in devices)]
