"""A running service, as operators see it."""

from datetime import datetime

import msgspec

CONDUCTOR = "minova-conductor"
# With which this release's services register: one more than the release before (see rpc_levels.py).
SERVICE_VERSION = 1


class HostIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which machine and which process register as the compute of a host.

    `compute_id`: the identity on the host's own disk; None when it has none yet. `process`: random for each process.
    `lock`: names the file that the process keeps locked, so that two processes with the same `lock` cannot live at the
    same time; None when that cannot be told. `place`: where the process runs, for people. `nodes`: the nodes that the
    driver reports; empty while the hypervisor does not answer. `console_addresses`: where the host serves consoles of guests.
    """

    process: str
    compute_id: str | None = None
    lock: str | None = None
    place: str = ""
    nodes: tuple[str, ...] = ()
    console_addresses: tuple[str, ...] = ()


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """`last_seen_up` is the last flushed heartbeat; whether it is up is computed from time, never stored.

    `down_reason` is the service's own word that it cannot work now (libvirtd is gone): it counts as down at once.
    `identity`: of a compute that registers; None from releases that have none.
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
    identity: HostIdentity | None = None


class ServiceInstructions(msgspec.Struct, frozen=True, kw_only=True):
    """What the conductor tells a service that registers or beats.

    `heartbeat_interval`: seconds until the next heartbeat. `audit_interval`: seconds between audits at the least, more in a
    cloud of many hosts. `compute_id`: what a host without an identity shall write to its disk. `former_hosts`: earlier names
    of the host, under which its domains may be marked. `epoch`: rises with each process that registers; 0 from releases
    that do not count. `levels`: the version of each contract that every service serves, by topic; empty from a
    conductor of a release that did not know it.
    """

    service_uuid: str
    heartbeat_interval: float
    audit_interval: float = 0.0
    compute_id: str | None = None
    former_hosts: tuple[str, ...] = ()
    epoch: int = 0
    levels: dict[str, str] = {}
