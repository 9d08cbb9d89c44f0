"""A running service, as operators see it."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import MAX_NODES, Count, Id, Line, Reason
from minova.objects.hosts.cloud import CloudState, WitnessRecord

CONDUCTOR = "minova-conductor"
# The version with which this release's services register: one more than the release before (see rpc_levels.py).
SERVICE_VERSION = 1
# The `down_reason` of a compute that has ended as asked.
STOPPED = "stopped"
# Replaces the names of other hosts in answers to a compute that is known by its broker user.
OTHER_HOST = "another host"

Names = Annotated[tuple[Line, ...], Meta(max_length=MAX_NODES)]


class HostIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies the machine and the process that register as the compute of a host.

    `compute_id`: the identity on the host's own disk; None if it has none yet.
    `process`: random for each process.
    `lock`: names the file that the process keeps locked, so that two processes with the same `lock` cannot live at the
    same time; None if that cannot be determined.
    `place`: where the process runs, for operators.
    `nodes`: the nodes that the driver reports; empty while the hypervisor does not answer.
    `console_addresses`: where the host serves consoles of guests.
    """

    process: Id
    compute_id: Id | None = None
    lock: Line | None = None
    place: Line = ""
    nodes: Names = ()
    console_addresses: Names = ()


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """`last_seen_up`: the last flushed heartbeat. Whether the service is up is computed from time, never stored.

    `down_reason`: the service's own report that it cannot work now (libvirtd is gone): it counts as down at once.
    `identity`: of a compute that registers; None from releases that have none.
    `seen`: what a service that registers has seen of its cloud; None from releases that keep nothing.
    """

    uuid: Id
    host: Line
    binary: Line
    topic: Line
    id: Count = 0
    disabled: bool = False
    disabled_reason: Line | None = None
    forced_down: bool = False
    down_reason: Reason | None = None
    version: Annotated[int, Meta(ge=0, le=9999)] = 0
    last_seen_up: datetime | None = None
    availability_zone: Line = "nova"
    identity: HostIdentity | None = None
    seen: WitnessRecord | None = None


class ServiceInstructions(msgspec.Struct, frozen=True, kw_only=True):
    """The conductor's answer to a service that registers or sends a heartbeat.

    `heartbeat_interval`: seconds until the next heartbeat.
    `audit_interval`: minimum seconds between audits; longer in a cloud of many hosts.
    `compute_id`: what a host without an identity must write to its disk.
    `former_hosts`: earlier names of the host, which may be in the marks of its domains.
    `epoch`: rises with each process that registers; 0 from releases that do not count.
    `levels`: by topic, the version of each contract that every service supports; empty from a conductor of a release
    that did not know it.
    `cloud`: the cloud that the conductor serves, and whether the service must change nothing; None from a conductor of
    release 0.1.0.
    """

    service_uuid: str
    heartbeat_interval: float
    audit_interval: float = 0.0
    compute_id: str | None = None
    former_hosts: tuple[str, ...] = ()
    epoch: int = 0
    levels: dict[str, str] = {}
    cloud: CloudState | None = None
