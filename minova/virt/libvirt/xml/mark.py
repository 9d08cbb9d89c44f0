"""The mark of minova in a domain's metadata. Pure.

Values that users chose appear only here, as JSON strings: XML cannot represent every character, JSON can.
"""

import json
from functools import lru_cache
from xml.etree import ElementTree as ET

import msgspec

from minova.codecs import Decoder

NAMESPACE = "urn:minova:instance:1"

ET.register_namespace("minova", NAMESPACE)


class DomainMark(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata that marks a domain as minova's: its instance, its host and its build attempt.

    `lacks`: keys of its flavor and image that an earlier release built it without. None: written by a release that did not note it.
    """

    uuid: str
    host: str
    node: str
    attempt: int
    display_name: str
    project_id: str = ""
    user_id: str = ""
    flavor: str = ""
    image: str = ""
    metadata: dict[str, str] = {}
    lacks: tuple[str, ...] | None = None


_MARK = Decoder(DomainMark)


def domain_name(instance_uuid: str) -> str:
    """Returns the domain's name, which contains nothing that a user chose."""
    return f"instance-{instance_uuid}"


@lru_cache(maxsize=4096)  # each audit reads the marks of all guests, and they change only with a definition
def mark_of(xml: str) -> DomainMark | None:
    """Returns the mark in a domain's XML, or in the metadata element alone, from which libvirt drops the namespace.

    Returns None if there is no mark that minova wrote.
    """
    root = ET.fromstring(xml)
    tag = f"{{{NAMESPACE}}}instance"
    element = root if root.tag in {tag, "instance"} else root.find(f"metadata/{tag}")
    if element is None:
        return None
    try:
        values = {child.tag.rpartition("}")[2]: json.loads(child.text or "") for child in element}
        return _MARK.from_builtins(values)
    except (ValueError, msgspec.ValidationError):
        return None


def mark_element(mark: DomainMark) -> ET.Element:
    element = ET.Element(f"{{{NAMESPACE}}}instance")
    for key, value in msgspec.structs.asdict(mark).items():
        ET.SubElement(element, f"{{{NAMESPACE}}}{key}").text = json.dumps(value)
    return element
