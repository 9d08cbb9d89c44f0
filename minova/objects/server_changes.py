"""What users change of a server beside its state: its name, its metadata, its lock."""

import msgspec

from minova.objects.disk_config import DiskConfig

# Who has locked a server: the project that owns it, or an administrator of another one.
OWNER, ADMIN = "owner", "admin"
# Nova's: of one server.
MAX_TAGS = 50


class ServerChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What is None stays as it is.

    `access_ip_v4` and `access_ip_v6`: "" for none. `metadata`: these are set, and those that are None are removed;
    with `replace_metadata` all others are removed, too. `lock`: True locks, False unlocks. `description` and `pinned_zone`: None
    for none, UNSET stays. `tags`: all of them; `add_tag` and `remove_tag`: one.
    """

    name: str | None = None
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    metadata: dict[str, str | None] | None = None
    replace_metadata: bool = False
    lock: bool | None = None
    locked_reason: str | None = None
    description: str | msgspec.UnsetType | None = msgspec.UNSET
    hostname: str | None = None
    disk_config: DiskConfig | None = None
    pinned_zone: str | msgspec.UnsetType | None = msgspec.UNSET
    tags: tuple[str, ...] | None = None
    add_tag: str | None = None
    remove_tag: str | None = None
