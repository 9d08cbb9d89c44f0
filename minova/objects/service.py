"""A running service, as operators see it."""

from datetime import datetime

import msgspec


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """`last_seen_up` is the last flushed heartbeat; whether it is up is computed from time, never stored.

    `down_reason` is the service's own word that it cannot work now (libvirtd is gone): it counts as down at once.
    """

    uuid: str
    host: str
    binary: str
    topic: str
    id: int = 0
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    down_reason: str | None = None
    version: int = 0
    last_seen_up: datetime | None = None
    availability_zone: str = "nova"


class ServiceInstructions(msgspec.Struct, frozen=True, kw_only=True):
    """What the conductor tells a service that registers or beats.

    `heartbeat_interval`: seconds until the next heartbeat. `audit_interval`: seconds between audits at the least, more in a
    cloud of many hosts.
    """

    service_uuid: str
    heartbeat_interval: float
    audit_interval: float = 0.0
