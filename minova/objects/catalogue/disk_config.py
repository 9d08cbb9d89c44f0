"""`OS-DCF:diskConfig`: whether a guest's file system shall fill its disk.

As with Nova's libvirt driver, it does not change the disk, which always has the size of the flavor: an image with
cloud-init grows its file system by itself. The value is only stored and shown.
"""

from collections.abc import Mapping
from typing import Literal

DiskConfig = Literal["AUTO", "MANUAL"]
# The key in `system_metadata`. A server without it is MANUAL.
KEY = "auto_disk_config"
# Image properties: Nova's property and its newer name. "disabled" forbids AUTO.
PROPERTIES = ("hw_auto_disk_config", "auto_disk_config")


def to_metadata(chosen: DiskConfig | None) -> dict[str, str]:
    return {KEY: "True"} if chosen == "AUTO" else {}


def changed(metadata: Mapping[str, str], chosen: DiskConfig) -> dict[str, str]:
    """Returns a server's `system_metadata` with another choice."""
    return {key: value for key, value in metadata.items() if key != KEY} | to_metadata(chosen)


def of_metadata(metadata: Mapping[str, str]) -> DiskConfig:
    return "AUTO" if metadata.get(KEY) == "True" else "MANUAL"


def of_image(properties: Mapping[str, str]) -> str:
    """Returns `True`, `disabled`, or another text, which has no meaning."""
    return next((str(properties[name]) for name in PROPERTIES if name in properties), "")


def default_of(properties: Mapping[str, str]) -> DiskConfig:
    """Returns the default for servers whose request does not set it."""
    return "AUTO" if of_image(properties).lower() in ("1", "t", "true", "on", "y", "yes") else "MANUAL"
