"""Changes of a server by users apart from its state: its name, its metadata, its lock."""

import msgspec

from minova.objects.catalogue.disk_config import DiskConfig

# Who has locked a server: its own project, or an administrator of another project.
OWNER, ADMIN = "owner", "admin"
# Nova's limit for one server.
MAX_TAGS = 50


class ServerChanges(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is None is not changed.

    `access_ip_v4` and `access_ip_v6`: "" removes the address.
    `metadata`: sets these keys, and removes those whose value is None. `replace_metadata`: all other keys are removed,
    too.
    `lock`: True locks, False unlocks.
    `description` and `pinned_zone`: None removes the value, UNSET does not change it.
    `tags`: replaces all tags. `add_tag` and `remove_tag`: one tag.
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
