"""`OS-DCF:diskConfig`: whether a guest's file system is to fill its disk.

As with Nova's libvirt driver it changes nothing about the disk, which is always as large as the flavor says: an image with
cloud-init grows its file system by itself. It is kept and shown.
"""

from collections.abc import Mapping
from typing import Literal

DiskConfig = Literal["AUTO", "MANUAL"]
# In `system_metadata`; a server without it is MANUAL.
KEY = "auto_disk_config"
# Of images: Nova's property and its newer name. "disabled" forbids AUTO.
PROPERTIES = ("hw_auto_disk_config", "auto_disk_config")


def to_metadata(chosen: DiskConfig | None) -> dict[str, str]:
    return {KEY: "True"} if chosen == "AUTO" else {}


def changed(metadata: Mapping[str, str], chosen: DiskConfig) -> dict[str, str]:
    """A server's `system_metadata` with another choice."""
    return {key: value for key, value in metadata.items() if key != KEY} | to_metadata(chosen)


def of_metadata(metadata: Mapping[str, str]) -> DiskConfig:
    return "AUTO" if metadata.get(KEY) == "True" else "MANUAL"


def of_image(properties: Mapping[str, str]) -> str:
    """`True`, `disabled` or another text, of no meaning."""
    return next((str(properties[name]) for name in PROPERTIES if name in properties), "")


def default_of(properties: Mapping[str, str]) -> DiskConfig:
    """Of servers that do not say."""
    return "AUTO" if of_image(properties).lower() in ("1", "t", "true", "on", "y", "yes") else "MANUAL"
