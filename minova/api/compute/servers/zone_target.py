"""What an availability zone names. Pure."""

import msgspec

from minova import errors


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is to go: anywhere in `zone`, or on the one host or node."""

    zone: str | None = None
    host: str | None = None
    node: str | None = None

    @property
    def forced(self) -> bool:
        return self.host is not None or self.node is not None


def place_of(zone_text: str | None) -> Place:
    """`zone`, `zone:host`, `zone:host:node` or `zone::node`. BadRequest: anything else."""
    if not zone_text:
        return Place()
    parts = zone_text.split(":")
    if len(parts) > 3 or len(zone_text) > 255 or not zone_text.isprintable():
        raise errors.BadRequest(
            "Invalid availability_zone: it must look like ZONE, ZONE:HOST, ZONE:HOST:NODE or ZONE::NODE."
        )
    zone, host, node = [*(part or None for part in parts), None, None][:3]
    return Place(zone=zone, host=host, node=node)
